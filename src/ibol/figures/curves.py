"""Learning curves: means over runs with 95 % bootstrap intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ibol.figures.common import method_colours, save
from ibol.metrics.spread import bootstrap_interval

POINTS = 150  # more are averaged, so that a curve of many epochs can be read


@dataclass(frozen=True)
class Curve:
    """The runs of one setting at the same epochs."""

    label: str
    x: NDArray[np.float64]  # (runs, epochs)
    y: NDArray[np.float64]  # (runs, epochs)


def plot_curves(curves: Sequence[Curve], output: Path, *, xlabel: str, ylabel: str, title: str) -> None:
    """One line for each setting, with a band if it has several runs."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    colours = method_colours([curve.label for curve in curves])
    for curve in curves:
        x, y = _thinned(curve.x).mean(axis=0), _thinned(curve.y)
        runs = len(y)
        label = f"{curve.label} ({runs} run{'s' if runs > 1 else ''})"
        axes.plot(x, y.mean(axis=0), color=colours[curve.label], label=label, marker="o" if len(x) < 3 else "")
        if runs > 1:
            low, high = np.array([bootstrap_interval(values, resamples=1000) for values in y.T]).T
            axes.fill_between(x, low, high, color=colours[curve.label], alpha=0.2, linewidth=0)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.suptitle(title, fontsize=10)
    save(figure, output)


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means (runs, at most 150) over neighbouring epochs."""
    pieces = np.array_split(values, min(POINTS, values.shape[1]), axis=1)
    return np.stack([piece.mean(axis=1) for piece in pieces], axis=1)
