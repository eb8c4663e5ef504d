"""How diverse the external returns of skills are: one bar for each run, stacked by return."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.figures.common import NORMAL, PAGE, SMALL, in_rows, save, wide_enough, wrapped

LEVELS = 24
_COLOURS = colormaps["viridis"]


@dataclass(frozen=True)
class ReturnsPanel:
    """The runs of one method: the returns (N,) of each run's skills."""

    title: str
    returns: Sequence[NDArray[np.float32]]


def plot_returns(rows: Sequence[Sequence[ReturnsPanel]], output: Path, *, title: str) -> None:
    """One row for each environment, with colours of its own; a bar's colours say how its run's returns are spread."""
    lines = [(piece, row) for row in rows for piece in in_rows(row)]
    columns = max(len(piece) for piece, _ in lines)
    bars = max(len(panel.returns) for row in rows for panel in row)
    width = min(PAGE, columns * max(0.35 * bars + 1.2, 2.2) + 1.2)
    figure = Figure(figsize=(width, 2.3 * len(lines) + 0.5), layout="constrained")
    for axes_row, (row, pool) in zip(
        figure.subplots(len(lines), columns, squeeze=False, sharey=True), lines, strict=True
    ):
        pooled = np.concatenate([returns for panel in pool for returns in panel.returns])
        scale = Normalize(*wide_enough([float(pooled.min()), float(pooled.max())]))
        edges = np.linspace(scale.vmin, scale.vmax, LEVELS + 1)  # type: ignore[arg-type]
        for axes, panel in zip(axes_row, row, strict=False):
            counts = np.stack([np.histogram(returns, edges)[0] / len(returns) for returns in panel.returns])
            floors = np.cumsum(counts, axis=1) - counts
            for level in range(LEVELS):
                colour = _COLOURS(scale((edges[level] + edges[level + 1]) / 2))
                axes.bar(range(1, len(counts) + 1), counts[:, level], 0.85, floors[:, level], color=colour)
            axes.set_title(wrapped(panel.title, (width - 0.9) / columns - 0.2), fontsize=NORMAL)
            axes.tick_params(labelsize=SMALL)
            axes.set_xlabel("run", fontsize=NORMAL)
            axes.set(xticks=range(1, len(counts) + 1), xlim=(0.3, bars + 0.7), ylim=(0, 1))
        for axes in axes_row[len(row) :]:
            axes.set_axis_off()
        axes_row[0].set_ylabel("share of skills", fontsize=NORMAL)
        bar = figure.colorbar(ScalarMappable(scale, _COLOURS), ax=list(axes_row), fraction=0.05)
        bar.set_label("external return", fontsize=NORMAL)
        bar.ax.tick_params(labelsize=SMALL)
    figure.suptitle(wrapped(title, width, NORMAL + 1), fontsize=NORMAL + 1)
    save(figure, output)
