"""Where skills go: the paper's trajectory pictures, coloured by the latent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.figures.common import save
from ibol.skills.latents import COLOUR_RANGE, COLOUR_SCALE, Prior

LOCATION_AXES = ("x (m)", "y (m)")
_MANY = 200


@dataclass(frozen=True)
class SkillPicture:
    """One panel: episodes and their latents."""

    title: str
    latents: NDArray[np.float32]  # (N, d)
    paths: NDArray[np.float32]  # (N, T + 1, 1 or 2), the locations
    prior: Prior  # of the latents
    random: bool = True  # random latents have no order of their own
    axes: tuple[str, str] = LOCATION_AXES


def latent_colours(latents: NDArray[np.float32], prior: Prior) -> NDArray[np.float32]:
    """The paper's colours (N, 3): red and green follow the latent's first two dimensions, blue makes up for them."""
    red_green = (COLOUR_SCALE * prior.plane(latents) + COLOUR_RANGE) / (2 * COLOUR_RANGE)
    blue = (2 - red_green.sum(axis=1, keepdims=True)) / 2
    return np.clip(np.concatenate([red_green, blue], axis=1), 0, 1)


def plot_skills(panels: Sequence[SkillPicture], output: Path, *, title: str = "", columns: int = 0) -> None:
    """The panels with common axes, side by side or in rows of `columns`: paths in the plane, or in 1-D one row each."""
    columns = columns or max(len(panels), 1)
    plot_skill_rows([panels[i : i + columns] for i in range(0, len(panels), columns)], output, title=title)


def plot_skill_rows(
    rows: Sequence[Sequence[SkillPicture]], output: Path, *, title: str = "", same_scale: bool = True
) -> None:
    """Rows of panels, which may be of different lengths, with common axes: of all, or of each row by itself."""
    if not rows or not all(rows):
        raise IbolError("there are no skills to draw")
    reaches = [1.2 * max(float(np.abs(panel.paths).max()) for panel in row) for row in rows]
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(4.2 * columns, 4.4 * len(rows)), layout="constrained")
    for i, line in enumerate(figure.subplots(len(rows), columns, squeeze=False)):
        for axes in line[len(rows[i]) :]:
            axes.set_axis_off()
        for axes, panel in zip(line, rows[i], strict=False):
            draw = _plane if panel.paths.shape[2] == 2 else _rows
            draw(axes, panel, max(reaches) if same_scale else reaches[i])
            axes.set_title(panel.title, fontsize=9)
    figure.suptitle(title, fontsize=10)
    save(figure, output)


def _plane(axes: Axes, panel: SkillPicture, reach: float) -> None:
    _draw(axes, list(panel.paths), latent_colours(panel.latents, panel.prior), [0.7])
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel=panel.axes[0], ylabel=panel.axes[1])


def _rows(axes: Axes, panel: SkillPicture, reach: float) -> None:
    """x along the row; lines grow thicker with time."""
    order = np.arange(len(panel.paths))
    if panel.random:
        order = np.argsort(panel.paths[:, -1, 0])
    x = panel.paths[order, :, 0]
    points = np.stack([x, np.broadcast_to(np.arange(len(x))[:, None], x.shape)], axis=2)
    steps = x.shape[1] - 1
    pieces = np.stack([points[:, :-1], points[:, 1:]], axis=2).reshape(-1, 2, 2)
    colours = np.repeat(latent_colours(panel.latents, panel.prior)[order], steps, axis=0)
    _draw(axes, list(pieces), colours, list(np.tile(np.linspace(0.2, 1.2, steps), len(x))))
    axes.set(xlim=(-reach, reach), ylim=(-1, len(x)), xlabel=panel.axes[0], yticks=[])


def _draw(axes: Axes, lines: list[NDArray[np.float32]], colours: NDArray[np.float32], widths: list[float]) -> None:
    # So many lines are an image within a PDF or SVG, which would be slow to open otherwise.
    many = len(lines) > _MANY
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=widths, alpha=0.8, rasterized=many))
