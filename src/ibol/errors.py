"""Errors that one sentence explains, so that the command line can print them without a traceback."""

import difflib
from collections.abc import Iterable


class IbolError(Exception):
    """What was wrong, what is allowed and what to do, in one sentence."""


def unknown(kind: str, name: str, choices: Iterable[str], hint: str = "") -> IbolError:
    """The error for a `name` that is none of the `choices`, with the nearest match and the whole list."""
    names = sorted(choices)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    listed = ", ".join(names) if names else "none"
    return IbolError(f"unknown {kind} {name!r}: {guess}choose one of {listed}{hint}")
