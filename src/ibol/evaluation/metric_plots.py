"""Figures of how skills compare in the paper's measures."""

from collections.abc import Sequence
from pathlib import Path

from ibol.errors import IbolError
from ibol.evaluation.groups import Group, envs_of, group_runs
from ibol.evaluation.plotting import PlotOptions, count_of, setting_of, skill_runs
from ibol.evaluation.skills import Row, evaluate_skills
from ibol.figures.bins import BinsPanel, plot_bins
from ibol.figures.boxes import BoxPanel, plot_boxes
from ibol.skills.policy import load_skills

SWEPT_BINS = (8, 16, 32, 64, 128)
_MEASURES = {"I(Z; S)": "information", "WSEPIN": "wsepin", "SEPIN@1": "sepin@1"}
_ESTIMATORS = {"published": "", "minus chance": "corrected_", "from neighbours": "neighbour_"}


def plot_metric_boxes(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """I, WSEPIN and SEPIN@1 of each environment: a box for each method over its runs, by three estimators."""
    bins = options.bins or (32,)
    if len(bins) != 1:
        raise IbolError("boxes are drawn for one number of bins: give --bins one number, or choose --figure bins")
    groups, rows = _measured(names, options, bins)
    panels = [
        [
            BoxPanel(f"{measure} on {env}, {estimator}", "nats", _by_label(rows, env, prefix, key))
            for measure, key in _MEASURES.items()
        ]
        for env in envs_of(groups)
        for estimator, prefix in _ESTIMATORS.items()
    ]
    plot_boxes(
        panels, output, title=f"{setting_of(groups)}\n{bins[0]} bins, {count_of(options, 2000)} skills of each run"
    )


def plot_bins_sweep(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """The same measures over the number of bins."""
    bins = options.bins or SWEPT_BINS
    groups, rows = _measured(names, options, bins)
    panels = []
    for env in envs_of(groups):
        panels.append([
            BinsPanel(
                f"{measure} on {env}",
                {
                    (label, estimator): {
                        n: _by_label([row for row in rows if row["bins"] == n], env, prefix, key)[label] for n in bins
                    }
                    for label in _by_label(rows, env, "", key)
                    for estimator, prefix in _ESTIMATORS.items()
                },
            )
            for measure, key in _MEASURES.items()
        ])  # fmt: skip
    plot_bins(panels, output, title=f"{setting_of(groups)}\n{count_of(options, 2000)} skills of each run")


def _measured(names: Sequence[str], options: PlotOptions, bins: Sequence[int]) -> tuple[list[Group], list[Row]]:
    runs = list(dict.fromkeys(skill_runs(names)))
    for run in runs:
        if load_skills(run).prior.discrete:
            raise IbolError(f"the skills of {run} are discrete, but these measures are of continuous latents")
    rows = evaluate_skills(
        runs, trajectories=count_of(options, 2000), bins=bins, seed=options.seed, references=False, quiet=options.quiet
    )
    return group_runs(runs), [row for row in rows if "intervals" not in row]


def _by_label(rows: Sequence[Row], env: str, prefix: str, key: str) -> dict[str, list[float]]:
    name = "corrected" if (prefix, key) == ("corrected_", "information") else prefix + key
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["env"] == env:
            found.setdefault(row["method"], []).append(row[name])
    return found
