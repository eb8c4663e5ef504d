"""How the measures of skills depend on the number of bins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ibol.figures.common import NORMAL, PAGE, SMALL, method_colours, plain_numbers, save, wide_enough, wrapped
from ibol.metrics.spread import bootstrap_interval

STYLES: dict[str, Literal["-", "--", ":"]] = {"published": "-", "minus chance": "--", "from neighbours": ":"}


@dataclass(frozen=True)
class BinsPanel:
    """One measure: for each label and estimator, by the number of bins the numbers of its runs."""

    title: str
    unit: str
    values: Mapping[tuple[str, str], Mapping[int, Sequence[float]]]


def plot_bins(panels: Sequence[Sequence[BinsPanel]], output: Path, *, title: str, note: str = "") -> None:
    """A grid of panels; lines are means over runs, bands 95 % bootstrap intervals of them."""
    columns = max(map(len, panels))
    width = PAGE if columns > 1 else 4.5
    height = 2.4 * len(panels)
    figure = Figure(figsize=(width, height + 1.4), layout="constrained")
    grid = figure.add_gridspec(len(panels) + 1, columns, height_ratios=[*[height / len(panels)] * len(panels), 0.6])
    labels = [label for row in panels for panel in row for label, _ in panel.values]
    colours = method_colours(labels)
    for i, row in enumerate(panels):
        for j, panel in enumerate(row):
            axes = figure.add_subplot(grid[i, j])
            for (label, estimator), by_bins in panel.values.items():
                bins = sorted(by_bins)
                means = [sum(by_bins[n]) / len(by_bins[n]) for n in bins]
                marker = "" if estimator == "from neighbours" else "o"
                style: Any = {"linestyle": STYLES[estimator], "marker": marker, "markersize": 2.5, "linewidth": 1.1}
                axes.plot(bins, means, color=colours[label], **style)
                if len(by_bins[bins[0]]) > 1:
                    low, high = zip(*(bootstrap_interval(by_bins[n]) for n in bins), strict=True)
                    axes.fill_between(bins, low, high, color=colours[label], alpha=0.15, linewidth=0)
            axes.set_xscale("log", base=2)
            axes.set_xticks(bins, [str(n) for n in bins])
            every = [value for by_bins in panel.values.values() for values in by_bins.values() for value in values]
            axes.set_ylim(wide_enough([0.0, *every], panel.unit))
            plain_numbers(axes)
            axes.set_title(wrapped(panel.title, width / columns - 0.3), fontsize=NORMAL)
            axes.set_xlabel("bins of each dimension", fontsize=NORMAL)
            axes.set_ylabel(panel.unit, fontsize=NORMAL)
            axes.axhline(0, color="black", linewidth=0.5)
            axes.grid(alpha=0.3)
    handles = [Line2D([], [], color=colour, label=label) for label, colour in colours.items()]
    handles += [Line2D([], [], color="black", linestyle=style, label=name) for name, style in STYLES.items()]
    below = figure.add_subplot(grid[-1, :])
    below.set_axis_off()
    below.legend(handles=handles, loc="center", ncols=4 if columns > 1 else 3, fontsize=SMALL)
    if note:
        figure.supxlabel(wrapped(note, width, SMALL), fontsize=SMALL, x=0.01, ha="left")
    figure.suptitle(wrapped(title, width, NORMAL + 1), fontsize=NORMAL + 1)
    save(figure, output)
