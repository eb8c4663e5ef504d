"""Skills in numbers, next to those of an untrained policy and of random goals."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ibol import zoo
from ibol.bounds import BINS, whole_number
from ibol.errors import IbolError
from ibol.evaluation.directions import is_located, pooled
from ibol.evaluation.groups import envs_of, group_runs
from ibol.evaluation.loading import Run, load_runs
from ibol.evaluation.rollouts import POLICIES, Policy, Rollouts, goal_range, skill_rollouts
from ibol.evaluation.rows import Row, mean_rows
from ibol.metrics.coverage import COVERING, state_coverage, unit_coverage
from ibol.metrics.directions import Directions
from ibol.metrics.information import (
    Limits,
    corrected_information,
    mutual_information,
    neighbour_information,
    pooled_limits,
)
from ibol.metrics.locations import (
    goal_shares,
    location_spread,
    mean_distance,
    nearest_centroid_accuracy,
    smallest_sector,
)
from ibol.metrics.separability import corrected_separability, neighbour_separability, separability
from ibol.metrics.spread import return_diversity
from ibol.runs.progress import WorkProgress
from ibol.skills.latents import SHOWN

RADII = (3, 1)  # metres from a goal that count as being there
STATE_BINS = 8  # of each principal direction and latent dimension, where there is no location
REPEATS = 50  # episodes of each of the 8 latents for the accuracy, if there are 2000 trajectories


def evaluate_skills(
    runs: Sequence[Run],
    *,
    trajectories: int = 2000,
    bins: Sequence[int] = (32,),
    k: int = 1,
    seed: int = 0,
    deterministic: bool = False,
    references: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """Rows for each run's skills, for the same policy before its training and for random answers in its place.

    Bins and cells divide the ranges that the skills of all runs in the same environment reach together. Every number of
    bins makes rows of its own. Skills without a location are measured along the principal directions of the final
    states of all runs in the same environment, in numbers of other names (`state_information`). Where several runs
    differ only by seeds, a row with their mean and the bootstrap interval of it (`intervals`) follows. With
    `deterministic` skills act by the mode of their policy, which their rows say ("skills, mode").
    """
    whole_number("trajectories", trajectories, SHOWN)
    if not isinstance(bins, Sequence) or not bins:
        raise IbolError(f"bins are {bins!r}, but a list of at least one number is needed")
    bins, k = [whole_number("bins", one, *BINS) for one in bins], whole_number("k", k)
    loaded = {run.path: run for run in load_runs(runs)}
    groups = group_runs(list(loaded))
    policies = POLICIES if references else POLICIES[:1]
    repeated = accuracy_trajectories(trajectories)
    measured: dict[tuple[Path, Policy], tuple[Rollouts, Rollouts, Row]] = {}
    finding = {path: goal_range(run.skills) is not None for path, run in loaded.items()}
    located = {path: is_located(run) for path, run in loaded.items()}
    for env in envs_of(groups):
        if len({located[run.path] for group in groups if group.env == env for run in group.runs}) > 1:
            raise IbolError(f"some runs of {env} have a location and some have none: measure them apart")
    covering = COVERING * (sum(located.values()) + sum(finding.values()))
    episodes = len(loaded) * (trajectories + repeated) + covering
    with WorkProgress(len(policies) * episodes, "episodes", quiet) as progress:
        for path, run in loaded.items():
            for policy in policies:
                simulate = partial(skill_rollouts, run, policy=policy, seed=seed, progress=progress)
                random = simulate(trajectories=trajectories, deterministic=deterministic)
                eight = simulate(which="eight", trajectories=repeated, deterministic=deterministic)
                # Random answers have no mode.
                by_mode = partial(simulate, trajectories=COVERING, deterministic=deterministic or policy != "random")
                covered: Row = {"unit_coverage": unit_coverage(by_mode().locations)} if located[path] else {}
                if finding[path]:
                    covered |= _goals(by_mode(which="goals"))
                measured[path, policy] = random, eight, covered
    trained = {
        env: {run.path: measured[run.path, "skills"][0] for group in groups if group.env == env for run in group.runs}
        for env in envs_of(groups)
    }
    ranges = {env: _ranges(list(found.values())) for env, found in trained.items() if all(map(located.get, found))}
    directions = {env: next(iter(pooled(trained[env]).values())) for env in trained if env not in ranges}
    group_of = {run.path: group for group in groups for run in group.runs}
    rows: dict[tuple[Path, Policy], list[Row]] = {}
    for (path, policy), (random, eight, covered) in measured.items():
        group = group_of[path]
        acting = f"{policy}, mode" if deterministic and policy != "random" else policy
        head = {"run": zoo.label(path), "env": group.env, "method": group.label, "policy": acting}
        if not located[path]:
            rows[path, policy] = [head | _of_states(random, eight, directions[group.env])]
            continue
        informed, cells = ranges[group.env]
        behaviour = _behaviour(random, eight, cells) | covered
        measure = _discrete_information if random.prior.discrete else partial(_information, k=k)
        rows[path, policy] = [
            head | {"bins": n} | numbers | behaviour for n, numbers in measure(random, informed, bins)
        ]
    means = [
        mean_rows(members)
        for group in groups
        for members in zip(*(rows[run.path, "skills"] for run in group.runs), strict=True)  # by the number of bins
    ]
    return list(itertools.chain(*rows.values(), *means))


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


def _of_states(random: Rollouts, eight: Rollouts, directions: Directions) -> Row:
    """What can be said without a location: of the final states' coordinates along their principal directions."""
    z, ends = random.latents, directions(random.ends)
    informed = {} if random.prior.discrete else {"state_information": neighbour_information(z, ends)}
    return_std, return_range = return_diversity(random.returns)
    by_latent = directions(eight.by_latent().ends)
    return {
        **informed,
        "state_corrected": corrected_information(z, ends, bins=STATE_BINS),
        "state_accuracy": nearest_centroid_accuracy(by_latent.reshape(eight.distinct, -1, ends.shape[1])),
        "state_spread": location_spread(ends),
        "state_explained": directions.explained,
        "return_std": return_std,
        "return_range": return_range,
    }


