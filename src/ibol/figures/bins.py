"""How the measures of skills depend on the number of bins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ibol.figures.common import method_colours, save
from ibol.metrics.spread import bootstrap_interval

STYLES: dict[str, Literal["-", "--", ":"]] = {"published": "-", "minus chance": "--", "from neighbours": ":"}


@dataclass(frozen=True)
class BinsPanel:
    """One measure: for each label and estimator, by the number of bins the numbers of its runs."""

    title: str
    unit: str
    values: Mapping[tuple[str, str], Mapping[int, Sequence[float]]]


def plot_bins(panels: Sequence[Sequence[BinsPanel]], output: Path, *, title: str) -> None:
    """A grid of panels; lines are means over runs, bands 95 % bootstrap intervals of them."""
    columns = max(map(len, panels))
    figure = Figure(figsize=(3.6 * columns, 3.2 * len(panels) + 1.0), layout="constrained")
    labels = [label for row in panels for panel in row for label, _ in panel.values]
    colours = method_colours(labels)
    for axes_row, row in zip(figure.subplots(len(panels), columns, squeeze=False), panels, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            for (label, estimator), by_bins in panel.values.items():
                bins = sorted(by_bins)
                means = [sum(by_bins[n]) / len(by_bins[n]) for n in bins]
                marker = "" if estimator == "from neighbours" else "o"
                axes.plot(
                    bins, means, linestyle=STYLES[estimator], color=colours[label], marker=marker, markersize=3,
                )  # fmt: skip
                if len(by_bins[bins[0]]) > 1:
                    low, high = zip(*(bootstrap_interval(by_bins[n]) for n in bins), strict=True)
                    axes.fill_between(bins, low, high, color=colours[label], alpha=0.15, linewidth=0)
            axes.set_xscale("log", base=2)
            axes.set_xticks(bins, [str(n) for n in bins])
            axes.set_title(panel.title, fontsize=9)
            axes.set(xlabel="bins of each dimension", ylabel=panel.unit)
            axes.axhline(0, color="black", linewidth=0.5)
            axes.grid(alpha=0.3)
    handles = [Line2D([], [], color=colour, label=label) for label, colour in colours.items()]
    handles += [Line2D([], [], color="black", linestyle=style, label=name) for name, style in STYLES.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 7), fontsize=8)
    figure.suptitle(title, fontsize=10)
    save(figure, output)
