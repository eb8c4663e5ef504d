"""Figures of how skills compare in the paper's measures."""

from collections.abc import Sequence
from pathlib import Path

from ibol.errors import IbolError
from ibol.evaluation.directions import need_location
from ibol.evaluation.groups import Group, envs_of, group_runs
from ibol.evaluation.loading import load_runs
from ibol.evaluation.plots.common import PlotOptions, said_once, setting_of, skill_runs
from ibol.evaluation.rows import Row
from ibol.evaluation.skills import evaluate_skills
from ibol.figures.bins import BinsPanel, plot_bins
from ibol.figures.boxes import BoxPanel, plot_boxes
from ibol.metrics.catalogue import find_metric
from ibol.robots import known_as

SWEPT_BINS = (8, 16, 32, 64, 128)
_MEASURES = {  # by estimator
    "published": ("information", "wsepin", "sepin@1"),
    "minus chance": ("corrected", "corrected_wsepin", "corrected_sepin@1"),
    "from neighbours": ("neighbour_information", "neighbour_wsepin", "neighbour_sepin@1"),
}
_NOTE = (
    "published: on histograms; useless skills have some information, too. minus chance: less its mean over 10 shuffles "
    "of the latents. from neighbours: from nearest neighbours, without bins."
)


def plot_measures_over_runs(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """I, WSEPIN and SEPIN@1 of each environment: a box for each method over its runs, by three estimators."""
    bins = options.bins or (32,)
    if len(bins) != 1:
        raise IbolError("boxes are drawn for one number of bins: give --bins one number, or choose --figure bins")
    groups, view, rows = _measured(names, options, bins)
    envs = envs_of(groups)
    panels = [
        [
            BoxPanel(
                f"{find_metric(published).header} on {known_as(env, envs)}, {estimator}", find_metric(key).unit, values
            )
            for published, key in zip(_MEASURES["published"], keys, strict=True)
            for values in [_by_label(rows, env, key)]
        ]
        for env in envs
        for estimator, keys in _MEASURES.items()
    ]
    title = f"{setting_of(groups, view)}\n{bins[0]} bins, {options.count(2000)} skills of each run"
    plot_boxes(panels, output, title=title, note=_NOTE)


def plot_measures_over_bins(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """The same measures over the number of bins."""
    bins = options.bins or SWEPT_BINS
    groups, view, rows = _measured(names, options, bins)
    panels = []
    for env in envs_of(groups):
        labels = list(_by_label(rows, env, "information"))
        panels.append([
            BinsPanel(
                f"{find_metric(published).header} on {env}",
                find_metric(published).unit,
                {
                    (label, estimator): {
                        n: _by_label([row for row in rows if row["bins"] == n], env, keys[i])[label] for n in bins
                    }
                    for label in labels
                    for estimator, keys in _MEASURES.items()
                },
            )
            for i, published in enumerate(_MEASURES["published"])
        ])  # fmt: skip
    title = f"{setting_of(groups, view)}\n{options.count(2000)} skills of each run"
    plot_bins(panels, output, title=title, note=_NOTE)


def _measured(names: Sequence[str], options: PlotOptions, bins: Sequence[int]) -> tuple[list[Group], str, list[Row]]:
    runs = load_runs(skill_runs(names))
    for run in runs:
        if run.skills.prior.discrete:
            raise IbolError(f"the skills of {run.path} are discrete, but these measures are of continuous latents")
        need_location(run, "these measures are of the final location")
    rows = evaluate_skills(
        runs, trajectories=options.count(2000), bins=bins, seed=options.seed, references=False, quiet=options.quiet
    )
    groups = group_runs([run.path for run in runs])
    named, view = said_once(groups)
    labels = {group.label: short.label for group, short in zip(groups, named, strict=True)}
    single = [row for row in rows if "intervals" not in row]
    return named, view, [{**row, "method": labels[row["method"]]} for row in single]


def _by_label(rows: Sequence[Row], env: str, key: str) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["env"] == env:
            values.setdefault(row["method"], []).append(row[key])
    return values
