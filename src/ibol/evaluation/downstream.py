"""How well tasks were solved: the table of final returns, from what runs logged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ibol.errors import IbolError
from ibol.evaluation.groups import group_runs
from ibol.metrics.spread import bootstrap_interval

Row = dict[str, Any]
LAST = 100  # epochs that the paper's final return is the mean of


def evaluate_downstream(runs: Sequence[Path]) -> list[Row]:
    """A row for each run of 'ibol downstream', and one for the mean of those that differ only by seed and skills.

    `last_return` is the paper's: the mean over the last 100 epochs of the return while exploring. The others are of the
    controller's mode in the evaluation episodes, whose goals are the same for all runs: return and mean distance to the
    goal at the end, and the distance before anything was learned.
    """
    rows: list[Row] = []
    for group in group_runs(runs):
        members = [_row(run.path, list(run.metrics()), group.env, group.label) for run in group.runs]
        rows += members
        if len(members) > 1:
            numbers = [name for name in members[0] if name not in ("run", "env", "method")]
            values = {name: [float(member[name]) for member in members] for name in numbers}
            mean = {name: float(np.mean(values[name])) for name in numbers}
            intervals = {name: bootstrap_interval(values[name]) for name in numbers}
            rows.append({**members[0], "run": f"mean of {len(members)} runs", **mean, "intervals": intervals})
    return rows


def _row(path: Path, logged: Sequence[Row], task: str, label: str) -> Row:
    measured = [row for row in logged if "evaluation/return" in row]
    if not measured or "untrained/return" not in logged[0]:
        raise IbolError(f"{path} has no evaluation yet: let it train on, or give --evaluate-every when it is started")
    return {
        "run": str(path),
        "env": task,
        "method": label,
        "env_steps": logged[-1]["env_steps"],
        "last_return": float(np.mean([row["return"] for row in logged[-LAST:]])),
        "final_return": measured[-1]["evaluation/return"],
        "untrained_distance": logged[0]["untrained/goal_distance"],
        "final_distance": measured[-1]["evaluation/goal_distance"],
    }
