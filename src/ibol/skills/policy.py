"""A continuous family of skills pi(. | s, z): the policy with its normaliser and, below it, its linearizer.

skills = ibol.load_skills("ant")                     # bundled; or a run directory
latents = skills.sample_latents(100, seed=0)         # (100, d), from N(0, I)
found = skills.rollout(latents, seed=0)              # found.states (100, horizon + 1, n), found.lengths (100,)
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol import memory, robots
from ibol.bounds import Count, Natural, array, path, whole_number, yes_or_no
from ibol.envs import Env
from ibol.envs.settings import EnvSettings, check_dims, env_settings_of
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, omit
from ibol.learners.rollout import Act, Trajectories, collect
from ibol.learners.sac import Policy
from ibol.linearizer.env import squeeze_y
from ibol.linearizer.policy import Distortion, Linearizer, load_linearizer
from ibol.nn.networks import MLP, BetaPolicy, TanhGaussianPolicy
from ibol.runs import checkpoint, files
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import derive, generator
from ibol.skills.latents import PRIORS, OneHot, Prior, PriorName

LINEARIZER_FILE = "linearizer.safetensors"
SKILLS_PREFIX = "skills/"
PHI_PREFIX = "phi/"
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
    state_dim: Count
    action_dim: Count
    """Dimensions of what the skill policy answers: a goal for the linearizer, or an action without one."""
    latent_dim: Count
    location_dims: tuple[Natural, ...]
    omitted: tuple[Natural, ...]
    """State dimensions that the skill policy does not see."""
    hidden: tuple[Count, ...]
    policy: Literal["beta", "tanh_gaussian"] = "beta"
    layer_norm: bool = False
    linearized: bool = True
    distortion: Literal["none", "squeeze_y"] = "none"
    prior: PriorName = "gaussian"
    """What latents are drawn from."""
    represented: tuple[Natural, ...] = ()
    """State dimensions that the representation phi sees; none where there is no phi."""

    @classmethod
    def from_json(cls, values: dict[str, Any], where: str) -> "SkillDescription":
        """Undo `dataclasses.asdict`."""
        nested = {**values, "env_settings": env_settings_of(values, where)}
        if nested.pop("discrete", False):  # how runs before 0.2 said it
            nested["prior"] = OneHot.name
        made = settings_from_json(cls, nested, where)
        dims = {"location_dims": made.location_dims, "omitted": made.omitted, "represented": made.represented}
        check_dims(where, made.state_dim, **dims)
        return made

    def policy_template(self) -> Policy:
        """A policy of the right shape."""
        make = POLICIES[self.policy]
        inputs = self.state_dim + self.latent_dim
        return make(inputs, self.action_dim, self.hidden, jax.random.key(0), self.layer_norm)

    def phi_template(self) -> MLP:
        """A phi of the right shape."""
        inputs, key = len(self.represented), jax.random.key(0)
        return MLP(inputs, self.latent_dim, self.hidden, jax.nn.relu, "xavier_uniform", key)


class Skills:
    """A skill policy that can act: each latent z is one skill."""

    kind: Final = "skills"

    def __init__(
        self,
        description: SkillDescription,
        network: Policy,
        normalizer: Normalizer,
        linearizer: Linearizer | None,
        phi: MLP | None = None,
    ) -> None:
        self.description, self.env_settings = description, description.env_settings
        self.network = network
        self.normalizer = normalizer
        self.linearizer = linearizer
        self.phi = phi
        self.prior: Prior = PRIORS[description.prior](description.latent_dim)

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
        """Draw latents from the prior.

        Args:
            n: how many.
            seed: decides which.

        Returns:
            Latents (n, d).
        """
        n = whole_number("the number of latents", n)
        memory.check(8 * n * self.latent_dim, f"{n} latents", "ask for fewer (--trajectories)")
        return self.prior.draw(generator(seed, "latents"), n)

    def act(
        self, obs: ArrayLike, latents: ArrayLike, *, deterministic: bool = False, seed: int = 0, step: int = 0
    ) -> NDArray[np.float32]:
        """What the skill policy answers to observations.

        With a linearizer this is a goal for it, to be held for `macro_length` steps; without one it is an action. See
        `controller` for actions in either case.

        Args:
            obs: raw observations (n,) or (N, n).
            latents: a latent for each, (d,) or (N, d).
            deterministic: the mode of the policy instead of a sample.
            seed: decides the sample, together with `step`.
            step: the number of the decision.

        Returns:
            Goals or actions in [-1, 1], (m,) or (N, m).
        """
        states = array("observations", obs, ..., self.description.state_dim)
        z = array("latents", latents, *states.shape[:-1], self.latent_dim, dtype=np.float32)
        return self._answer(states, z, deterministic, whole_number("seed", seed, 0), whole_number("step", step, 0))

    def _answer(
        self, states: NDArray[np.floating], z: NDArray[np.float32], deterministic: bool, seed: int, step: int
    ) -> NDArray[np.float32]:
        inputs = np.concatenate([omit(self.normalizer(states), self.description.omitted), z], axis=-1)
        if yes_or_no("deterministic", deterministic):
            return np.asarray(sac.mode_actions(self.network, inputs))
        return np.asarray(sac.sample_actions(self.network, inputs, jax.random.key(seed), step))

    def controller(self, latents: ArrayLike, *, deterministic: bool = False, seed: int = 0) -> Act:
        """A function for your own loop, that acts by these skills. Make a new one for every episode.

        Args:
            latents: the skill of each of N robots, (N, d).
            deterministic: act by the mode of the skill policy instead of samples.
            seed: decides the samples.

        Returns:
            A function of raw observations (N, n) and the number of the step in the episode, from 0. It gives actions
            (N, m) in [-1, 1].
        """
        z = array("latents", latents, ..., self.latent_dim, dtype=np.float32)
        seed = whole_number("seed", seed, 0)

        def choose(obs: NDArray[np.floating], step: int) -> NDArray[np.float32]:
            states = array("observations", obs, *z.shape[:-1], self.description.state_dim)
            return self._answer(states, z, deterministic, seed, step)

        return self.act_on(choose)

    @property
    def finds_goals(self) -> bool:
        """Whether `latent_for` has an answer: there is a representation phi, and it sees the location."""
        return bool(set(self.location_dims) & set(self.description.represented))

    def latent_for(self, goals: ArrayLike, obs: ArrayLike) -> NDArray[np.float32]:
        """The skills that lead to goal locations, if the method learned a representation phi (METRA, LSD, CSD, CSF).

        They point from phi(s) to phi(g), where g is the state s moved to the goal: of length 1, with a Gaussian prior
        of its typical length, the square root of d; a discrete skill is the one that points there best.

        Args:
            goals: locations (N, k).
            obs: raw observations (N, n) from where to go.

        Returns:
            Latents (N, d).

        Raises:
            IbolError: there is no phi, or it does not see the location (`finds_goals` says so).
        """
        if self.phi is None or not self.finds_goals:
            raise IbolError("these skills have no representation of locations: those of METRA, LSD, CSD and CSF have")
        states = array("observations", obs, "N", self.description.state_dim)
        there = np.array(states)
        there[:, list(self.location_dims)] = array("goals", goals, len(states), len(self.location_dims))
        here, there = (self.normalizer(x)[:, list(self.description.represented)] for x in (states, there))
        toward = np.asarray(_apart(self.phi, here, there))
        length = np.linalg.norm(toward, axis=1, keepdims=True)
        return self.prior.from_box(toward / np.maximum(length, 1e-12), float(np.sqrt(self.latent_dim)))

    def goal_controller(self, goals: ArrayLike, *, deterministic: bool = False, seed: int = 0) -> Act:
        """A function for your own loop, as `controller` gives, that goes to goals by choosing a skill at each decision.

        Args:
            goals: locations (N, k).
            deterministic: as in `controller`.
            seed: as in `controller`.

        Returns:
            As `controller`.
        """
        wanted = array("goals", goals, "N", len(self.location_dims))
        seed = whole_number("seed", seed, 0)

        def choose(obs: NDArray[np.floating], step: int) -> NDArray[np.float32]:
            return self._answer(obs, self.latent_for(wanted, obs), deterministic, seed, step)

        return self.act_on(choose)

    def act_on(self, choose: Act) -> Act:
        """Actions for what `choose(obs, step)` answers in the place of the skill policy, by the linearizer if any."""
        if self.linearizer is None:
            return choose
        return self.linearizer.act_on(choose, DISTORTIONS[self.description.distortion])

    def rollout(self, latents: ArrayLike, seed: int = 0, *, deterministic: bool = False) -> Trajectories:
        """Play one episode for each latent.

        Args:
            latents: the skills, (N, d).
            seed: decides the initial states and the samples of the skill policy.
            deterministic: act by the mode of the skill policy instead of samples.

        Returns:
            The episodes, with raw `states` (N, horizon + 1, n) at every environment step.
        """
        z = array("latents", latents, "N", self.latent_dim, dtype=np.float32)
        act = self.controller(z, deterministic=deterministic, seed=seed)
        return collect(self.make_env(len(z)), act, seed=derive(seed, "episodes"))

    def make_env(self, num_envs: int) -> Env:
        """A batch of the environment that they were discovered in."""
        return self.description.env_settings.make_for(self.description, num_envs)


def load_skills(run: str | Path) -> Skills:
    """The skills of a run of 'ibol discover', or bundled ones by their name."""
    return skills_of(RunDirectory.open(path("run", run)))


def skills_of(run: RunDirectory) -> Skills:
    """The skills of the run's newest good checkpoint."""
    if "skills" not in run.config:
        raise IbolError(f"{run.path} is a run of 'ibol {run.command}' and has no skills")
    description = describe(run)
    linearizer = load_linearizer(run.path / LINEARIZER_FILE) if description.linearized else None
    if linearizer is not None and (linearizer.env, linearizer.goal_dim) != (description.env, description.action_dim):
        raise IbolError(f"{run.path / LINEARIZER_FILE} is not the linearizer of the skills in {run.path}")
    return run.use_checkpoint(lambda arrays: assemble(description, arrays, linearizer), _is_of_skills)[0]


