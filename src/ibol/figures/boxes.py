"""Box plots over runs, with the runs themselves as points; few runs are points alone, as a box would say too much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ibol.figures.common import NORMAL, PAGE, SMALL, method_colours, plain_numbers, save, wide_enough, wrapped

FOR_A_BOX = 4
"""Runs that a box needs."""


@dataclass(frozen=True)
class BoxPanel:
    """One panel: for each label the numbers of its runs."""

    title: str
    ylabel: str
    values: Mapping[str, Sequence[float]]


def plot_boxes(panels: Sequence[Sequence[BoxPanel]], output: Path, *, title: str, note: str = "") -> None:
    """A grid of panels; those that stand in one row share the labels. The note stands below."""
    columns = max(map(len, panels))
    width = PAGE if columns > 1 else 4.5
    side = width / columns
    figure = Figure(figsize=(width, max(3.2, 2.1 * len(panels) + 0.7)), layout="constrained")
    axes_grid = figure.subplots(len(panels), columns, squeeze=False)
    for axes_row, row in zip(axes_grid, panels, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            _draw(axes, panel, side)
    figure.suptitle(wrapped(title, width, NORMAL + 1), fontsize=NORMAL + 1)
    if note:
        figure.supxlabel(wrapped(note, width, SMALL), fontsize=SMALL, x=0.01, ha="left")
    save(figure, output)


def _draw(axes: Axes, panel: BoxPanel, side: float) -> None:
    colours = method_colours(list(panel.values))
    for x, (label, values) in enumerate(panel.values.items()):
        if len(values) >= FOR_A_BOX:
            box = axes.boxplot([list(values)], positions=[x], widths=0.6, showfliers=False, patch_artist=True)
            box["boxes"][0].set(facecolor=colours[label], alpha=0.35)
            box["medians"][0].set(color="black")
        spread = np.linspace(-0.15, 0.15, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(x + spread, values, "o", color=colours[label], markersize=4, markeredgecolor="black")
    count = len(panel.values)
    turned = count > 3
    names = [
        wrapped(f"{label} ({len(v)})", 1.3 if turned else (side - 0.5) / count, SMALL)
        for label, v in panel.values.items()
    ]
    axes.set_xticks(range(count), names, rotation=40 if turned else 0, ha="right" if turned else "center")
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(wide_enough([value for values in panel.values.values() for value in values], panel.ylabel))
    plain_numbers(axes)
    axes.set_title(wrapped(panel.title, side - 0.3), fontsize=NORMAL)
    axes.set_ylabel(panel.ylabel, fontsize=NORMAL)
    axes.grid(axis="y", alpha=0.3)
