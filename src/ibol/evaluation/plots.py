"""`ibol plot`: from run directories to each figure of the paper."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.backend_bases import FigureCanvasBase

from ibol.errors import IbolError, unknown
from ibol.evaluation.metric_plots import plot_bins_sweep, plot_metric_boxes
from ibol.evaluation.plotting import PlotOptions
from ibol.evaluation.skill_plots import plot_orientation, plot_return_bars, plot_trajectories
from ibol.evaluation.training_plots import plot_learning_curves, plot_linearizer_rewards

Draw = Callable[[Sequence[str], Path, PlotOptions], None]
FIGURES: dict[str, Draw] = {
    "trajectories": plot_trajectories,
    "boxes": plot_metric_boxes,
    "bins": plot_bins_sweep,
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
        raise IbolError(f"could not write {output}: its ending must be one of {', '.join(known)}")
    FIGURES[figure](names, output, options or PlotOptions())
