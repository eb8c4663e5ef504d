"""Parsing, for all commands."""

import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from ibol import bounds, trust

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
    options = {} if default is None else {"default": default}
    config = (tyro.conf.OmitArgPrefixes,)
    given = tyro.cli(kind, args=argv, prog=f"ibol {command}", description=description, config=config, **options)
    bounds.check(given)
    return given


def peek(argv: Sequence[str], flag: str) -> str | None:
    """The value of a flag that must be known before the others' defaults are."""
    for i, arg in enumerate(argv):
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
        if arg == flag and i + 1 < len(argv):
            return argv[i + 1]
    return None


def trust_flag(env: str) -> str:
    """What a command needs to be given for runs of an environment; nothing for ours and Gymnasium's own."""
    return "" if trust.is_harmless(env) else f" --trust-env {shlex.quote(env)}"
