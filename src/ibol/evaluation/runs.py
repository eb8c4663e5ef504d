"""What runs have learned, in numbers: `ibol evaluate`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation.skills import evaluate_skills
from ibol.learners.rollout import Trajectories, collect
from ibol.linearizer.evaluation import evaluate_linearizer, random_goal_paths
from ibol.linearizer.policy import Linearizer
from ibol.methods import load_policy
from ibol.methods.sac import SACPolicy
from ibol.metrics.coverage import state_coverage
from ibol.seeding import derive, generator
from ibol.skills.policy import Skills

Row = dict[str, Any]


def evaluate_runs(
    runs: Sequence[Path], *, episodes: int = 64, trajectories: int = 2000, bins: int = 32, seed: int = 0
) -> list[Row]:
    """One row of numbers for each run; skills come with a row for their untrained policy and one for random goals.

    A policy gets its return over `episodes`, next to that of random actions; a linearizer its reach for goals along the
    location, and its state coverage by `trajectories` random location goals, counted in cells between the extremes of
    all linearizers given for the same environment.
    """
    if not runs:
        raise IbolError("name at least one run directory to evaluate")
    policies = [load_policy(run) for run in runs]
    start = derive(seed, "evaluation")
    rows: list[Row] = []
    paths: dict[int, Any] = {}
    for run, policy in zip(runs, policies, strict=True):
        row: Row = {"run": str(run), "env": policy.env}
        if isinstance(policy, SACPolicy):
            row |= {"episodes": episodes, **_returns("", policy.rollout(episodes, seed=start))}
            row |= _returns("random_", random_rollout(policy.env, policy.env_settings, episodes, start))
        elif isinstance(policy, Linearizer):
            row |= evaluate_linearizer(policy, seed=start).scalars()
            paths[len(rows)] = random_goal_paths(policy, trajectories=trajectories, seed=start)
        elif isinstance(policy, Skills):
            rows += evaluate_skills(policy, str(run), trajectories=trajectories, bins=bins, seed=start)
            continue
        rows.append(row)
    for i, visited in paths.items():
        rivals = [other for j, other in paths.items() if rows[j]["env"] == rows[i]["env"]]
        limits = np.array([[r.min(axis=(0, 1)) for r in rivals], [r.max(axis=(0, 1)) for r in rivals]])
        rows[i]["coverage"] = state_coverage(visited, np.stack([limits[0].min(axis=0), limits[1].max(axis=0)]))
    return rows


def random_rollout(env: str, settings: EnvSettings, episodes: int, seed: int) -> Trajectories:
    """Whole episodes of uniform random actions."""
    envs = settings.make(env, episodes)
    rng = generator(seed, "random policy")
    return collect(envs, lambda states, step: rng.uniform(-1, 1, envs.action_space.shape), seed=seed)


def write_json(rows: Sequence[Row], file: Path) -> None:
    """Keep the numbers for other programs."""
    file.write_text(json.dumps(list(rows), indent=2) + "\n")


def _returns(prefix: str, trajectories: Trajectories) -> dict[str, float]:
    returns = trajectories.returns
    return {
        f"{prefix}return_mean": float(returns.mean()),
        f"{prefix}return_std": float(np.std(returns)),
        f"{prefix}length_mean": float(trajectories.lengths.mean()),
    }
