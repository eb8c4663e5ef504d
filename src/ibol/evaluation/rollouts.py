"""Roll-outs of a run's skills, simulated once and kept in the run directory.

RUN/evaluation/*.safetensors: arrays, and a JSON header with everything that decides them but their number. Fewer
episodes are the first ones of a file, more are simulated after them. What does not fit the run any more, or was
damaged, is simulated again.

Those of untrained policies and of random answers are the same for many runs, and bundled skills have no directory to
write to: they are kept in the user's cache, under a digest of all that decides them. Random answers depend on the
environment and the linearizer alone.
"""

import contextlib
import functools
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ibol import cache, memory, zoo
from ibol.bounds import whole_number
from ibol.envs import ENVS, find_task
from ibol.envs.checks import dimensions
from ibol.errors import IbolError, unknown
from ibol.evaluation.loading import LoadedRun, Run, fingerprint_of, fingerprint_of_world, load_run
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.runs import checkpoint, files
from ibol.runs.directory import versions
from ibol.runs.files import LinkError
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive, generator
from ibol.skills.latents import SHOWN, Prior, Sphere
from ibol.skills.policy import Skills
from ibol.training.launch import initial_agent

Policy = Literal["skills", "untrained", "random"]
Which = Literal["random", "eight", "line", "goals"]
POLICIES: tuple[Policy, ...] = ("skills", "untrained", "random")
BATCH = 500  # episodes that are simulated at once
SMOKE_BATCH = 64  # of a run with preset smoke, of which few are ever asked for
LINE = 4.0  # the latents of "line" reach from -4 to 4, as the paper's of the orientation
_VERSION = 3
_ENGINES = ("mujoco", "jax", "numpy")
SHARED = "references"
"""The folder of the user's cache with episodes that several runs share."""
_ARRAYS = ("latents", "locations", "returns", "lengths")


@dataclass(frozen=True)
class Rollouts:
    """One episode for each of N latents; after its end an episode's last location is repeated."""

    latents: NDArray[np.float32]  # (N, d), of "goals" the goal locations (N, k)
    locations: NDArray[np.float32]  # (N, horizon + 1, k), raw, at every step; whole states without a location
    returns: NDArray[np.float32]  # (N,), the environment's own reward, summed
    lengths: NDArray[np.int64]  # (N,), steps taken
    prior: Prior  # of the latents

    @property
    def distinct(self) -> int:
        """How many different latents there are."""
        return len(np.unique(self.latents, axis=0))

    @property
    def ends(self) -> NDArray[np.float32]:
        """(N, k), where the episodes ended."""
        return self.locations[:, -1]

    def chosen(self, numbers: slice | NDArray[np.int64]) -> "Rollouts":
        """The episodes with these numbers."""
        return replace(self, **{name: getattr(self, name)[numbers] for name in _ARRAYS})

    def by_latent(self) -> "Rollouts":
        """Those of "eight" with all episodes of a latent one after the other."""
        return self.chosen(np.arange(len(self.latents)).reshape(-1, self.distinct).T.ravel())


