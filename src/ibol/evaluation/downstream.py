"""How well tasks were solved: in fresh episodes, and by what runs logged."""

from collections.abc import Sequence

import numpy as np

from ibol import zoo
from ibol.bounds import whole_number
from ibol.errors import IbolError
from ibol.evaluation.groups import group_runs
from ibol.evaluation.loading import LoadedRun, Run, load_runs
from ibol.evaluation.rows import Row, mean_rows
from ibol.seeding import derive


def evaluate_downstream(runs: Sequence[Run], *, episodes: int = 64, seed: int = 0) -> list[Row]:
    """A row for each run of 'ibol downstream', and one for the mean of those that differ only by seeds.

    `return_mean` and `goal_distance_mean` are of the controller's mode in `episodes` episodes that `seed` decides, the
    same for all runs. A planner has plans for its own episodes alone: it plays the first of those, whatever the seed.
    The rest is from the log: `last_return` is the mean return while exploring over the last tenth of the epochs, at
    most the paper's 100; `final_return` and `final_distance` are of the last evaluation, `untrained_distance` of that
    before training.
    """
    whole_number("episodes", episodes)
    loaded = {run.path: run for run in load_runs(runs)}
    rows: list[Row] = []
    for group in group_runs(list(loaded)):
        members = [_row(loaded[run.path], group.env, group.label, episodes, seed) for run in group.runs]
        rows += members + mean_rows(members)
    return rows


def last_return(returns: Sequence[float]) -> float:
    """The mean over the last tenth of the epochs, at least 1 and at most the paper's 100."""
    return float(np.mean(returns[-min(max(len(returns) // 10, 1), 100) :]))


def _row(run: LoadedRun, task: str, label: str, episodes: int, seed: int) -> Row:
    logged = list(run.directory.metrics())
    measured = [row for row in logged if "evaluation/return" in row]
    if not measured or "untrained/return" not in logged[0]:
        raise IbolError(
            f"{run.path} has no evaluation yet: let it train on, or give --evaluate-every when it is started"
        )
    returns = run.agent.rollout(episodes, seed=derive(seed, "evaluation")).returns
    planned = run.directory.config["settings"]["controller"] == "planner"
    return {
        "run": zoo.label(run.path),
        "env": task,
        "method": label,
        "env_steps": logged[-1]["env_steps"],
        "episodes": len(returns),
        "episodes_from": "its plans" if planned else f"seed {seed}",
        "return_mean": float(returns.mean()),
        "goal_distance_mean": float(run.agent.make_env(1).distance(returns).mean()),
        "last_return": last_return([row["return"] for row in logged]),
        "final_return": measured[-1]["evaluation/return"],
        "untrained_distance": logged[0]["untrained/goal_distance"],
        "final_distance": measured[-1]["evaluation/goal_distance"],
    }
