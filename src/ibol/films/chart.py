"""Paths seen from above, or in one dimension over time, as pictures that grow with time."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pictures
from PIL import ImageDraw, ImageFont

Image = NDArray[np.uint8]  # (height, width, 3)

_FINE = 3  # drawn larger and shrunk, for smooth lines
_PAPER, _GRID, _INK = (250, 250, 248), (226, 228, 230), (110, 116, 122)


class Chart:
    """Draws paths (N, T + 1, 1 or 2) in their colours (N, 3), all on the same scale, with goals if there are any.

    `unit` is that of both axes; a `title` stands at the lower edge.
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
            self._scale = 0.82 * np.array([width, height]) / np.maximum(high - low, 1e-3)
        else:
            points = paths
            low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
            self._scale = np.full(2, 0.82 * float((np.array([width, height]) / np.maximum(high - low, 1e-3)).min()))
        self._size, self._unit, self._title = (width, height), unit, title
        self._middle = (low + high) / 2
        self._pixels, self._goals = np.split(self._place(points), [count])
        self._colours = [tuple(round(255 * float(value)) for value in colour) for colour in colours]
        self._ground = self._grid(paths.shape[2])

    def draw(self, step: int, chosen: int | None = None) -> Image:
        """All paths, or the chosen one, up to a step."""
        picture = self._ground.copy()
        pen = ImageDraw.Draw(picture)
        for i in range(len(self._pixels)) if chosen is None else [chosen]:
            if len(self._goals):
                (x, y), r = self._goals[i, step], 5 * _FINE
                for slope in (-1, 1):
                    pen.line(((x - r, y - slope * r), (x + r, y + slope * r)), fill=self._colours[i], width=2 * _FINE)
            points = [tuple(point) for point in self._pixels[i, : step + 1]]
            if len(points) > 1:
                pen.line(points, fill=self._colours[i], width=2 * _FINE, joint="curve")
            (x, y), r = points[-1], 4 * _FINE
            pen.ellipse((x - r, y - r, x + r, y + r), fill=self._colours[i], outline=(255, 255, 255), width=_FINE)
        return np.asarray(picture.resize(self._size, Pictures.Resampling.LANCZOS))

    def _place(self, points: NDArray[np.floating]) -> NDArray[np.floating]:
        """Where points are in the large picture."""
        x, y = np.moveaxis((points - self._middle) * self._scale, -1, 0)
        return _FINE * np.stack([self._size[0] / 2 + x, self._size[1] / 2 - y], axis=-1)

    def _grid(self, dims: int) -> Pictures.Image:
        """Lines at round numbers, with the unit along x."""
        width, height = self._size
        picture = Pictures.new("RGB", (_FINE * width, _FINE * height), _PAPER)
        pen, font = ImageDraw.Draw(picture), ImageFont.load_default(_FINE * max(9, width // 26))
        spans = np.array(self._size) / self._scale
        gaps = [_round(span / 4) for span in (spans if dims == 1 else [spans.min()] * 2)]
        for axis, gap in enumerate(gaps):
            first = np.ceil((self._middle[axis] - spans[axis] / 2) / gap)
            last = np.floor((self._middle[axis] + spans[axis] / 2) / gap)
            for number in np.arange(first, last + 1) * gap:
                place = np.array([number, 0.0] if axis == 0 else [0.0, number])
                at = float(self._place(place)[axis])
                ends = ((at, 0), (at, _FINE * height)) if axis == 0 else ((0, at), (_FINE * width, at))
                pen.line(ends, fill=_GRID, width=_FINE * (2 if number == 0 else 1))
                if axis == 0 and 0.08 < at / (_FINE * width) < 0.92:
                    pen.text((at, _FINE * (height - 6)), f"{number + 0.0:g} {self._unit}", _INK, font, anchor="ms")
        if self._title:
            small = ImageFont.load_default(_FINE * max(8, width // 34))
            pen.text((_FINE * width / 2, _FINE * (height - 10 - max(9, width // 26))), self._title, _INK, small, "ms")
        return picture


def _round(value: float) -> float:
    """1, 2 or 5 times a power of ten, near the value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * min((1, 2, 5, 10), key=lambda digit: abs(digit - value / power)))
