"""Errors that one sentence explains, so that the command line can print them without a traceback."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class IbolError(Exception):
    """What was wrong, what is allowed and what to do, in one sentence."""


@contextmanager
def naming(flag: str) -> Iterator[None]:
    """Within it, errors also name the flag that what is wrong came from."""
    try:
        yield
    except IbolError as error:
        raise type(error)(f"{error} ({flag})") from None


def unknown(kind: str, name: str, choices: Iterable[str], hint: str = "") -> IbolError:
    """The error for a `name` that is none of the `choices`, with the nearest match and the whole list."""
    names = sorted(choices)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    listed = ", ".join(names) if names else "none"
    return IbolError(f"unknown {kind} {name!r}: {guess}choose one of {listed}{hint}")
