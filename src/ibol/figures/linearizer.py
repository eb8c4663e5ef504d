"""Where a linearizer takes the robot: traces coloured by the goal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.figures.common import NORMAL, PAGE, SMALL, in_rows, plain_numbers, save, wrapped
from ibol.figures.keys import HEIGHT, draw_keys, goal_colours
from ibol.skills.latents import Gaussian


@dataclass(frozen=True)
class TracesPanel:
    """One linearizer: episodes, their goals, and what they say."""

    title: str
    goals: NDArray[np.float32]  # (N, d), along the location
    paths: NDArray[np.float32]  # (N, T + 1, d), the locations
    scores: Mapping[str, float]


def plot_traces(panels: Sequence[TracesPanel], output: Path) -> None:
    """One panel for each linearizer: in 2-D the paths in the plane, in 1-D the location over time; common axes."""
    if not panels:
        raise IbolError("name at least one linearizer to draw")
    rows = in_rows(panels)
    columns = len(rows[0])
    width = min(3.4 * columns + 0.2, PAGE)
    side = width / columns
    height = len(rows) * (side + 0.3)
    figure = Figure(figsize=(width, height + HEIGHT), layout="constrained")
    grid = figure.add_gridspec(len(rows) + 1, columns, height_ratios=[*[height / len(rows)] * len(rows), HEIGHT])
    reach = max(0.1, *(1.1 * float(np.abs(panel.paths).max()) for panel in panels))
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(grid[divmod(i, columns)])
        draw = _plane if panel.goals.shape[1] == 2 else _line
        draw(axes, panel, reach)
        axes.set_title(wrapped(panel.title, side - 0.35), fontsize=NORMAL)
        plain_numbers(axes)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_fontsize(NORMAL)
        if i % columns:
            axes.set_ylabel("")
            axes.tick_params(labelleft=False)
    draw_keys(figure, grid[-1, :], [Gaussian(panel.goals.shape[1]) for panel in panels], sign="g")
    save(figure, output)


def _plane(axes: Axes, panel: TracesPanel, reach: float) -> None:
    for path, colour in zip(panel.paths, goal_colours(panel.goals), strict=True):
        axes.plot(path[:, 0], path[:, 1], color=colour, linewidth=0.7, alpha=0.8)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x (m)", ylabel="y (m)")
    axes.text(0.02, 0.02, f"mean {panel.scores['distance']:.1f} m", transform=axes.transAxes, fontsize=SMALL)


def _line(axes: Axes, panel: TracesPanel, reach: float) -> None:
    for path, colour in zip(panel.paths[:, :, 0], goal_colours(panel.goals), strict=True):
        axes.plot(path, color=colour, linewidth=0.9)
    axes.set(xlabel="environment step", ylabel="x (m)", ylim=(-reach, reach), box_aspect=1)
    text = f"goal +1: {panel.scores['forward']:.1f} m   goal -1: {panel.scores['backward']:.1f} m"
    axes.text(0.02, 0.02, text, transform=axes.transAxes, fontsize=SMALL)
