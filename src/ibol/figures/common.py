"""What figures share: colours that the colour-blind can distinguish, and how a figure becomes a file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from ibol.errors import IbolError

_OF_METHOD = {
    "IBOL": "#0072B2", "DIAYN": "#E69F00", "VALOR": "#009E73", "DADS": "#CC79A7",
    "METRA": "#D55E00", "LSD": "#56B4E9", "CSD": "#8C6D31", "CSF": "#7F7F7F",
}  # fmt: skip
_also: ContextVar[tuple[str, ...]] = ContextVar("also", default=())
_OTHERS = ("#D55E00", "#56B4E9", "#000000", "#8C6D31", "#7F7F7F", "#F0E442")


def method_colours(labels: Sequence[str]) -> dict[str, str]:
    """A colour for each label; a method's first label has the same one in all figures."""
    colours: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        own = next((colour for name, colour in _OF_METHOD.items() if label.startswith(name)), None)
        free = [colour for colour in (*_OTHERS, *_OF_METHOD.values()) if colour not in colours.values()]
        colours[label] = own if own is not None and own not in colours.values() else (free or _OTHERS)[0]
    return colours


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
        for place in (output, *(output.with_suffix(ending) for ending in _also.get())):
            figure.savefig(place, dpi=150)
    except (OSError, ValueError) as error:
        raise IbolError(f"could not write {output}: {error}") from None
