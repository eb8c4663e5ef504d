"""Learning curves: means over runs with 95 % bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from ibol.figures.common import NORMAL, SMALL, method_colours, plain_numbers, save, wide_enough, wrapped
from ibol.metrics.spread import bootstrap_interval

POINTS = 150  # more are averaged, so that a curve of many epochs can be read
_FEW = 20  # points that are marked
_WIDTH = 5.5  # inches


@dataclass(frozen=True)
class Curve:
    """The runs of one setting at the same epochs."""

    label: str
    x: NDArray[np.float64]  # (runs, epochs)
    y: NDArray[np.float64]  # (runs, epochs)


def plot_curves(curves: Sequence[Curve], output: Path, *, xlabel: str, ylabel: str, title: str, unit: str = "") -> None:
    """One line for each setting, with a band if it has several runs; where they are few, its points are marked."""
    figure = Figure(figsize=(_WIDTH, 3.6), layout="constrained")
    axes = figure.subplots()
    colours = method_colours([curve.label for curve in curves])
    ends: list[float] = []
    for curve in curves:
        x, y = _thinned(curve.x).mean(axis=0), _thinned(curve.y)
        runs = len(y)
        label = f"{curve.label} ({runs} run{'s' if runs > 1 else ''})"
        axes.plot(
            x, y.mean(axis=0), color=colours[curve.label], label=label, marker="o" if len(x) <= _FEW else "",
            markersize=3.5, linewidth=1.3,
        )  # fmt: skip
        ends += [float(value) for value in (y.mean(axis=0) if runs == 1 else y.ravel())]
        if runs > 1:
            low, high = np.array([bootstrap_interval(values, resamples=1000) for values in y.T]).T
            axes.fill_between(x, low, high, color=colours[curve.label], alpha=0.2, linewidth=0)
    axes.set_xlim(left=0)
    axes.set_ylim(wide_enough(ends, unit))
    plain_numbers(axes)
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.set_xlabel(xlabel, fontsize=NORMAL)
    axes.set_ylabel(wrapped(ylabel, 3.0), fontsize=NORMAL)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=SMALL)
    figure.suptitle(wrapped(title, _WIDTH, NORMAL + 1), fontsize=NORMAL + 1)
    save(figure, output)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means (runs, at most 150) over neighbouring epochs."""
    pieces = np.array_split(values, min(POINTS, values.shape[1]), axis=1)
    return np.stack([piece.mean(axis=1) for piece in pieces], axis=1)
