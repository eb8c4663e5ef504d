"""A continuous family of skills pi(. | s, z): the policy with its normaliser and, below it, its linearizer.

skills = ibol.load_skills("runs/my-run")
latents = skills.sample_latents(100, seed=0)         # (100, d), from N(0, I)
found = skills.rollout(latents, seed=0)              # found.states (100, horizon + 1, n), found.lengths (100,)
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.envs import Env
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, omit
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.learners.sac import Policy
from ibol.linearizer.env import Distortion, squeeze_y
from ibol.linearizer.policy import Linearizer, load_linearizer
from ibol.nn.networks import BetaPolicy, TanhGaussianPolicy
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import generator

LINEARIZER_FILE = "linearizer.safetensors"
SKILLS_PREFIX = "skills/"
POLICIES: dict[str, type[BetaPolicy] | type[TanhGaussianPolicy]] = {
    "beta": BetaPolicy,
    "tanh_gaussian": TanhGaussianPolicy,
}
DISTORTIONS: dict[str, Distortion | None] = {"none": None, "squeeze_y": squeeze_y}


@dataclass(frozen=True)
class SkillDescription:
    """What skills were made for; kept with the run."""

    env: str
    env_settings: EnvSettings
    state_dim: int
    action_dim: int
    """Dimensions of what the skill policy answers: a goal for the linearizer, or an action without one."""
    latent_dim: int
    location_dims: tuple[int, ...]
    omitted: tuple[int, ...]
    """State dimensions that the skill policy does not see."""
    hidden: tuple[int, ...]
    policy: Literal["beta", "tanh_gaussian"] = "beta"
    layer_norm: bool = False
    linearized: bool = True
    distortion: str = "none"
    discrete: bool = False
    """Whether a latent is one of `latent_dim` unit vectors instead of any vector."""

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "SkillDescription":
        """Undo `dataclasses.asdict`."""
        nested = {**values, "env_settings": settings_from_json(EnvSettings, values["env_settings"])}
        return settings_from_json(cls, nested)

    def policy_template(self) -> Policy:
        """A policy of the right shape."""
        make = POLICIES[self.policy]
        inputs = self.state_dim + self.latent_dim
        return make(inputs, self.action_dim, self.hidden, jax.random.key(0), self.layer_norm)


class Skills:
    """A skill policy that can act: each latent z is one skill."""

    def __init__(
        self, description: SkillDescription, network: Policy, normalizer: Normalizer, linearizer: Linearizer | None
    ) -> None:
        self.description = description
        self.network = network
        self.normalizer = normalizer
        self.linearizer = linearizer

    @property
    def env(self) -> str:
        """The environment that they were discovered in."""
        return self.description.env

    @property
    def latent_dim(self) -> int:
        """Dimensions d of a latent."""
        return self.description.latent_dim

    @property
    def location_dims(self) -> tuple[int, ...]:
        """The state dimensions that say where the agent is."""
        return self.description.location_dims

    @property
    def macro_length(self) -> int:
        """Environment steps for which one answer of the skill policy is held."""
        return 1 if self.linearizer is None else self.linearizer.macro_length

    def sample_latents(self, n: int, seed: int = 0) -> NDArray[np.float32]:
        """Latents (n, d) from the prior: N(0, I), or for discrete skills unit vectors, all equally likely."""
        if n < 1:
            raise IbolError(f"{n} latents were asked for, but at least 1 is needed")
        return draw_latents(generator(seed, "latents"), n, self.latent_dim, discrete=self.description.discrete)

    def act(
        self, obs: ArrayLike, latents: ArrayLike, *, deterministic: bool = True, seed: int = 0, step: int = 0
    ) -> NDArray[np.float32]:
        """What the skill policy answers to raw observations (n,) or (N, n): the mode, or a sample.

        With a linearizer this is a goal for it, to be held for `macro_length` steps; without one it is an action. See
        `controller` for actions in either case.
        """
        z = np.asarray(latents, np.float32)
        states = np.asarray(obs)
        if z.shape != (*states.shape[:-1], self.latent_dim):
            raise IbolError(f"latents have shape {z.shape}, but {(*states.shape[:-1], self.latent_dim)} is needed")
        inputs = np.concatenate([omit(self.normalizer(states), self.description.omitted), z], axis=-1)
        if deterministic:
            return np.asarray(sac.mode_actions(self.network, inputs))
        return np.asarray(sac.sample_actions(self.network, inputs, jax.random.key(seed), step))

    def controller(self, latents: ArrayLike, *, deterministic: bool = True, seed: int = 0) -> Act:
        """A function of (raw observations (N, n), step from 0) that gives actions in [-1, 1] for latents (N, d)."""
        z = np.asarray(latents, np.float32)
        if self.linearizer is None:
            return lambda obs, step: self.act(obs, z, deterministic=deterministic, seed=seed, step=step)
        linearizer, distortion = self.linearizer, DISTORTIONS[self.description.distortion]
        goals = np.zeros((len(z), linearizer.goal_dim), np.float32)

        def act(obs: NDArray[np.float32], step: int) -> NDArray[np.float32]:
            nonlocal goals
            if step % linearizer.macro_length == 0:
                goals = self.act(obs, z, deterministic=deterministic, seed=seed, step=step)
                goals = goals if distortion is None else distortion(goals)
            return linearizer.act(obs, goals)

        return act

    def rollout(self, latents: ArrayLike, seed: int = 0, *, deterministic: bool = False) -> Trajectories:
        """One episode for each latent of (N, d): raw `states` (N, horizon + 1, n) at every environment step."""
        z = np.asarray(latents, np.float32)
        if z.ndim != 2 or z.shape[1] != self.latent_dim:
            raise IbolError(f"latents have shape {z.shape}, but (N, {self.latent_dim}) is needed")
        return collect(self.make_env(len(z)), self.controller(z, deterministic=deterministic, seed=seed), seed=seed)

    def make_env(self, num_envs: int) -> Env:
        """A batch of the environment that they were discovered in."""
        return self.description.env_settings.make(self.env, num_envs)


def draw_latents(rng: np.random.Generator, n: int, dims: int, *, discrete: bool) -> NDArray[np.float32]:
    """Latents (n, dims) from N(0, I), or unit vectors that are all equally likely."""
    if discrete:
        return np.eye(dims, dtype=np.float32)[rng.integers(dims, size=n)]
    return rng.standard_normal((n, dims)).astype(np.float32)


def load_skills(run: str | Path) -> Skills:
    """The skills of a run of 'ibol discover'."""
    return skills_of(RunDirectory.open(Path(run)))


def skills_of(run: RunDirectory) -> Skills:
    """The skills of the run's newest good checkpoint."""
    if "skills" not in run.config:
        raise IbolError(f"{run.path} is a run of 'ibol {run.made_by}' and holds no skills")
    description = SkillDescription.from_json(run.config["skills"])
    arrays, _ = run.load_checkpoint(lambda name: name.startswith((SKILLS_PREFIX, "normalizer/")))
    linearizer = load_linearizer(run.path / LINEARIZER_FILE) if description.linearized else None
    return assemble(description, arrays, linearizer)


def copy_skills(source: Path, copy: Path) -> None:
    """Put all that `load_skills` needs of a run of 'ibol discover' into the directory `copy`."""
    run = RunDirectory.open(source)
    arrays, epoch = run.load_checkpoint(lambda name: name.startswith((SKILLS_PREFIX, "normalizer/")))
    made = RunDirectory(copy, run.config)
    (copy / "checkpoints").mkdir(parents=True, exist_ok=True)
    made.save_checkpoint(epoch, arrays, keep=1)
    if (source / LINEARIZER_FILE).exists():
        shutil.copyfile(source / LINEARIZER_FILE, copy / LINEARIZER_FILE)
    made.save_config()


def assemble(description: SkillDescription, arrays: Arrays, linearizer: Linearizer | None) -> Skills:
    """Skills from their arrays; they must fit the description."""
    network = checkpoint.unflatten(description.policy_template(), arrays, SKILLS_PREFIX)
    return Skills(description, network, Normalizer.from_state(arrays), linearizer)
