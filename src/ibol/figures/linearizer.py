"""Where a linearizer takes the robot: traces coloured by the goal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.colors
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.figures.common import save


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
    figure = Figure(figsize=(4.2 * len(panels), 4.2), layout="constrained")
    line = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for axes, panel in zip(line, panels, strict=True):
        draw = _plane if panel.goals.shape[1] == 2 else _line
        draw(axes, panel)
        axes.set_title(panel.title, fontsize=9)
    save(figure, output)


def _plane(axes: Axes, panel: TracesPanel) -> None:
    turn = np.arctan2(panel.goals[:, 1], panel.goals[:, 0]) / (2 * np.pi) % 1.0
    colours = matplotlib.colors.hsv_to_rgb(np.stack([turn, np.ones_like(turn), np.full_like(turn, 0.85)], axis=1))
    for path, colour in zip(panel.paths, colours, strict=True):
        axes.plot(path[:, 0], path[:, 1], color=colour, linewidth=0.7, alpha=0.8)
    reach = 1.2 * max(float(np.abs(panel.paths).max()), *axes.get_xlim())
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x (m)", ylabel="y (m)")
    axes.text(0.02, 0.02, f"mean {panel.scores['distance']:.1f} m", transform=axes.transAxes, fontsize=8)


def _line(axes: Axes, panel: TracesPanel) -> None:
    for path, goal in zip(panel.paths[:, :, 0], panel.goals[:, 0], strict=True):
        axes.plot(path, color=colormaps["coolwarm"]((goal + 1) / 2), linewidth=0.9)
    axes.set(xlabel="environment step", ylabel="x (m)")
    text = f"goal +1: {panel.scores['forward']:.1f} m   goal -1: {panel.scores['backward']:.1f} m"
    axes.text(0.02, 0.02, text, transform=axes.transAxes, fontsize=8)
