"""Parsing, for all commands."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

import tyro

from ibol import bounds, outside, trust
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
TrustMethod = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(
        metavar="NAME",
        help="A method's module that may be imported for the runs, which runs its code; may be given several times.",
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
        raise IbolError(f"{named} is {value!r}, which is no text: give names and paths in UTF-8")
    if equals and not value:
        raise IbolError(f"{named} is empty: give it a value or leave it out")
