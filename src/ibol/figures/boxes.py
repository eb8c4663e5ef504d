"""Box plots over runs, with the runs themselves as points: few runs should not look like many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ibol.figures.common import method_colours, save


@dataclass(frozen=True)
class BoxPanel:
    """One panel: for each label the numbers of its runs."""

    title: str
    ylabel: str
    values: Mapping[str, Sequence[float]]


def plot_boxes(panels: Sequence[Sequence[BoxPanel]], output: Path, *, title: str) -> None:
    """A grid of panels; those that stand in one row share the labels."""
    widest = max(len(panel.values) for row in panels for panel in row)
    columns = max(map(len, panels))
    size = (max(6.0, columns * max(3.4, 0.9 * widest + 1.2)), max(3.6, 2.6 * len(panels) + 0.6))
    figure = Figure(figsize=size, layout="constrained")
    axes_grid = figure.subplots(len(panels), columns, squeeze=False)
    for axes_row, row in zip(axes_grid, panels, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            colours = method_colours(list(panel.values))
            for x, (label, values) in enumerate(panel.values.items()):
                box = axes.boxplot([list(values)], positions=[x], widths=0.6, showfliers=False, patch_artist=True)
                box["boxes"][0].set(facecolor=colours[label], alpha=0.35)
                box["medians"][0].set(color="black")
                spread = np.linspace(-0.15, 0.15, len(values)) if len(values) > 1 else np.zeros(1)
                axes.plot(x + spread, values, "o", color=colours[label], markersize=4, markeredgecolor="black")
            axes.set_xticks(range(len(panel.values)), [f"{_wrapped(n)}\n({len(v)})" for n, v in panel.values.items()])
            axes.tick_params(labelsize=8)
            axes.set_title(panel.title, fontsize=8)
            axes.set_ylabel(panel.ylabel, fontsize=8)
            axes.grid(axis="y", alpha=0.3)
    figure.suptitle(title, fontsize=10)
    save(figure, output)


def _wrapped(label: str) -> str:
    return label.replace(" ", "\n")
