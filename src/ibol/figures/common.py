"""What figures share: their size, colours that the colour-blind can distinguish, and how a figure becomes a file."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from ibol.errors import IbolError

PAGE = 7.0
"""Inches: no figure is wider, so that its letters keep their size on a page."""
COLUMNS = 4
"""Panels beside each other at most; more wrap into rows."""
SMALL, NORMAL = 7, 8
"""Points of letters."""
_OF_METHOD = {
    "IBOL": "#0072B2", "DIAYN": "#E69F00", "VALOR": "#009E73", "DADS": "#CC79A7", "METRA": "#D55E00", "LSD": "#56B4E9",
    "CSD": "#8C6D31", "CSF": "#7F7F7F", "EDL": "#332288", "SeCTAR": "#882255", "SAC": "#000000",
}  # fmt: skip
_OTHERS = ("#F0E442", "#44AA99", "#999933")
_LEAST = {"nats": 0.5, "m": 1.0, "cells": 10.0, "degrees": 10.0, "steps": 10.0}
_EMBEDDED: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "path"}  # letters are inside the file
Item = TypeVar("Item")
_also: ContextVar[tuple[str, ...]] = ContextVar("also", default=())


def method_colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label; a method's first label has the same one in all figures, and no other method has it."""
    distinct = list(dict.fromkeys(labels))
    colours: dict[str, str] = {}
    for label in distinct:
        own = next((colour for name, colour in _OF_METHOD.items() if label.startswith(name)), None)
        if own is not None and own not in colours.values():
            colours[label] = own
    free = [colour for colour in (*_OTHERS, *_OF_METHOD.values()) if colour not in colours.values()] or [*_OTHERS]
    rest = [label for label in distinct if label not in colours]
    colours |= {label: free[i % len(free)] for i, label in enumerate(rest)}
    return {label: colours[label] for label in distinct}


def wrapped(text: str, inches: float, size: float = NORMAL) -> str:
    """The text in lines that fit into a width; its own line breaks stay."""
    letters = max(8, int(inches * 72 / (0.56 * size)))
    lines = (textwrap.wrap(line, letters, break_long_words=False) for line in text.splitlines())
    return "\n".join(piece for line in lines for piece in line)


def in_rows(panels: Sequence[Item], columns: int = COLUMNS) -> list[Sequence[Item]]:
    """Rows of at most so many panels, as equal as can be."""
    if not panels:
        return []
    rows = -(-len(panels) // columns)
    width = -(-len(panels) // rows)
    return [panels[i : i + width] for i in range(0, len(panels), width)]


def plain_numbers(axes: Axes) -> None:
    """Numbers at the axes as they are, without an offset or a power beside them."""
    for axis in (axes.xaxis, axes.yaxis):
        formatter = axis.get_major_formatter()
        for name in ("set_useOffset", "set_scientific"):
            if hasattr(formatter, name):
                getattr(formatter, name)(False)
    axes.tick_params(labelsize=SMALL)


def wide_enough(values: Iterable[float], unit: str = "") -> tuple[float, float]:
    """Limits of an axis that show all values, but no less than what matters of this unit, nor a quarter of them."""
    finite = np.array([value for value in values if np.isfinite(value)], float)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    least = max(_LEAST.get(unit, 0.1), 0.25 * max(abs(low), abs(high)))
    missing = max(0.0, least - (high - low)) / 2
    margin = 0.06 * max(high - low, least)
    return low - missing - margin, high + missing + margin


@contextmanager
def also_as(*endings: str) -> Iterator[None]:
    """Within it, figures are written in these formats, too, beside the one that is asked for."""
    token = _also.set(endings)
    try:
        yield
    finally:
        _also.reset(token)


def save(figure: Figure, output: Path) -> None:
    """Write the figure in the format that the file's ending names; a `$` in a name is a `$`, and begins no formula."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if "$" in text.get_text() and r"\math" not in text.get_text():  # the numbers of an axis may be formulas
            text.set_parse_math(False)
    try:
        with rc_context(_EMBEDDED):
            for place in (output, *(output.with_suffix(ending) for ending in _also.get())):
                figure.savefig(place, dpi=200)
    except (OSError, ValueError) as error:
        raise IbolError(f"could not write {output}: {error}") from None
