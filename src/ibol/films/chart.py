"""Paths seen from above, or in one dimension over time, as pictures that grow with time."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

Image = NDArray[np.uint8]  # (height, width, 3)

_FINE = 3  # drawn larger and shrunk, for smooth lines
_PAPER, _GRID, _INK = (250, 250, 248), (226, 228, 230), (90, 96, 102)
_FREE = 0.18  # of the height: the name of the tile stands above the numbers of the axis


class Chart:
    """Draws paths (N, T + 1, 1 or 2) in their colours (N, 3), all on the same scale, with goals if there are any.

    `names` and the `unit` are those of both axes; a `title` stands at the lower edge.
    """

    def __init__(
        self,
        paths: NDArray[np.floating],
        colours: NDArray[np.floating],
        width: int,
        height: int,
        seconds: float,
        goals: NDArray[np.floating] | None = None,
        *,
        names: tuple[str, str] = ("x", "y"),
        unit: str = "m",
        title: str = "",
    ) -> None:
        steps, count = paths.shape[1], len(paths)
        paths = paths if goals is None else np.concatenate([paths, goals])
        if paths.shape[2] == 1:  # the place to the right, time downwards
            time = np.broadcast_to(np.arange(steps) * seconds, paths.shape[:2])
            points = np.stack([paths[:, :, 0], -time], axis=2)
            low = np.array([points[..., 0].min(), points[..., 1].min()])
            high = np.array([points[..., 0].max(), 0.0])
            self._scale = 0.76 * np.array([width, height]) / np.maximum(high - low, 1e-3)
        else:
            points = paths
            low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
            self._scale = np.full(2, 0.76 * float((np.array([width, height]) / np.maximum(high - low, 1e-3)).min()))
        self._size, self._names, self._title = (width, height), tuple(f"{name} ({unit})" for name in names), title
        self._middle = (low + high) / 2
        self._pixels, self._goals = np.split(self._place(points), [count])
        self._colours = [tuple(round(255 * float(value)) for value in colour) for colour in colours]
        self._ground = self._grid(paths.shape[2])
        self._drawn: dict[int | None, tuple[int, Pictures.Image]] = {}  # how far paths are drawn, and on what

    def draw(self, step: int, chosen: int | None = None) -> Image:
        """All paths, or the chosen one, up to a step."""
        shown = range(len(self._pixels)) if chosen is None else [chosen]
        picture = self._lines(step, chosen).copy()
        pen = ImageDraw.Draw(picture)
        for i in shown:
            if len(self._goals):
                (x, y), r = self._goals[i, step], 5 * _FINE
                for slope in (-1, 1):
                    pen.line(((x - r, y - slope * r), (x + r, y + slope * r)), fill=self._colours[i], width=2 * _FINE)
            (x, y), r = self._pixels[i, step], 4 * _FINE
            pen.ellipse((x - r, y - r, x + r, y + r), fill=self._colours[i], outline=(255, 255, 255), width=_FINE)
        return np.asarray(picture.reduce(_FINE))

    def places(self, metres: NDArray[np.floating]) -> NDArray[np.floating]:
        """Where places (..., 2) are in the picture, in pixels from its upper left corner."""
        return self._place(metres) / _FINE

    def _lines(self, step: int, chosen: int | None) -> Pictures.Image:
        """The paths up to a step: those up to an earlier one, and what was added since."""
        before, picture = self._drawn.get(chosen, (0, self._ground))
        if before > step:
            before, picture = 0, self._ground
        if step > before:
            picture = picture.copy()
            pen = ImageDraw.Draw(picture)
            for i in range(len(self._pixels)) if chosen is None else [chosen]:
                points = [tuple(point) for point in self._pixels[i, max(before - 1, 0) : step + 1]]
                pen.line(points, fill=self._colours[i], width=2 * _FINE, joint="curve")
        self._drawn[chosen] = step, picture
        return picture

    def _place(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Where points are in the large picture."""
        x, y = np.moveaxis((points - self._middle) * self._scale, -1, 0)
        return _FINE * np.stack([self._size[0] / 2 + x, self._size[1] / 2 - y], axis=-1)

    def _grid(self, dims: int) -> Pictures.Image:
        """Lines at round numbers, with their numbers below and at the left, and what they are at the ends."""
        width, height = (_FINE * pixels for pixels in self._size)
        picture = Pictures.new("RGB", (width, height), _PAPER)
        pen, font = ImageDraw.Draw(picture), ImageFont.load_default(max(9 * _FINE, width // 26))
        spans = np.array(self._size) / self._scale
        gaps = [_round(span / 4) for span in (spans if dims == 1 else [spans.min()] * 2)]
        for axis, gap in enumerate(gaps):
            first = np.ceil((self._middle[axis] - spans[axis] / 2) / gap)
            last = np.floor((self._middle[axis] + spans[axis] / 2) / gap)
            for number in np.arange(first, last + 1) * gap:
                at = float(self._place(np.array([number, 0.0] if axis == 0 else [0.0, number]))[axis])
                ends = ((at, 0), (at, height)) if axis == 0 else ((0, at), (width, at))
                pen.line(ends, fill=_GRID, width=_FINE * (2 if number == 0 else 1))
                text = f"{abs(number) if dims == 1 and axis else number + 0.0:g}"
                if axis == 0 and 0.12 < at / width < 0.8:
                    pen.text((at, height - 4 * _FINE), text, _INK, font, anchor="ms")
                if axis == 1 and _FREE + 0.12 < at / height < 0.88:
                    pen.text((4 * _FINE, at), text, _INK, font, anchor="lm")
        pen.text((width - 4 * _FINE, height - 4 * _FINE), self._names[0], _INK, font, anchor="rs")
        name = "time (s)" if dims == 1 else self._names[1]
        pen.text((4 * _FINE, _FREE * height), name, _INK, font, anchor="lm")
        if self._title:
            small = ImageFont.load_default(max(8 * _FINE, width // 34))
            pen.text((width / 2, height - 10 * _FINE - max(9 * _FINE, width // 26)), self._title, _INK, small, "ms")
        return picture


def _round(value: float) -> float:
    """1, 2 or 5 times a power of ten, near the value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * min((1, 2, 5, 10), key=lambda digit: abs(digit - value / power)))
