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
from ibol.figures.common import COLUMNS, NORMAL, PAGE, in_rows, plain_numbers, save, wrapped
from ibol.figures.keys import HEIGHT, draw_keys, latent_colours
from ibol.skills.latents import Prior

LOCATION_AXES = ("x (m)", "y (m)")
_MANY = 200
_LEAST_REACH = 0.1  # metres: a robot that stands still is drawn as one that does


@dataclass(frozen=True)
class SkillPicture:
    """One panel: episodes and their latents."""

    title: str
    latents: NDArray[np.float32]  # (N, d)
    paths: NDArray[np.float32]  # (N, T + 1, 1 or 2), the locations
    prior: Prior  # of the latents
    axes: tuple[str, str] = LOCATION_AXES


def plot_skills(panels: Sequence[SkillPicture], output: Path, *, title: str = "", columns: int = COLUMNS) -> None:
    """The panels with common axes, in rows of at most `columns`: paths in the plane, or in 1-D over time."""
    plot_skill_rows(in_rows(panels, columns), output, title=title)


def plot_skill_rows(
    rows: Sequence[Sequence[SkillPicture]], output: Path, *, title: str = "", same_scale: bool = True
) -> None:
    """Rows of panels, which may be of different lengths, with common axes: of all, or of each row by itself.

    A row of more than four panels wraps. Below stands which colour is which latent.
    """
    if not rows or not all(rows):
        raise IbolError("there are no skills to draw")
    wrapping = [(piece, _reach(row)) for row in rows for piece in in_rows(row)]
    common = max(reach for _, reach in wrapping)
    columns = max(len(row) for row, _ in wrapping)
    width = min(3.4 * columns + 0.2, PAGE)
    side = width / columns
    height = len(wrapping) * (side + 0.45) + HEIGHT + 0.4
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.add_gridspec(
        len(wrapping) + 1, columns, height_ratios=[*[(height - HEIGHT) / len(wrapping)] * len(wrapping), HEIGHT]
    )
    for i, (row, reach) in enumerate(wrapping):
        below = len(wrapping[i + 1][0]) if same_scale and i + 1 < len(wrapping) else 0
        for j, panel in enumerate(row):
            axes = figure.add_subplot(grid[i, j])
            draw = _plane if panel.paths.shape[2] == 2 else _over_time
            draw(axes, panel, common if same_scale else reach)
            axes.set_title(wrapped(panel.title, side - 0.35), fontsize=NORMAL)
            plain_numbers(axes)
            axes.xaxis.label.set_fontsize(NORMAL)
            axes.yaxis.label.set_fontsize(NORMAL)
            if j:
                axes.set_ylabel("")
                axes.tick_params(labelleft=False)
            if j < below:
                axes.set_xlabel("")
    draw_keys(figure, grid[-1, :], [panel.prior for row, _ in wrapping for panel in row])
    figure.suptitle(wrapped(title, width, NORMAL + 1), fontsize=NORMAL + 1)
    save(figure, output)


def _reach(row: Sequence[SkillPicture]) -> float:
    return max(_LEAST_REACH, *(1.1 * float(np.abs(panel.paths).max()) for panel in row))


def _plane(axes: Axes, panel: SkillPicture, reach: float) -> None:
    _draw(axes, list(panel.paths), panel)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel=panel.axes[0], ylabel=panel.axes[1])


def _over_time(axes: Axes, panel: SkillPicture, reach: float) -> None:
    steps = panel.paths.shape[1] - 1
    time = np.broadcast_to(np.arange(steps + 1), panel.paths.shape[:2])
    _draw(axes, list(np.stack([time, panel.paths[:, :, 0]], axis=2)), panel)
    axes.axhline(0, color="grey", linewidth=0.5, zorder=0)
    axes.set(xlim=(0, steps), ylim=(-reach, reach), box_aspect=1, xlabel="environment step", ylabel=panel.axes[0])


def _draw(axes: Axes, lines: list[NDArray[np.float32]], panel: SkillPicture) -> None:
    # So many lines are an image within a PDF or SVG, which would be slow to open otherwise.
    many = len(lines) > _MANY
    colours = latent_colours(panel.latents, panel.prior)
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.7, alpha=0.8, rasterized=many))
