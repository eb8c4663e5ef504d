"""Where a linearizer takes the robot: traces coloured by the goal."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.colors
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibol.errors import IbolError
from ibol.figures.common import save
from ibol.linearizer.evaluation import LinearizerEvaluation, evaluate_linearizer
from ibol.linearizer.policy import Linearizer


def plot_traces(linearizers: Sequence[Linearizer], names: Sequence[str], output: Path, *, seed: int = 0) -> None:
    """One panel for each linearizer: in 2-D the paths in the plane, in 1-D the location over time; common axes."""
    if not linearizers:
        raise IbolError("name at least one linearizer to draw")
    figure = Figure(figsize=(4.2 * len(linearizers), 4.2), layout="constrained")
    panels = figure.subplots(1, len(linearizers), squeeze=False, sharex=True, sharey=True)[0]
    for axes, linearizer, name in zip(panels, linearizers, names, strict=True):
        found = evaluate_linearizer(linearizer, seed=seed)
        draw = _plane if len(found.location_dims) == 2 else _line
        draw(axes, found)
        axes.set_title(f"{linearizer.env} linearizer ({name})", fontsize=9)
    save(figure, output)


def _plane(axes: Axes, found: LinearizerEvaluation) -> None:
    paths = found.trajectories.states[:, :, list(found.location_dims)]
    turn = np.arctan2(found.goals[:, 1], found.goals[:, 0]) / (2 * np.pi) % 1.0
    colours = matplotlib.colors.hsv_to_rgb(np.stack([turn, np.ones_like(turn), np.full_like(turn, 0.85)], axis=1))
    for path, colour in zip(paths, colours, strict=True):
        axes.plot(path[:, 0], path[:, 1], color=colour, linewidth=0.7, alpha=0.8)
    reach = 1.2 * max(float(np.abs(paths).max()), *axes.get_xlim())
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="x (m)", ylabel="y (m)")
    mean = found.scalars()
    axes.text(0.02, 0.02, f"mean {mean['distance']:.1f} m", transform=axes.transAxes, fontsize=8)


def _line(axes: Axes, found: LinearizerEvaluation) -> None:
    paths = found.trajectories.states[:, :, found.location_dims[0]]
    for path, goal in zip(paths, found.goals[:, 0], strict=True):
        axes.plot(path, color=colormaps["coolwarm"]((goal + 1) / 2), linewidth=0.9)
    axes.set(xlabel="environment step", ylabel="x (m)")
    numbers = found.scalars()
    said = f"goal +1: {numbers['forward']:.1f} m   goal -1: {numbers['backward']:.1f} m"
    axes.text(0.02, 0.02, said, transform=axes.transAxes, fontsize=8)
