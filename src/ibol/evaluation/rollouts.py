"""Roll-outs of a run's skills, simulated once and kept in the run directory.

RUN/evaluation/*.safetensors: arrays, and a JSON header with everything that decides them. What does not fit the run any
more, or was damaged, is simulated again; in a directory that cannot be written nothing is kept.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.runs import checkpoint
from ibol.runs.directory import versions
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive, generator
from ibol.skills.latents import SHOWN, Prior
from ibol.skills.policy import Skills, load_skills

Policy = Literal["skills", "untrained", "random"]
Which = Literal["random", "eight", "line"]
POLICIES: tuple[Policy, ...] = ("skills", "untrained", "random")
BATCH = 500  # episodes that are simulated at once
LINE = 4.0  # the latents of "line" reach from -4 to 4, as the paper's of the orientation
_VERSION = 1
_ENGINES = ("mujoco", "jax", "numpy")


@dataclass(frozen=True)
class Rollouts:
    """One episode for each of N latents; after its end an episode's last location is repeated."""

    latents: NDArray[np.float32]  # (N, d)
    locations: NDArray[np.float32]  # (N, horizon + 1, k), raw, at every environment step
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


def skill_rollouts(
    run: Path,
    *,
    policy: Policy = "skills",
    which: Which = "random",
    trajectories: int = 2000,
    seed: int = 0,
    deterministic: bool = False,
    state_dims: tuple[int, ...] | None = None,
    progress: WorkProgress | None = None,
) -> Rollouts:
    """Roll-outs of the skills of a run of 'ibol discover', from the run's cache if they are there.

    Args:
        run: the run directory.
        policy: the skills, the same policy before its training, or random goals (without a linearizer: actions).
        which: latents from N(0, I); those of `Prior.shown`, each as often as `trajectories` allow, one after the
            other; or evenly along the first dimension from -4 to 4.
        trajectories: episodes.
        seed: decides latents, initial states and samples.
        deterministic: the mode of the skill policy instead of samples.
        state_dims: what to keep of the states instead of the location.
        progress: is told of every episode that is done.
    """
    skills = load_skills(run)
    dims = skills.location_dims if state_dims is None else state_dims
    if not dims:
        raise IbolError(f"the skills in {run} have no location to be measured by: give --location-dims to discover")
    if which == "eight" and trajectories < SHOWN:
        raise IbolError(f"{trajectories} trajectories are too few for {SHOWN} latents: give at least {SHOWN}")
    key = {
        "version": _VERSION, "policy": policy, "which": which, "trajectories": trajectories, "seed": seed,
        "deterministic": deterministic, "state_dims": list(dims), "batch": BATCH,
        "skills": fingerprint(skills), "versions": {name: versions()[name] for name in _ENGINES},
    }  # fmt: skip
    mode, only = "-mode" if deterministic else "", "" if state_dims is None else f"-dims{'_'.join(map(str, dims))}"
    file = run / "evaluation" / f"{policy}-{which}-{trajectories}-seed{seed}{mode}{only}.safetensors"
    kept = _load(file, key, skills.prior)
    if kept is not None:
        if progress is not None:
            progress.skip(len(kept.latents))
        return kept
    latents = choose_latents(skills, which, trajectories, seed)
    acting = untrained(skills) if policy == "untrained" else skills
    controller = _random if policy == "random" else _skilled(deterministic)
    pieces = []
    for found in simulate(acting, latents, controller, seed=derive(seed, f"rollouts of {which} latents")):
        pieces.append((found.states[:, :, list(dims)], found.returns, found.lengths))
        if progress is not None:
            progress.advance(len(found.lengths))
    locations, returns, lengths = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    fresh = Rollouts(latents, locations, returns, lengths, skills.prior)
    with contextlib.suppress(OSError, IbolError):  # a run that cannot be written is as good as any other
        file.parent.mkdir(exist_ok=True)
        checkpoint.save(file, {name: getattr(fresh, name) for name in _ARRAYS}, key)
    return fresh


def choose_latents(skills: Skills, which: Which, trajectories: int, seed: int) -> NDArray[np.float32]:
    """The latents (N, d) that `which` stands for."""
    if which == "random":
        return skills.sample_latents(trajectories, derive(seed, "evaluation"))
    if which == "eight":
        return np.repeat(skills.prior.shown(), trajectories // SHOWN, axis=0)
    if skills.prior.discrete:
        raise IbolError("discrete skills have no latents between them: this needs skills with continuous latents")
    latents = np.zeros((trajectories, skills.latent_dim), np.float32)
    latents[:, 0] = np.linspace(-LINE, LINE, trajectories)
    return latents


def untrained(skills: Skills) -> Skills:
    """The same skills before any training."""
    return Skills(skills.description, skills.description.policy_template(), skills.normalizer, skills.linearizer)


def fingerprint(skills: Skills) -> str:
    """A SHA-256 of all that decides what the skills do."""
    arrays = {**checkpoint.flatten(skills.network, "skills/"), **skills.normalizer.state()}
    descriptions: list[Any] = [dataclasses.asdict(skills.description)]
    if skills.linearizer is not None:
        arrays |= {f"linearizer/{name}": value for name, value in skills.linearizer.arrays().items()}
        descriptions.append(dataclasses.asdict(skills.linearizer.description))
    digest = hashlib.sha256(json.dumps(descriptions, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


MakeAct = Callable[[Skills, NDArray[np.float32], int], Act]
_ARRAYS = ("latents", "locations", "returns", "lengths")


def simulate(skills: Skills, latents: NDArray[np.float32], make_act: MakeAct, *, seed: int) -> Iterator[Trajectories]:
    """One episode for each latent, in batches."""
    env = None
    for start in range(0, len(latents), BATCH):
        some = latents[start : start + BATCH]
        if env is None or env.num_envs != len(some):
            env = skills.make_env(len(some))
        yield collect(env, make_act(skills, some, seed + start), seed=seed + start)


def _skilled(deterministic: bool) -> MakeAct:
    return lambda skills, latents, seed: skills.controller(latents, deterministic=deterministic, seed=seed)


def _random(skills: Skills, latents: NDArray[np.float32], seed: int) -> Act:
    """Uniform random answers in the place of the skill policy's."""
    rng = generator(seed, "random policy")
    shape = (len(latents), skills.description.action_dim)
    return skills.act_on(lambda obs, step: rng.uniform(-1, 1, shape).astype(np.float32))


def _load(file: Path, key: dict[str, Any], prior: Prior) -> Rollouts | None:
    """What the cache holds for the key, or None."""
    try:
        arrays, found = checkpoint.load(file)
        return Rollouts(**arrays, prior=prior) if found == key else None
    except (IbolError, TypeError):
        return None
