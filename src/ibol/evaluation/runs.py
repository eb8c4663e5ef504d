"""What runs have learned, in numbers: `ibol evaluate`."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ibol import zoo
from ibol.bounds import whole_number
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation.downstream import evaluate_downstream
from ibol.evaluation.goals import goal_paths
from ibol.evaluation.loading import LoadedRun, Run, load_runs
from ibol.evaluation.rows import Row
from ibol.evaluation.skills import evaluate_skills
from ibol.learners.rollout import Trajectories, collect
from ibol.linearizer.evaluation import evaluate_linearizer
from ibol.linearizer.policy import Linearizer
from ibol.metrics.coverage import state_coverage
from ibol.metrics.information import pooled_limits
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive, generator

KINDS = ("skills", "controller", "linearizer", "policy")
"""What runs can hold, in the order of their rows."""


def evaluate_runs(
    runs: Sequence[Run],
    *,
    episodes: int = 64,
    trajectories: int = 2000,
    bins: Sequence[int] = (32,),
    k: int = 1,
    seed: int = 0,
    references: bool = True,
    deterministic: bool = False,
    quiet: bool = False,
) -> list[Row]:
    """One row of numbers for each run; for skills see `evaluate_skills`, for tasks `evaluate_downstream`.

    A policy gets its return over `episodes`, next to that of random actions; a linearizer its reach for goals along the
    location, and its state coverage by `trajectories` random location goals, counted in cells between the extremes of
    all linearizers given for the same environment.
    """
    if not runs:
        raise IbolError("name at least one run directory to evaluate")
    episodes, trajectories = whole_number("episodes", episodes), whole_number("trajectories", trajectories)
    loaded = load_runs(runs)
    of_kind = {kind: [run for run in loaded if run.kind == kind] for kind in KINDS}
    rows: list[Row] = []
    if of_kind["skills"]:
        rows += evaluate_skills(
            of_kind["skills"], trajectories=trajectories, bins=bins, k=k, seed=seed, references=references,
            deterministic=deterministic, quiet=quiet,
        )  # fmt: skip
    rows += evaluate_downstream(of_kind["controller"], episodes=episodes, seed=seed)
    start = derive(seed, "evaluation")
    coverage = linearizer_coverage(of_kind["linearizer"], trajectories=trajectories, seed=start, quiet=quiet)
    for run, cells in zip(of_kind["linearizer"], coverage, strict=True):
        scores = evaluate_linearizer(run.agent, seed=start).scalars()
        rows.append({"run": zoo.label(run.path), "env": run.agent.env, **scores, "coverage": cells})
    for run in of_kind["policy"]:
        agent = run.agent
        own = _returns("", agent.rollout(episodes, seed=start))
        random = _returns("random_", random_rollout(agent.env, agent.env_settings, episodes, start))
        rows.append({"run": zoo.label(run.path), "env": agent.env, "episodes": episodes, **own, **random})
    return rows


def linearizer_coverage(
    linearizers: Sequence[LoadedRun | Linearizer], *, trajectories: int, seed: int, quiet: bool = False
) -> list[int]:
    """Each linearizer's visited cells, between the extremes of all of the same environment."""
    paths = []
    with WorkProgress(len(linearizers) * trajectories, "episodes", quiet) as progress:
        for linearizer in linearizers:
            paths.append(goal_paths(linearizer, trajectories=trajectories, seed=seed))
            progress.advance(trajectories)
    envs = [one.env if isinstance(one, Linearizer) else str(one.agent.env) for one in linearizers]
    limits = {env: pooled_limits([p for p, e in zip(paths, envs, strict=True) if e == env]) for env in set(envs)}
    return [state_coverage(visited, limits[env]) for visited, env in zip(paths, envs, strict=True)]


def random_rollout(env: str, settings: EnvSettings, episodes: int, seed: int) -> Trajectories:
    """Whole episodes of uniform random actions."""
    envs = settings.make(env, episodes)
    rng = generator(seed, "random policy")
    return collect(envs, lambda states, step: rng.uniform(-1, 1, envs.action_space.shape), seed=seed)


def write_json(rows: Sequence[Row], file: Path) -> None:
    """Keep the numbers for other programs."""
    try:
        file.write_text(json.dumps(list(rows), indent=2) + "\n")
    except OSError as error:
        raise IbolError(f"could not write {file}: {error.strerror}") from None


def _returns(prefix: str, trajectories: Trajectories) -> dict[str, float]:
    returns = trajectories.returns
    return {
        f"{prefix}return_mean": float(returns.mean()),
        f"{prefix}return_std": float(np.std(returns)),
        f"{prefix}length_mean": float(trajectories.lengths.mean()),
    }
