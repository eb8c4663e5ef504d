"""Parsing, for all commands."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from ibol import bounds, trust
from ibol.errors import IbolError

TrustEnv = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="NAME",
        help="An environment that may be made for the runs although it is neither ours nor Gymnasium's own, which runs "
        "its code; may be given several times.",
    ),
]


def parse(kind: Any, argv: Sequence[str], command: str, description: str, default: Any = None) -> Any:
    """Parse with tyro; the flags of nested settings carry no prefix."""
    for i, arg in enumerate(argv):
        _check_argument(arg, argv[i - 1] if i else "")
    options = {} if default is None else {"default": default}
    config = (tyro.conf.OmitArgPrefixes,)
    given = tyro.cli(kind, args=argv, prog=f"ibol {command}", description=description, config=config, **options)
    bounds.check(given, flags=True)
    _find_modules_here(given)
    return given


def _find_modules_here(given: Any) -> None:
    """Look for the module of an environment module:function that the user names in the working directory, too.

    It comes last, so that nothing there can stand in the place of an installed module.
    """
    parts = (given, getattr(given, "common", None))
    named = [name for part in parts for name in (getattr(part, "env", ""), *getattr(part, "trust_env", ()))]
    if any(":" in str(name) for name in named) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def peek(argv: Sequence[str], flag: str, default: str = "") -> str:
    """The last value of a flag that must be known before the others' defaults are."""
    value = default
    for i, arg in enumerate(argv):
        if arg.startswith(f"{flag}="):
            value = arg.partition("=")[2]
        elif arg == flag and i + 1 < len(argv):
            value = argv[i + 1]
    return value


def trust_flag(env: str) -> str:
    """What a command needs to be given for runs of an environment; nothing for ours and Gymnasium's own."""
    return "" if trust.is_harmless(env) else f" --trust-env {shlex.quote(env)}"


def _check_argument(arg: str, before: str) -> None:
    """Refuse an argument that is nothing, or no text; `before` is the one before it."""
    flag, equals, value = arg.partition("=") if arg.startswith("--") else (before, "=", arg)
    named = flag if flag.startswith("--") else "an argument"
    if not bounds.is_text(arg):
        raise IbolError(f"{named} is {value!r}, which is no text: give names and paths in UTF-8")
    if equals and not value:
        raise IbolError(f"{named} is empty: give it a value or leave it out")