def describe(run: RunDirectory) -> SkillDescription:
    """What the skills of a run were made for."""
    where = f"skills in {run.path / 'config.json'}"
    return SkillDescription.from_json(run.described("skills"), where)


def _is_of_skills(name: str) -> bool:
    return name.startswith((SKILLS_PREFIX, PHI_PREFIX, "normalizer/"))


def copy_skills(source: Path, copy: Path) -> None:
    """Put all that `load_skills` needs of a run of 'ibol discover' into the directory `copy`."""
    run = RunDirectory.open(source)
    arrays, epoch = run.load_checkpoint(_is_of_skills)
    made = RunDirectory(copy, run.config)
    made.save_checkpoint(epoch, arrays, keep=1)
    robots.keep(copy, run.config["env"])
    if (run.path / LINEARIZER_FILE).exists():
        files.replace_bytes(files.inside(copy, LINEARIZER_FILE), (run.path / LINEARIZER_FILE).read_bytes())
    made.save_config()


def assemble(description: SkillDescription, arrays: Arrays, linearizer: Linearizer | None) -> Skills:
    """Skills from their arrays; they must fit the description."""
    network = checkpoint.unflatten(description.policy_template(), arrays, SKILLS_PREFIX)
    phi = checkpoint.unflatten(description.phi_template(), arrays, PHI_PREFIX) if description.represented else None
    return Skills(description, network, Normalizer.from_state(arrays, description.state_dim), linearizer, phi)


@jax.jit
def _apart(phi: MLP, here: jax.Array, there: jax.Array) -> jax.Array:
    """phi(g) - phi(s), (N, d)."""
    return phi(there) - phi(here)
