"""What all methods of skill discovery share: their settings, their world, their training and its evaluation."""

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray

from ibol import memory, trust
from ibol.bounds import Count, Natural, NonNegative
from ibol.envs import Env, sizes
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, naming
from ibol.figures.skills import LOCATION_AXES, SkillPicture, plot_skills
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, find_normalizer, omit
from ibol.learners.rollout import Act, Trajectories, check_episodes, collect
from ibol.linearizer.env import LinearizedEnv
from ibol.linearizer.policy import Linearizer, bundled, load_linearizer, provenance_of
from ibol.metrics.coverage import COVERING, state_coverage, unit_coverage
from ibol.metrics.directions import AXES, principal_directions
from ibol.metrics.information import corrected_information
from ibol.metrics.locations import location_spread
from ibol.nn.networks import MLP, BetaPolicy
from ibol.robots.kept import is_marked
from ibol.runs import checkpoint, files
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import picture_of
from ibol.seeding import derive, generator
from ibol.skills.latents import Gaussian, OneHot, Prior
from ibol.skills.policy import (
    DISTORTIONS,
    LINEARIZER_FILE,
    PHI_PREFIX,
    SKILLS_PREFIX,
    SkillDescription,
    Skills,
    skills_of,
)
from ibol.training.method import Method
from ibol.training.trainer import Epoch, Trainer, TrainingConfig

Sees = Literal["all", "location", "no_location"]
_PICTURE_EPISODES = 6  # as the paper's
_TRAINING_BINS = 8  # few samples while training: few bins


@dataclass(frozen=True)
class DiscoveryConfig(TrainingConfig):
    """Settings that every method of skill discovery has."""

    linearizer: str = "bundled"
    """The linearizer below the skills: bundled, bundled:1 (its second seed), a run of 'ibol linearize', or none."""
    latent_dim: Count = 2
    """Dimensions d of the latent z."""
    encoder_sees: Sees = "all"
    """The state dimensions that the latent is inferred from; 'location' is the paper's -XY."""
    policy_sees: Sees = "all"
    """The state dimensions that the policies see; 'no_location' makes -XY into -XYO."""
    distortion: Literal["none", "squeeze_y"] = "none"
    """A distortion of the goals' x-y plane below the policies."""
    latent_weight: NonNegative = 1.0
    """Factor of the policies' initial weights for the latent, relative to those for the state: two latents among many
    state dimensions have little influence otherwise."""
    concentration: NonNegative = 0.0
    """Initial value of the policies' raw Beta parameters: 0 is near Beta(1.74, 1.74) with standard deviation 0.47, 8
    near Beta(9, 9) with 0.23."""
    normalizer: Literal["ema", "fixed"] = "ema"
    """How states are normalised: a moving average, or fixed statistics of random actions."""
    evaluate_every: Natural = 100
    """Epochs between evaluations of the skills (picture, information, coverage); 0 never evaluates."""
    evaluation_trajectories: Count = 256
    """Random latents in an evaluation."""


