"""What settings and arguments may be: the type of a setting's field says it, and `check` holds wherever a run starts.

epochs: Count = 300
discount: Fraction = 0.99

What needs more than its own value to be judged is judged where it is used; `whole_number` and `array` are for arguments
of functions. Everything that is wrong is an `IbolError` of one sentence, and no number passes that is not finite.
"""

import dataclasses
import functools
import math
import os
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ibol.errors import IbolError

_LARGEST = 2**63 - 1  # what NumPy's integers hold
BINS = (2, 10_000)  # fewer say nothing, more are finer than the numbers
_WHOLE = 2**31 - 1  # what JAX takes for a number
_HIGHEST = 1e38  # what the networks' numbers hold
Wrong = tuple[Any, str]  # a value, and what is needed instead


@dataclass(frozen=True)
class Bounds:
    """The numbers from `low` to `high`; `low` itself is one of them unless `above`."""

    low: float
    high: float = math.inf
    above: bool = False

    def refusal(self, value: float) -> str:
        """What is wrong with a number that is none of them, or nothing."""
        if not (value > self.low if self.above else value >= self.low):
            return f"{'more than' if self.above else 'at least'} {self.low:g} is needed"
        return "" if value <= self.high else f"at most {self.high:g} is allowed"


@dataclass(frozen=True)
class NotEmpty:
    """Of a tuple: it has at least one value."""

    def refusal(self, value: tuple[Any, ...]) -> str:
        """What is wrong with an empty one, or nothing."""
        return "" if value else "at least one value is needed"


Natural = Annotated[int, Bounds(0, _LARGEST)]
"""A whole number from 0."""
Count = Annotated[int, Bounds(1, _LARGEST)]
"""A whole number from 1."""
Counts = Annotated[tuple[Count, ...], NotEmpty()]
"""At least one whole number from 1."""
Threads = Annotated[int, Bounds(1, 1024)]
"""A whole number from 1 to 1024."""
Bins = Annotated[int, Bounds(*BINS)]
"""A whole number from 2 to 10 000."""
NonNegative = Annotated[float, Bounds(0)]
"""A number from 0."""
Positive = Annotated[float, Bounds(0, above=True)]
"""A number above 0."""
Fraction = Annotated[float, Bounds(0, 1)]
"""A number from 0 to 1."""
PositiveFraction = Annotated[float, Bounds(0, 1, above=True)]
"""A number above 0, at most 1."""


def check(settings: Any, *, flags: bool = False) -> None:
    """Refuse settings (a dataclass, which may hold others) with a value that its field's type does not allow.

    The error names the field, or with `flags` the flag of the command line that sets it.
    """
    kind: Any = type(settings)
    for name, find in _checks(kind):
        value = getattr(settings, name)
        if dataclasses.is_dataclass(value):
            check(value, flags=flags)
        if wrong := find(value):
            name = name.rstrip("_")
            said = f"--{name.replace('_', '-')}" if flags else name
            raise IbolError(f"{said} is {_shown(wrong[0])}, but {wrong[1]}")


def whole_number(name: str, value: Any, least: int = 1, most: int = _LARGEST) -> int:
    """A size or a seed as an integer; nothing that is merely equal to one is taken for it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise IbolError(f"{name} is {_shown(value)}, but a whole number of at least {least} is needed")
    if value > most:
        raise IbolError(f"{name} is {_shown(value)}, but at most {most} is allowed")
    return int(value)


def yes_or_no(name: str, value: Any) -> bool:
    """A switch."""
    if not isinstance(value, bool | np.bool_):
        raise IbolError(f"{name} is {_shown(value)}, but True or False is needed")
    return bool(value)


def array(name: str, values: ArrayLike, *shape: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Finite numbers of a shape such as ("N", 2), where a word is any size but 0; `...` first is any shape before."""
    try:
        given = np.asarray(values)
    except ValueError:  # rows of different lengths
        given = np.array(None)
    if given.dtype.kind not in "fiub":
        raise IbolError(f"{name} are of type {given.dtype.name}, but numbers of shape {_written(shape)} are needed")
    sizes = shape[1:] if shape[0] is ... else shape
    ends = given.shape if sizes is shape else given.shape[-len(sizes) :]
    if ends != sizes and not _fits(ends, sizes):
        more = ", and at least one of each" if 0 in given.shape else ""
        raise IbolError(f"{name} have shape {given.shape}, but {_written(shape)} is needed{more}")
    if dtype is not None and given.dtype != dtype:
        with np.errstate(over="ignore"):
            given = given.astype(dtype)
    # A finite sum of squares is the fastest proof; one that is not may only be too large.
    if given.dtype.kind == "f" and not math.isfinite(np.vdot(given, given)) and not np.isfinite(given).all():
        raise IbolError(f"{name} have values that are not finite")
    return given


