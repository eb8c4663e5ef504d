"""Parsing, for all commands."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

import tyro

from ibol import bounds, outside, trust
from ibol.cli.help import Help
from ibol.cli.mistakes import Elsewhere, flattened, mistake
from ibol.cli.options import options_of
from ibol.errors import IbolError

TrustEnv = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="NAME",
        help="Allow runs to use this environment, which is part of neither ibol nor Gymnasium: its code is executed. "
        "May be given several times.",
    ),
]
TrustMethod = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="NAME",
        help="Allow runs to import this module of a method: its code is executed. May be given several times.",
    ),
]


class HelpAsked(Exception):
    """The command line asks for help, which `help` has; `everything` is for `--help-all`."""

    def __init__(self, help: Help, *, everything: bool) -> None:
        super().__init__(help.command)
        self.help, self.everything = help, everything


def parse(
    kind: Any,
    argv: Sequence[str],
    command: str,
    description: str,
    default: Any = None,
    *,
    first: Sequence[str] = (),
    examples: Sequence[str] = (),
    elsewhere: Elsewhere = lambda flag: "",
) -> Any:
    """Parse with tyro; the flags of nested settings carry no prefix.

    `first` are the flags that the help shows first, `examples` commands for it, and `elsewhere` says of a flag that
    this command does not have where it belongs.
    """
    if asked := {"-h", "--help", "--help-all"} & set(argv):
        options = tuple(options_of(kind, default))
        raise HelpAsked(
            Help(command, description, options, tuple(first), tuple(examples)), everything="--help-all" in asked
        )
    for i, arg in enumerate(argv):
        _check_argument(arg, argv[i - 1] if i else "")
    defaults = {} if default is None else {"default": default}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            given = tyro.cli(
                kind, args=argv, prog=f"ibol {command}", description=description, config=(tyro.conf.OmitArgPrefixes,),
                **defaults,
            )  # fmt: skip
    except SystemExit:
        options_here = options_of(kind, default)
        raise mistake(argv, command, options_here, elsewhere) or flattened(said.getvalue(), command) from None
    bounds.check(given, flags=True)
    _find_modules_here(given)
    return given


def _find_modules_here(given: Any) -> None:
    """Look for the modules of environments and methods that the user names in the working directory, too.

    It comes last, so that nothing there can stand in the place of an installed module.
    """
    parts = (given, getattr(given, "common", None))
    named = [name for part in parts for name in (getattr(part, "env", ""), *getattr(part, "trust_env", ()))]
    methods = [name for part in parts for name in getattr(part, "trust_method", ())]
    if any(":" in str(name) for name in named) or any(map(outside.is_module, methods)):
        look_here()


def look_here() -> None:
    """Look for modules in the working directory, too; it comes last."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def trusting(given: Any) -> AbstractContextManager[None]:
    """Within it, what the user has given to --trust-env and --trust-method is trusted."""
    return trust.both(given.trust_env, given.trust_method)


def peek(argv: Sequence[str], flag: str, default: str = "") -> str:
    """The last value of a flag that must be known before the others' defaults are."""
    value = default
    for i, arg in enumerate(argv):
        if arg.startswith(f"{flag}="):
            value = arg.partition("=")[2]
        elif arg == flag and i + 1 < len(argv):
            value = argv[i + 1]
    return value


def _check_argument(arg: str, before: str) -> None:
    """Refuse an argument that is nothing, or no text; `before` is the one before it."""
    flag, equals, value = arg.partition("=") if arg.startswith("--") else (before, "=", arg)
    named = flag if flag.startswith("--") else "an argument"
    if not bounds.is_text(arg):
        raise IbolError(f"{named} is {value!r}, which is not valid text: give names and paths in UTF-8")
    if equals and not value:
        raise IbolError(f"{named} is empty: give it a value or leave it out")