class World:
    """The environment that the policies act in (linearized or raw), and which of its dimensions are seen by whom."""

    state_dim: int
    """Numbers in a state."""
    action_dim: int
    """Numbers in an action; on a linearizer in a goal."""
    horizon: int
    """Decisions in an episode: steps, or macro steps on a linearizer."""
    location_dims: tuple[int, ...]
    """The state dimensions that say where the agent is."""
    encoder_dims: tuple[int, ...]
    """The state dimensions of `--encoder-sees`."""

    def __init__(self, env: str, env_settings: EnvSettings, config: DiscoveryConfig) -> None:
        self.name, self.env_settings, self.config = env, env_settings, config
        raw = env_settings.make(env, config.episodes_per_epoch)
        self.linearizer = find_linearizer(env, config.linearizer)
        self.env: Env | LinearizedEnv = raw
        if self.linearizer is not None:
            self.env = LinearizedEnv(raw, self.linearizer, distortion=DISTORTIONS[config.distortion])
        elif config.distortion != "none":
            raise IbolError("a distortion of the goals needs a linearizer")
        if config.distortion != "none" and len(raw.location_dims) != 2:
            raise IbolError(f"{env} does not move in the plane: {config.distortion!r} has no x and y to distort")
        check_episodes(self.env, config.episodes_per_epoch, "choose a smaller --episodes-per-epoch or --horizon")
        check_episodes(raw, config.evaluation_trajectories, "choose a smaller --evaluation-trajectories or --horizon")
        self.state_dim, self.action_dim = sizes(self.env)
        self.horizon = self.env.horizon
        self.macro_length = 1 if self.linearizer is None else self.linearizer.macro_length
        self.location_dims = self.env.location_dims
        self.encoder_dims = self._seen(config.encoder_sees)
        visible = self._seen(config.policy_sees)
        self.omitted = tuple(i for i in range(self.state_dim) if i not in visible)

    def _seen(self, sees: Sees) -> tuple[int, ...]:
        location = set(self.location_dims)
        if sees == "location" and not location:
            raise IbolError(f"{self.name} has no location: name its dimensions with --location-dims")
        keep = {"all": lambda i: True, "location": lambda i: i in location, "no_location": lambda i: i not in location}
        dims = tuple(i for i in range(self.state_dim) if keep[sees](i))
        if not dims:
            raise IbolError(f"{self.name} has no state dimensions left to see with {sees!r}")
        return dims

    def normalizer(self, seed: int) -> Normalizer:
        """The normaliser at the start."""
        if self.config.normalizer == "fixed":
            return find_normalizer(self.name, self.env_settings, 500, seed)
        return Normalizer(self.state_dim)

    def describe_skills(self, prior: Prior, *, represented: bool = False) -> SkillDescription:
        """What the skills that are discovered here will need to know."""
        return SkillDescription(
            env=self.name,
            env_settings=self.env_settings,
            state_dim=self.state_dim,
            action_dim=self.action_dim,
            latent_dim=prior.dim,
            prior=prior.name,
            location_dims=self.location_dims,
            omitted=self.omitted,
            hidden=tuple(self.config.hidden),
            layer_norm=self.config.layer_norm,
            linearized=self.linearizer is not None,
            distortion=self.config.distortion,
            represented=self.encoder_dims if represented else (),
        )

    def keep_linearizer(self, directory: Path) -> None:
        """Put the linearizer beside the run's checkpoints, so that the run can be moved and used alone."""
        file = files.inside(directory, LINEARIZER_FILE)
        if self.linearizer is not None and self.config.linearizer != str(file):  # a resumed run has its own already
            with trust.envs(self.name):  # the user named it
                self.linearizer.save(file, provenance_of(self.config.linearizer))


