"""Skills without a location, seen along the principal directions of their final states.

The directions are those of the final states of the random skills of all compared runs in an environment together, so
that runs are measured and drawn along the same ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ibol.errors import IbolError
from ibol.evaluation.loading import LoadedRun, Run, load_runs
from ibol.evaluation.rollouts import Rollouts, skill_rollouts
from ibol.metrics.directions import Directions, principal_directions
from ibol.runs.progress import WorkProgress


def is_located(run: LoadedRun) -> bool:
    """Whether the skills of a run say where the agent is."""
    return bool(run.skills.location_dims)


def need_location(run: LoadedRun, what: str) -> None:
    """Refuse a run whose skills have no location, for what is said of locations alone."""
    if not is_located(run):
        raise IbolError(
            f"the skills in {run.path} have no location, but {what}: "
            "name the state dimensions that say where the agent is with --location-dims when they are trained"
        )


def shared_directions(
    runs: Sequence[Run], *, trajectories: int, seed: int = 0, progress: WorkProgress | None = None
) -> dict[Path, Directions]:
    """By path, for those of the runs that have no location: the directions of all of them in the same environment."""
    ends: dict[str, dict[Path, Rollouts]] = {}
    for run in load_runs(runs):
        if not is_located(run):
            found = skill_rollouts(run, trajectories=trajectories, seed=seed, progress=progress)
            ends.setdefault(run.skills.env, {})[run.path] = found
    return {path: directions for of_env in ends.values() for path, directions in pooled(of_env).items()}


def pooled(rollouts: Mapping[Path, Rollouts]) -> dict[Path, Directions]:
    """The principal directions of where all of these roll-outs end together, for each of them."""
    ends = [found.ends for found in rollouts.values()]
    if len({rows.shape[1] for rows in ends}) > 1:
        raise IbolError("runs of one environment have states of different dimensions: measure them apart")
    directions = principal_directions(np.concatenate(ends))
    return dict.fromkeys(rollouts, directions)


def seen(rollouts: Rollouts, directions: Directions | None) -> Rollouts:
    """Roll-outs with the coordinates along the directions in the place of whole states; located ones as they are."""
    return rollouts if directions is None else replace(rollouts, locations=directions(rollouts.locations))