def skill_rollouts(
    run: Run,
    *,
    policy: Policy = "skills",
    which: Which = "random",
    trajectories: int = 2000,
    seed: int = 0,
    deterministic: bool = False,
    state_dims: tuple[int, ...] | None = None,
    progress: WorkProgress | None = None,
) -> Rollouts:
    """Roll-outs of the skills of a run of 'ibol discover', from the run's cache as far as they are there.

    The first episodes of many are the same as those of few, but for "line".

    Args:
        run: the run directory, or the run if it is loaded already.
        policy: the skills, the same policy before its training, or random goals (without a linearizer: actions).
        which: latents from the prior; those of `Prior.shown` in turn, each as often as `trajectories` allow; evenly
            along the first dimension from -4 to 4; or those that lead to goals of the task `ENV_goal` (`latent_for`).
        trajectories: episodes.
        seed: decides latents, initial states and samples.
        deterministic: the mode of the skill policy instead of samples.
        state_dims: what to keep of the states instead of the location; without a location all of them are kept.
        progress: counts every episode that is done.
    """
    for kind, name, choices in (("policy", policy, POLICIES), ("set of latents", which, get_args(Which))):
        if name not in choices:
            raise unknown(kind, str(name), choices)
    trajectories, seed = whole_number("trajectories", trajectories), whole_number("seed", seed, 0)
    run = load_run(run)
    skills = run.skills
    every = skills.description.state_dim
    usual = skills.location_dims or tuple(range(every))
    dims = dimensions("state_dims", usual if state_dims is None else state_dims, every)
    latents = choose_latents(skills, which, trajectories, seed)
    key = {
        "version": _VERSION, "policy": policy, "which": which, "seed": seed, "deterministic": deterministic,
        "state_dims": list(dims), "batch": batch_of(run), "skills": run.fingerprint,
        "versions": {name: versions()[name] for name in _ENGINES},
    }  # fmt: skip
    count = f"-{trajectories}" if which == "line" else ""
    mode, only = "-mode" if deterministic else "", "" if state_dims is None else f"-dims{'_'.join(map(str, dims))}"
    file = run.path / "evaluation" / f"{policy}-{which}{count}-seed{seed}{mode}{only}.safetensors"
    kept = _load(file, key, skills.prior, latents)
    acting, shared = skills, None
    if kept is None or len(kept.latents) < len(latents):
        acting = initial_agent(run.path) if policy == "untrained" else skills
        shared = _shared(run, acting, key, trajectories)
        if shared is not None:  # what a run brings along is not mixed into what others are measured by
            kept = _load(*shared, skills.prior, latents)
    if kept is not None and len(kept.latents) >= len(latents):
        if progress is not None:
            progress.skip(len(latents))
        return kept.chosen(slice(len(latents)))
    make_act = _random if policy == "random" else _skilled(deterministic, goals=which == "goals")
    pieces, first, size = [], 0, batch_of(run)
    if kept is not None and len(kept.latents) >= size:  # whole batches need not be simulated again
        first = len(kept.latents) // size * size
        pieces.append((kept.locations[:first], kept.returns[:first], kept.lengths[:first]))
        if progress is not None:
            progress.skip(first)
    start = derive(seed, f"rollouts of {which} latents")
    memory.check(
        4 * trajectories * (skills.make_env(1).horizon + 1) * len(dims),
        f"{trajectories} trajectories",
        "choose fewer --trajectories",
    )
    for batch in simulate(acting, latents, make_act, seed=start, first=first, size=size):
        pieces.append((batch.states[:, :, list(dims)], batch.returns, batch.lengths))
        if progress is not None:
            progress.advance(len(batch.lengths))
    locations, returns, lengths = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    rollouts = Rollouts(latents, locations, returns, lengths, skills.prior)
    arrays = {name: getattr(rollouts, name) for name in _ARRAYS}
    if shared is not None:
        with contextlib.suppress(OSError, IbolError):  # no room: the next one simulates them again
            checkpoint.save(shared[0], arrays, shared[1])
    if not zoo.is_bundled(run.path):
        _keep(run, file, arrays, key)
    return rollouts


def _keep(run: LoadedRun, file: Path, arrays: checkpoint.Arrays, key: dict[str, Any]) -> None:
    """Put roll-outs into the run directory, if it can be written."""
    try:
        files.folder(run.path, file.parent.name)
        checkpoint.save(file, arrays, key)
    except LinkError as error:
        warnings.warn(f"{error}; the episodes are not kept", RuntimeWarning, stacklevel=3)
    except (OSError, IbolError):  # a run that cannot be written is as good as any other
        pass


def _shared(
    run: LoadedRun, acting: Skills, key: dict[str, Any], trajectories: int
) -> tuple[Path, dict[str, Any]] | None:
    """Where the user's cache keeps these episodes and what decides them, if they are of use to other runs.

    What others have written as their environment may change under the same name: only ours are kept there.
    """
    if (key["policy"] == "skills" and not zoo.is_bundled(run.path)) or acting.env not in ENVS:
        return None
    folder = cache.directory(SHARED)
    if folder is None:
        return None
    who = fingerprint_of_world(acting) if key["policy"] == "random" else fingerprint_of(acting)
    decided = {
        **key, "skills": who, "prior": [acting.description.prior, acting.latent_dim], "envs": _digest_of_envs(),
        "count": trajectories if key["which"] == "line" else 0,
    }  # fmt: skip
    name = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:32]
    file = folder / f"{name}.safetensors"
    with contextlib.suppress(OSError):
        os.utime(file)  # it is used: the cache deletes others first
    return file, decided


