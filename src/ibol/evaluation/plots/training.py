"""Figures of how runs were trained: learning curves, and what the linearizer's reward makes of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ibol import zoo
from ibol.errors import IbolError, unknown
from ibol.evaluation.groups import Group, group_runs, only_env
from ibol.evaluation.loading import load_runs
from ibol.evaluation.plots.common import PlotOptions, said_once, setting_of
from ibol.evaluation.runs import linearizer_coverage
from ibol.figures.boxes import BoxPanel, plot_boxes
from ibol.figures.curves import Curve, plot_curves
from ibol.metrics.catalogue import find_metric
from ibol.runs.directory import RunDirectory
from ibol.seeding import derive

_PREFERRED = ("evaluation/information", "evaluation/reach", "evaluation/return", "return")


def plot_linearizer_rewards(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """State coverage of linearizers: a box for each choice of reward and macro length."""
    paths = list(dict.fromkeys(Path(name) for name in names))
    for path in paths:
        if RunDirectory.open(path).command != "linearize":
            raise IbolError(f"{path} is not a run of 'ibol linearize', but this figure compares linearizers")
    groups, count = group_runs(paths), options.count(2000)
    env, metric = only_env(groups), find_metric("coverage")
    start = derive(options.seed, "evaluation")  # as `ibol evaluate`, so that the figure has its numbers
    coverage = linearizer_coverage(load_runs(paths), trajectories=count, seed=start, quiet=options.quiet)
    cells = dict(zip(paths, coverage, strict=True))
    short = [_reward_name(group) for group in groups]
    values = {
        name if short.count(name) == 1 else group.label: [float(cells[run.path]) for run in group.runs]
        for group, name in zip(groups, short, strict=True)
    }
    title = f"State coverage of linearizers by reward, {count} random location goals\n{setting_of(groups)}"
    plot_boxes([[BoxPanel(f"{metric.header} on {env}", metric.unit, values)]], output, title=title)


def plot_learning_curves(names: Sequence[str], output: Path, options: PlotOptions) -> None:
    """A metric over environment steps or minutes."""
    groups, view = said_once(group_runs(list(dict.fromkeys(zoo.locate(name) for name in names))))
    only_env(groups)
    logs = {run.path: list(run.metrics()) for group in groups for run in group.runs}
    numbers = [
        {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
        for rows in logs.values()
    ]
    common = set.intersection(*numbers)
    chosen = options.metric or next((name for name in _PREFERRED if name in common), "")
    if chosen not in common:
        if not chosen:
            raise IbolError(f"name the --metric to draw; these runs have in common: {', '.join(sorted(common))}")
        raise unknown("metric", chosen, common, " for --metric")
    curves = []
    for group in groups:
        members = [_curve(logs[run.path], chosen, options.against) for run in group.runs]
        epochs = sorted(set.intersection(*(set(member) for member in members)))
        if not epochs:
            raise IbolError(f"the runs of {group.label} have no epoch with {chosen} in common")
        points = np.array([[member[epoch] for epoch in epochs] for member in members])  # (runs, epochs, 2)
        curves.append(Curve(group.label, points[:, :, 0], points[:, :, 1]))
    xlabel = {"env_steps": "environment steps", "minutes": "minutes"}[options.against]
    metric = find_metric(chosen)
    title = setting_of(groups, view)
    plot_curves(curves, output, xlabel=xlabel, ylabel=metric.axis, title=title, unit=metric.unit)


def _reward_name(group: Group) -> str:
    settings = group.runs[0].config["settings"]
    return f"{settings['reward'].replace('_', '-')} l={settings['macro_length']}"


def _curve(rows: Sequence[dict[str, Any]], metric: str, against: str) -> dict[int, tuple[float, float]]:
    """Epochs with the metric: where they stand and how much it is."""
    points, seconds = {}, 0.0
    for row in rows:
        seconds += row["time/epoch_seconds"]
        if metric in row:
            points[row["epoch"]] = (seconds / 60 if against == "minutes" else row["env_steps"], row[metric])
    return points
