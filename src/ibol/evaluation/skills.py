"""Skills in numbers, next to those of an untrained policy and of random goals."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ibol.errors import IbolError
from ibol.evaluation.groups import Group, group_runs
from ibol.evaluation.rollouts import POLICIES, Policy, Rollouts, skill_rollouts
from ibol.metrics.coverage import state_coverage
from ibol.metrics.information import Limits, corrected_information, mutual_information, pooled_limits
from ibol.metrics.locations import location_spread, mean_distance, nearest_centroid_accuracy, smallest_sector
from ibol.metrics.separability import corrected_separability, neighbour_separability, separability
from ibol.metrics.spread import bootstrap_interval, return_diversity
from ibol.runs.progress import WorkProgress
from ibol.skills.latents import SHOWN

Row = dict[str, Any]
REPEATS = 50  # episodes of each of the 8 latents for the accuracy, if there are 2000 trajectories


def evaluate_skills(
    runs: Sequence[Path],
    *,
    trajectories: int = 2000,
    bins: Sequence[int] = (32,),
    k: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    references: bool | Collection[Path] = True,
    quiet: bool = False,
) -> list[Row]:
    """Rows for each run's skills, for the same policy before its training and for random answers in its place.

    Bins and cells divide the ranges that the skills of all runs in the same environment reach together. Every number of
    bins makes rows of its own. Where several runs differ only by seed or linearizer, a row with their mean and the
    bootstrap interval of it (`intervals`) follows. `references` may also name the runs whose untrained and random
    policies are wanted.
    """
    if trajectories < SHOWN:
        raise IbolError(f"trajectories is {trajectories}, but at least {SHOWN} are needed")
    groups = group_runs(runs)
    chosen = (runs if references else ()) if isinstance(references, bool) else references
    wanted: list[tuple[Path, Policy]] = [
        (run, policy) for run in runs for policy in POLICIES if policy == "skills" or run in chosen
    ]
    repeated = accuracy_trajectories(trajectories)
    found: dict[tuple[Path, Policy], tuple[Rollouts, Rollouts]] = {}
    with WorkProgress(len(wanted) * (trajectories + repeated), "episodes", quiet) as progress:
        for run, policy in wanted:
            simulate = partial(
                skill_rollouts, run, policy=policy, seed=seed, deterministic=deterministic, progress=progress
            )
            random, eight = simulate(trajectories=trajectories), simulate(which="eight", trajectories=repeated)
            found[run, policy] = random, eight
    rows: list[Row] = []
    ranges = {env: _ranges([found[run, "skills"][0] for run in _of_env(groups, env)]) for env in _envs(groups)}
    settings = {run.path: group for group in groups for run in group.runs}
    for (run, policy), (random, eight) in found.items():
        group = settings[run]
        head = {"run": str(run), "env": group.env, "method": group.label, "policy": policy}
        informed, cells = ranges[group.env]
        behaviour = _behaviour(random, eight, cells)
        measure = _discrete_information if random.prior.discrete else partial(_information, k=k)
        rows += [head | {"bins": count} | found | behaviour for count, found in measure(random, informed, bins)]
    return rows + [row for group in groups for row in _means(group, rows)]


def accuracy_trajectories(trajectories: int) -> int:
    """Episodes for the accuracy: 50 of each of 8 latents for 2000 trajectories, fewer for fewer."""
    return SHOWN * max(2, trajectories * REPEATS // 2000)


def _information(rollouts: Rollouts, limits: Limits, bins: Sequence[int], *, k: int) -> Iterator[tuple[int, Row]]:
    """The measures for each number of bins."""
    z, s = rollouts.latents, rollouts.ends
    neighbours = neighbour_separability(z, s, k=k)
    for count in bins:
        published = separability(z, s, bins=count, limits=limits, k=k)
        corrected = corrected_separability(z, s, bins=count, limits=limits, k=k)
        yield (
            count,
            {
                "information": published.information,
                f"sepin@{k}": published.sepin,
                "wsepin": published.wsepin,
                "corrected": corrected.information,
                f"corrected_sepin@{k}": corrected.sepin,
                "corrected_wsepin": corrected.wsepin,
                "neighbour_information": neighbours.information,
                f"neighbour_sepin@{k}": neighbours.sepin,
                "neighbour_wsepin": neighbours.wsepin,
            },
        )


def _discrete_information(rollouts: Rollouts, limits: Limits, bins: Sequence[int]) -> Iterator[tuple[int, Row]]:
    """What is left of the measures for discrete skills: their dimensions say nothing apart, and have no neighbours."""
    z, s = rollouts.latents, rollouts.ends
    for count in bins:
        yield (
            count,
            {
                "information": mutual_information(z, s, bins=count, limits=limits),
                "corrected": corrected_information(z, s, bins=count, limits=limits),
            },
        )


def _behaviour(random: Rollouts, eight: Rollouts, limits: Any) -> Row:
    starts, ends = random.locations[:, 0], random.ends
    return_std, return_range = return_diversity(random.returns)
    row = {
        "accuracy": nearest_centroid_accuracy(eight.ends.reshape(eight.distinct, -1, ends.shape[1])),
        "coverage": state_coverage(random.locations, limits),
        "distance": mean_distance(starts, ends),
        "spread": location_spread(ends),
        "return_std": return_std,
        "return_range": return_range,
    }
    if ends.shape[1] == 1:
        return row | {"lowest": float(ends.min()), "highest": float(ends.max())}
    return row | {"smallest_sector": smallest_sector(ends)}


def _means(group: Group, rows: Sequence[Row]) -> list[Row]:
    """The mean over the runs of a group, for each number of bins."""
    if len(group.runs) < 2:
        return []
    paths = {str(run.path) for run in group.runs}
    by_bins: dict[int, list[Row]] = {}
    for row in rows:
        if row["run"] in paths and row["policy"] == "skills":
            by_bins.setdefault(row["bins"], []).append(row)
    found = []
    for members in by_bins.values():
        row = {**members[0], "run": f"mean of {len(members)} runs"}
        numbers = [name for name in row if name not in ("run", "env", "method", "policy", "bins")]
        values = {name: [member[name] for member in members] for name in numbers}
        row |= {name: float(np.mean(values[name])) for name in numbers}
        found.append(row | {"intervals": {name: bootstrap_interval(values[name]) for name in numbers}})
    return found


def _ranges(rollouts: Sequence[Rollouts]) -> tuple[Limits, Any]:
    """The ranges of latents and final locations, and that of all locations."""
    if len({(r.latents.shape[1], r.locations.shape[2]) for r in rollouts}) > 1:
        raise IbolError("runs of one environment have latents or locations of different dimensions: measure them apart")
    informed = pooled_limits([r.latents for r in rollouts]), pooled_limits([r.ends for r in rollouts])
    return informed, pooled_limits([r.locations for r in rollouts])


def _envs(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(group.env for group in groups))


def _of_env(groups: Sequence[Group], env: str) -> list[Path]:
    return [run.path for group in groups if group.env == env for run in group.runs]
