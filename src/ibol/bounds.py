"""Which numbers settings may have, written as the type of the field they belong to and checked wherever a run starts.

epochs: Count = 300
discount: Fraction = 0.99

What needs more than its own number to be judged is judged where it is used.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from ibol.errors import IbolError


@dataclass(frozen=True)
class Bounds:
    """The numbers from `low` to `high`; `low` itself is one of them unless `above`."""

    low: float
    high: float = math.inf
    above: bool = False

    def refusal(self, value: float) -> str:
        """What is wrong with a number that is none of them, or nothing; NaN never is one."""
        if not (value > self.low if self.above else value >= self.low):
            return f"{'more than' if self.above else 'at least'} {self.low:g} is needed"
        return "" if value <= self.high else f"at most {self.high:g} is allowed"


Natural = Annotated[int, Bounds(0)]
Count = Annotated[int, Bounds(1)]
NonNegative = Annotated[float, Bounds(0)]
Positive = Annotated[float, Bounds(0, above=True)]
Fraction = Annotated[float, Bounds(0, 1)]
PositiveFraction = Annotated[float, Bounds(0, 1, above=True)]


def check(settings: Any) -> None:
    """Refuse settings (a dataclass, which may hold others) with a number outside of its bounds."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            check(value)
            continue
        for bounds in _bounds(hints[field.name]):
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float) and (wrong := bounds.refusal(number)):
                    raise IbolError(f"{field.name.rstrip('_')} is {number}, but {wrong}")


def _bounds(hint: Any) -> Iterator[Bounds]:
    """All bounds in a type, such as those in `tuple[Count, ...] | None`."""
    if get_origin(hint) is Annotated:
        yield from (extra for extra in hint.__metadata__ if isinstance(extra, Bounds))
    for part in get_args(hint):
        if part is not Ellipsis:
            yield from _bounds(part)