def _behaviour(random: Rollouts, eight: Rollouts, limits: Any) -> Row:
    starts, ends = random.locations[:, 0], random.ends
    return_std, return_range = return_diversity(random.returns)
    row = {
        "accuracy": nearest_centroid_accuracy(eight.by_latent().ends.reshape(eight.distinct, -1, ends.shape[1])),
        "coverage": state_coverage(random.locations, limits),
        "distance": mean_distance(starts, ends),
        "spread": location_spread(ends),
        "return_std": return_std,
        "return_range": return_range,
    }
    if ends.shape[1] == 1:
        return row | {"lowest": float(ends.min()), "highest": float(ends.max())}
    return row | {"smallest_sector": smallest_sector(ends)}


def _goals(rollouts: Rollouts) -> Row:
    """How many of the goals were reached, and for how long."""
    row: Row = {}
    for radius in RADII:
        shares = goal_shares(rollouts.locations, rollouts.latents, radius)
        row |= {f"goal_{name}_{radius}m": share for name, share in zip(("hit", "end", "stay"), shares, strict=True)}
    return row


def _ranges(rollouts: Sequence[Rollouts]) -> tuple[Limits, Any]:
    """The ranges of latents and final locations, and that of all locations."""
    if len({(r.latents.shape[1], r.locations.shape[2]) for r in rollouts}) > 1:
        raise IbolError("runs of one environment have latents or locations of different dimensions: measure them apart")
    informed = pooled_limits([r.latents for r in rollouts]), pooled_limits([r.ends for r in rollouts])
    return informed, pooled_limits([r.locations for r in rollouts])