class DiscoveryTrainer(Trainer):
    """A latent for each episode, episodes, learning from them: what differs is `learn`, and what is kept of it."""

    headline: tuple[str, ...] = ("objective", "evaluation/information", "evaluation/spread")
    without_location: tuple[str, ...] = ("evaluation/state_information",)
    """What tells whether it learns where there is no location."""
    title: str
    """The method's name in figures and tables."""
    config: DiscoveryConfig
    normalizer: Normalizer
    training: Any
    """All that learns, as one tree, unless a method keeps it elsewhere."""

    def __init__(self, env: str, env_settings: EnvSettings, config: DiscoveryConfig, seed: int) -> None:
        super().__init__(config, seed)
        self.prior = self.create_prior()
        self.world = World(env, env_settings, config)
        self.normalizer = self.world.normalizer(seed)
        self.pictures: Path | None = None
        if not self.world.location_dims:
            self.headline = (*self.headline, *self.without_location)

    # What a method says.

    @property
    @abstractmethod
    def skill_policy(self) -> sac.Policy:
        """pi(. | s, z) as it is now."""

    @abstractmethod
    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """Learn from an epoch's episodes; returns its metrics."""

    def create_prior(self) -> Prior:
        """What latents are drawn from."""
        return Gaussian(self.config.latent_dim)

    @property
    def phi(self) -> MLP | None:
        """A representation of states that latents are directions in, if the method has one."""
        return None

    def behaviour(self, latents: NDArray[np.float32], key: jax.Array) -> Act:
        """How episodes are collected: by samples of the skill policy."""

        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.sample_actions(self.skill_policy, self.inputs(states, latents), key, step)

        return act

    # What all of them do.

    def run_epoch(self, epoch: int) -> Epoch:
        """Collect one episode for each of a batch of latents, then learn."""
        latents = self.prior.draw(generator(self.seed, "latents", epoch), self.config.episodes_per_epoch)
        trajectories = self.explore(latents, epoch)
        info = self.learn(trajectories, latents, epoch)
        if self.config.normalizer == "ema":
            self.follow_states(trajectories.states, trajectories.lengths)
        metrics = {"episode_length": float(trajectories.lengths.mean()), **info}
        return Epoch(trajectories.num_steps * self.world.macro_length, metrics)

    def explore(self, latents: NDArray[np.float32], epoch: int) -> Trajectories:
        """One episode for each latent."""
        key = jax.random.key(derive(self.seed, "exploration", epoch))
        return collect(self.world.env, self.behaviour(latents, key), seed=derive(self.seed, "episodes", epoch))

    def inputs(self, states: NDArray[np.float32], latents: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a policy sees of raw states and latents."""
        return np.concatenate([omit(self.normalizer(states), self.world.omitted), latents], axis=-1)

    def agent(self) -> Skills:
        """The skills as they are now."""
        return Skills(self.describe_skills(), self.skill_policy, self.normalizer, self.world.linearizer, self.phi)

    def describe_skills(self) -> SkillDescription:
        """What the skills need to know."""
        return self.world.describe_skills(self.prior, represented=self.phi is not None)

    def evaluate(self, epoch: int) -> dict[str, float]:
        """Where do the skills go? Draws them, and returns the numbers for the log."""
        return evaluate_skills(
            self.agent(),
            trajectories=self.config.evaluation_trajectories,
            seed=derive(self.seed, "evaluation", epoch),
            picture=None if self.pictures is None else picture_of(self.pictures, epoch + 1),
            title=f"{self.title} on {self.world.name} after {epoch + 1} epochs",
        )

    def prepare(self, directory: Path) -> None:
        """Put the linearizer into the run, and the pictures."""
        self.pictures = files.folder(directory, "pictures")
        self.world.keep_linearizer(directory)

    def describe(self) -> dict[str, Any]:
        """What kind of skills they are."""
        return {"skills": dataclasses.asdict(self.describe_skills())}

    def learned(self) -> Arrays:
        """All that learns, by name."""
        return checkpoint.flatten(self.training, "training/")

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.training = checkpoint.unflatten(self.training, arrays, "training/")

    def state(self) -> Arrays:
        """With the skill policy and phi under the names that `load_skills` knows."""
        phi = {} if self.phi is None else checkpoint.flatten(self.phi, PHI_PREFIX)
        return {**checkpoint.flatten(self.skill_policy, SKILLS_PREFIX), **phi, **super().state()}


def discovery_method(config: type[DiscoveryConfig], trainer: type[DiscoveryTrainer]) -> Method:
    """What a method of skill discovery says about itself, for the end of its file."""
    return Method(
        trainer.title, config, trainer, skills_of, sources=("linearizer",), use_copies=use_kept_linearizer,
        complete=live_where_linearized,
    )  # fmt: skip


def live_where_linearized(env: str, config: DiscoveryConfig, env_settings: EnvSettings) -> EnvSettings:
    """Skills have the horizon and the location of their linearizer's run, unless the user says otherwise."""
    if config.linearizer.partition(":")[0] in ("none", "bundled"):
        return env_settings
    linearizer = find_linearizer(env, config.linearizer)
    assert linearizer is not None
    return env_settings.completed(linearizer.env_settings)


def discrete_prior(count: int) -> OneHot:
    """So many discrete skills, as `--discrete-latents` asks for them."""
    if count < 2:
        raise IbolError(f"discrete_latents is {count}, but give at least 2 skills, or 0")
    memory.check(4 * count**2, f"{count} discrete latents", "choose a smaller --discrete-latents")
    return OneHot(count)


def find_linearizer(env: str, source: str) -> Linearizer | None:
    """The linearizer that `--linearizer` names for an environment."""
    if source == "none":
        return None
    if source.partition(":")[0] != "bundled":
        with trust.envs(env), naming("--linearizer"):  # the user named it
            found = load_linearizer(source)
    elif env not in bundled():
        train = "'ibol linearize' and its TOML file" if is_marked(env) else f"'ibol linearize {env}'"
        raise IbolError(
            f"no linearizer is bundled for {env} (there are {', '.join(bundled())}): train one with "
            f"{train} and name its run with --linearizer, or choose --linearizer none"
        )
    else:
        found = load_linearizer(env + source.removeprefix("bundled"))
    if found.env != env:
        changed = is_marked(env) and found.env.partition("@")[0] == env.partition("@")[0]
        why = ": the robot's model or TOML file was changed in between, so train a new one" if changed else ""
        raise IbolError(f"the linearizer {source} was trained in {found.env}, but the environment is {env}{why}")
    return found


def evaluate_skills(
    skills: Skills, *, trajectories: int, seed: int, picture: Path | None, title: str
) -> dict[str, float]:
    """Numbers for the log of a training from random latents, and a picture of them beside the shown ones."""
    eight = skills.prior.shown()
    directions = np.repeat(eight, _PICTURE_EPISODES, axis=0)
    latents = np.concatenate([directions, skills.sample_latents(trajectories, derive(seed, "shown"))])
    paths = skills.rollout(latents, seed=derive(seed, "shown")).states
    drawn, random = slice(len(directions)), slice(len(directions), None)
    if skills.location_dims:
        paths, axes = paths[:, :, list(skills.location_dims)], LOCATION_AXES
        ends = paths[random, -1]
        numbers = {
            "information": corrected_information(latents[random], ends, bins=_TRAINING_BINS),
            "coverage": float(state_coverage(paths[random])),
            "spread": location_spread(ends),
            "unit_coverage": float(_unit_coverage(skills, derive(seed, "covering"))),
        }
    else:
        paths, axes = principal_directions(paths[random, -1])(paths), AXES
        ends = paths[random, -1]
        informed = corrected_information(latents[random], ends, bins=_TRAINING_BINS)
        numbers = {"state_information": informed, "state_spread": location_spread(ends)}
    if picture is not None and paths.shape[2] <= 2:
        shown = f"{len(eight)} skills, {_PICTURE_EPISODES} episodes each"
        panels = [
            SkillPicture(shown, latents[drawn], paths[drawn], skills.prior, axes=axes),
            SkillPicture(f"{trajectories} random skills", latents[random], paths[random], skills.prior, axes=axes),
        ]
        plot_skills(panels, picture, title=title)
    return numbers


def _unit_coverage(skills: Skills, seed: int) -> int:
    """METRA's coverage: of random skills by the mode of their policy."""
    found = skills.rollout(skills.sample_latents(COVERING, seed), seed=seed, deterministic=True)
    return unit_coverage(found.states[:, :, list(skills.location_dims)])


def initialized(policy: BetaPolicy, states: int, config: DiscoveryConfig) -> BetaPolicy:
    """A new policy with scaled weights for latents, whose inputs follow the states', and a sharper distribution."""
    weights, *biases = _first_weights_and_biases(policy)
    scaled, shifted = weights.at[states:].multiply(config.latent_weight), [b + config.concentration for b in biases]
    return eqx.tree_at(_first_weights_and_biases, policy, [scaled, *shifted])


def _first_weights_and_biases(policy: BetaPolicy) -> list[jax.Array]:
    """Of the first layer, and of the two heads."""
    return [policy.network.trunk.layers[0].weight, *(head.bias for head in policy.network.heads)]


def use_kept_linearizer(config: DiscoveryConfig, directory: Path) -> DiscoveryConfig:
    """Settings that take the linearizer from the run itself, wherever it came from."""
    kept = directory / LINEARIZER_FILE
    return dataclasses.replace(config, linearizer=str(kept)) if kept.exists() else config