@functools.cache
def _digest_of_envs() -> str:
    """A SHA-256 of our environments, whatever the version says."""
    digest = hashlib.sha256()
    for file in sorted((Path(__file__).parents[1] / "envs").rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def choose_latents(skills: Skills, which: Which, trajectories: int, seed: int) -> NDArray[np.float32]:
    """The latents (N, d) that `which` stands for; those for fewer trajectories are the first ones, but for "line"."""
    if which == "random":
        return skills.sample_latents(trajectories, derive(seed, "evaluation"))
    if which == "eight":
        if trajectories < SHOWN:
            raise IbolError(f"{trajectories} trajectories are too few for {SHOWN} latents: give at least {SHOWN}")
        return np.tile(skills.prior.shown(), (trajectories // SHOWN, 1))
    if which == "goals":
        reach = goal_range(skills)
        if reach is None:
            raise IbolError(f"no goals for these skills: they need a representation, and a task {skills.env}_goal")
        shape = trajectories, len(skills.location_dims)
        return generator(derive(seed, "evaluation"), "goals").uniform(-reach, reach, shape).astype(np.float32)
    if skills.prior.discrete:
        raise IbolError("discrete skills have no latents between them: this needs skills with continuous latents")
    if isinstance(skills.prior, Sphere):
        raise IbolError("latents of length 1 do not lie along a line: this needs skills with Gaussian latents")
    latents = np.zeros((trajectories, skills.latent_dim), np.float32)
    latents[:, 0] = np.linspace(-LINE, LINE, trajectories)
    return latents


def goal_range(skills: Skills) -> float | None:
    """How far from the origin the task `ENV_goal` has goals, if these skills find any."""
    task = find_task(f"{skills.env}_goal")
    return None if task is None or not skills.finds_goals else task.goal_range


MakeAct = Callable[[Skills, NDArray[np.float32], int], Act]


def simulate(
    skills: Skills, latents: NDArray[np.float32], make_act: MakeAct, *, seed: int, first: int = 0, size: int
) -> Iterator[Trajectories]:
    """One episode for each latent from number `first`, a multiple of the batch's `size`, in batches.

    The policies always act on a whole batch, whose rest is thrown away. So an episode does not depend on how many
    others are asked for: its random numbers and roundings are the same, and there is one shape to compile.
    """
    env = None
    for start in range(first, len(latents), size):
        some = latents[start : start + size]
        if env is None or env.num_envs != len(some):
            env = skills.make_env(len(some))
        act = make_act(skills, _filled(some, size), seed + start)
        yield collect(env, _on_whole_batches(act, size), seed=seed + start)


def batch_of(run: LoadedRun) -> int:
    """How many episodes of a run's skills are simulated at once."""
    return min(BATCH, SMOKE_BATCH) if run.directory.config["preset"] == "smoke" else BATCH


def _on_whole_batches(act: Act, size: int) -> Act:
    return lambda obs, step: np.asarray(act(_filled(obs, size), step))[: len(obs)]


def _filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    """A whole batch of rows: the last one is repeated."""
    return np.pad(rows, ((0, size - len(rows)), (0, 0)), mode="edge")


def _skilled(deterministic: bool, *, goals: bool) -> MakeAct:
    if goals:
        return lambda skills, goals, seed: skills.goal_controller(goals, deterministic=deterministic, seed=seed)
    return lambda skills, latents, seed: skills.controller(latents, deterministic=deterministic, seed=seed)


def _random(skills: Skills, latents: NDArray[np.float32], seed: int) -> Act:
    """Uniform random answers in the place of the skill policy's."""
    rng = generator(seed, "random policy")
    shape = (len(latents), skills.description.action_dim)
    return skills.act_on(lambda obs, step: rng.uniform(-1, 1, shape).astype(np.float32))


def _load(file: Path, key: dict[str, Any], prior: Prior, latents: NDArray[np.float32]) -> Rollouts | None:
    """What the cache holds for the key, if it has these latents as far as it goes."""
    try:
        arrays, kept_key = checkpoint.load(file)
        kept = Rollouts(**arrays, prior=prior)
    except (IbolError, TypeError):
        return None
    count, common = len(kept.latents), min(len(kept.latents), len(latents))
    shapes = [kept.returns.shape, kept.lengths.shape, (*kept.locations.shape[:1], *kept.locations.shape[2:])]
    fits = shapes == [(count,), (count,), (count, len(key["state_dims"]))]
    return kept if kept_key == key and fits and np.array_equal(kept.latents[:common], latents[:common]) else None
