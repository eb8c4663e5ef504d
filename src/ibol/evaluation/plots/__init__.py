"""`ibol plot`: what each figure of the paper shows, collected from runs. `ibol.figures` draws it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

from ibol import bounds
from ibol.errors import IbolError, unknown
from ibol.evaluation.plots.common import PlotOptions
from ibol.evaluation.plots.measures import plot_measures_over_bins, plot_measures_over_runs
from ibol.evaluation.plots.skills import plot_orientation, plot_return_bars, plot_trajectories
from ibol.evaluation.plots.training import plot_learning_curves, plot_linearizer_rewards

Draw = Callable[[Sequence[str], Path, PlotOptions], None]
FIGURES: dict[str, Draw] = {
    "trajectories": plot_trajectories,
    "boxes": plot_measures_over_runs,
    "bins": plot_measures_over_bins,
    "returns": plot_return_bars,
    "orientation": plot_orientation,
    "linearizer-rewards": plot_linearizer_rewards,
    "curves": plot_learning_curves,
}


def plot_runs(
    names: Sequence[str], output: Path, figure: str = "trajectories", options: PlotOptions | None = None
) -> None:
    """Draw one of `FIGURES` from runs."""
    if figure not in FIGURES:
        raise unknown("figure", figure, FIGURES)
    if not names:
        raise IbolError("name at least one run to draw")
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if output.suffix.lower().lstrip(".") not in known:  # said before the work, not after it
        raise IbolError(f"could not write {output}: the ending of --output must be one of {', '.join(known)}")
    options = PlotOptions() if options is None else options
    bounds.check(options)
    FIGURES[figure](names, output, options)