def _fits(ends: tuple[int, ...], sizes: tuple[Any, ...]) -> bool:
    return len(ends) == len(sizes) and all(
        size == wanted or (isinstance(wanted, str) and size > 0) for size, wanted in zip(ends, sizes, strict=True)
    )


def path(name: str, value: Any) -> Path:
    """The path of a file or directory."""
    if not isinstance(value, str | os.PathLike) or not str(value) or not is_text(str(value)):
        raise IbolError(f"{name} is {_shown(value)}, but a path is needed")
    return Path(value)


def is_text(value: str) -> bool:
    """Whether a string can be printed and be a path: some bytes of a command line or of JSON cannot."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


@functools.cache
def _checks(kind: Any) -> list[tuple[str, Callable[[Any], Wrong | None]]]:
    """The fields of a dataclass, and what finds out what is wrong with a value there."""
    hints = get_type_hints(kind, include_extras=True)
    return [(field.name, _check_of(hints[field.name])) for field in dataclasses.fields(kind)]


def _check_of(hint: Any) -> Callable[[Any], Wrong | None]:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [extra for extra in hint.__metadata__ if isinstance(extra, Bounds | NotEmpty)]
        return functools.partial(_limited, _check_of(parts[0]), limits)
    if origin in (Union, types.UnionType):
        return functools.partial(_optional, [_check_of(part) for part in parts if part is not types.NoneType])
    if origin is Literal:
        return functools.partial(_chosen, parts)
    if origin is tuple:
        return functools.partial(_several, _check_of(parts[0]))
    if origin is dict:
        return lambda value: None if isinstance(value, dict) else (value, "values by name are needed")
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        return lambda value: None if isinstance(value, kind) else (value, "settings are needed")
    return _SIMPLE.get(hint, lambda value: None)


def _limited(find: Callable[[Any], Wrong | None], limits: Iterable[Any], value: Any) -> Wrong | None:
    wrong = find(value)
    return wrong or next(((value, said) for limit in limits if (said := limit.refusal(value))), None)


def _optional(finds: list[Callable[[Any], Wrong | None]], value: Any) -> Wrong | None:
    found = [] if value is None else [find(value) for find in finds]
    return None if None in found or not found else found[0]


def _chosen(choices: tuple[Any, ...], value: Any) -> Wrong | None:
    fits = any(type(value) is type(choice) and value == choice for choice in choices)
    return None if fits else (value, f"it must be one of {', '.join(map(str, choices))}")


def _several(find: Callable[[Any], Wrong | None], value: Any) -> Wrong | None:
    if not isinstance(value, tuple):
        return value, "several values are needed"
    return next((wrong for one in value if (wrong := find(one))), None)


def _whole(value: Any) -> Wrong | None:
    return None if isinstance(value, int) and not isinstance(value, bool) else (value, "a whole number is needed")


def _number(value: Any) -> Wrong | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value, "a number is needed"
    if not abs(value) < math.inf:
        return value, "a finite number is needed"
    if isinstance(value, int) and abs(value) > _WHOLE:
        return value, f"at most {_WHOLE} is allowed without a decimal point"
    return None if abs(value) <= _HIGHEST else (value, f"at most {_HIGHEST:g} is allowed")


def _text(kind: type[Any], needed: str, value: Any) -> Wrong | None:
    if not isinstance(value, kind):
        return value, f"{needed} is needed"
    return None if is_text(str(value)) else (value, "it has characters that no text has")


_SIMPLE: dict[Any, Callable[[Any], Wrong | None]] = {
    int: _whole,
    float: _number,
    bool: lambda value: None if isinstance(value, bool) else (value, "true or false is needed"),
    str: functools.partial(_text, str, "text"),
    Path: functools.partial(_text, Path, "a path"),
}


def _shown(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, tuple) and not value:
        return "empty"
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _written(shape: tuple[Any, ...]) -> str:
    """A shape as its reader knows it: (N, 2)."""
    sizes = ["..." if size is ... else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
