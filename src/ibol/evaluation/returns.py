"""External returns of trained policies, next to a random policy."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners.rollout import Trajectories, collect
from ibol.methods import load_policy
from ibol.seeding import derive, generator
from ibol.tables import show


def random_rollout(env: str, settings: EnvSettings, episodes: int, seed: int) -> Trajectories:
    """Whole episodes of uniform random actions."""
    envs = settings.make(env, episodes)
    rng = generator(seed, "random policy")
    return collect(envs, lambda states, step: rng.uniform(-1, 1, envs.action_space.shape), seed=seed)


def evaluate_runs(runs: Sequence[Path], *, episodes: int, seed: int, json_file: Path | None = None) -> list[Any]:
    """Mean return and its spread over episodes for each run and for random actions; shown and optionally written."""
    if not runs:
        raise IbolError("name at least one run directory to evaluate")
    rows = []
    for run in runs:
        policy = load_policy(run)
        start = derive(seed, "evaluation")
        trained = policy.rollout(episodes, seed=start)
        untrained = random_rollout(policy.env, policy.env_settings, episodes, start)
        rows.append(
            {
                "run": str(run),
                "env": policy.env,
                "episodes": episodes,
                **_summary("", trained),
                **_summary("random_", untrained),
            }
        )
    table = Table("run", "environment", "return", "length", "random policy's return", title="mean ± std over episodes")
    for row in rows:
        table.add_row(
            str(row["run"]),
            str(row["env"]),
            f"{row['return_mean']:.4g} ± {row['return_std']:.3g}",
            f"{row['length_mean']:.4g}",
            f"{row['random_return_mean']:.4g} ± {row['random_return_std']:.3g}",
        )
    show(table)
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=2) + "\n")
    return rows


def _summary(prefix: str, trajectories: Trajectories) -> dict[str, float]:
    returns = trajectories.returns
    return {
        f"{prefix}return_mean": float(returns.mean()),
        f"{prefix}return_std": float(np.std(returns)),
        f"{prefix}length_mean": float(trajectories.lengths.mean()),
    }
