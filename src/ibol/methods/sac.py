"""Plain SAC on an environment's external reward: the paper's baseline without skills.

An epoch collects whole episodes with the current policy, then takes a fixed number of gradient steps, from a replay
buffer or, without one, on the epoch's own transitions.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.bounds import Count, Natural, array, whole_number, yes_or_no
from ibol.envs import Env, sizes
from ibol.envs.settings import EnvSettings, check_dims
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, find_normalizer, omit
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACFields, SACLearner, plain_batch, transition_widths, transitions
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import derive
from ibol.training.method import Method
from ibol.training.trainer import Epoch, Trainer, TrainingConfig


@dataclass(frozen=True)
class SACConfig(TrainingConfig, SACFields):
    """Settings of plain SAC; the preset gives the defaults."""

    normalizer: Literal["fixed", "ema", "none"] = "fixed"
    """How states are normalised: fixed statistics of random actions, a moving average, or not at all."""
    omit_location: bool = False
    """Hide the location from policy and critics: a reward for speed does not need it, and it grows without bounds."""
    normalizer_trajectories: Count = 500
    """Trajectories for the fixed statistics of an environment that comes without them."""
    evaluate_every: Natural = 10
    """Epochs between evaluations of the policy's mode; 0 never evaluates."""
    evaluation_episodes: Count = 16
    """Episodes of an evaluation."""


class SACTrainer(Trainer):
    """Collects and learns; see `SACConfig`."""

    headline = ("return", "evaluation/return")
    config: SACConfig
    normalizer: Normalizer

    def __init__(self, env: str, env_settings: EnvSettings, config: SACConfig, seed: int) -> None:
        super().__init__(config, seed)
        self.name, self.env_settings = env, env_settings
        self.env = env_settings.make(env, config.episodes_per_epoch)
        self.evaluation_env = env_settings.make(env, config.evaluation_episodes)
        state_dim, action_dim = sizes(self.env)
        self.learner = SACLearner(
            config,
            hidden=config.hidden,
            layer_norm=config.layer_norm,
            learning_rate=config.learning_rate,
            inputs=state_dim,
            actions=action_dim,
            features=1,
            columns=transition_widths(state_dim, action_dim),
            transitions_per_epoch=config.episodes_per_epoch * self.env.horizon,
            seed=seed,
        )
        self.normalizer = Normalizer(state_dim)
        if config.normalizer == "fixed":
            self.normalizer = find_normalizer(env, env_settings, config.normalizer_trajectories, seed)
        self.omitted = self.env.location_dims if config.omit_location else ()

    def run_epoch(self, epoch: int) -> Epoch:
        """Collect episodes, then learn."""
        trajectories = self._explore(epoch)
        inputs = self._inputs(trajectories.states)
        taken = transitions(trajectories, inputs, time_limits=not self.config.bootstrap_at_time_limit)
        info = self.learner.learn(taken, epoch, self.decay(epoch), plain_batch)
        if self.config.normalizer == "ema":
            self.follow_states(trajectories.states, trajectories.lengths)
        metrics = {
            "return": float(trajectories.returns.mean()),
            "episode_length": float(trajectories.lengths.mean()),
            **info,
        }
        return Epoch(trajectories.num_steps, metrics)

    def _explore(self, epoch: int) -> Trajectories:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.sample_actions(self.learner.policy, self._inputs(states), key, step)

        return collect(self.env, act, seed=derive(self.seed, "episodes", epoch))

    def evaluate(self, epoch: int) -> dict[str, float]:
        """The return of the policy's mode."""

        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.mode_actions(self.learner.policy, self._inputs(states))

        episodes = collect(self.evaluation_env, act, seed=derive(self.seed, "evaluation", epoch))
        return {"return": float(episodes.returns.mean())}

    def _inputs(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return omit(self.normalizer(states), self.omitted)

    def agent(self) -> "SACPolicy":
        """The policy as it is now."""
        return SACPolicy(self.name, self.env_settings, self.learner.policy, self.normalizer, self.omitted)

    def describe(self) -> dict[str, Any]:
        """The sizes of the policy."""
        state_dim, action_dim = sizes(self.env)
        return {"state_dim": state_dim, "action_dim": action_dim, "omitted": self.omitted}

    def learned(self) -> Arrays:
        """Networks, optimisers and replay buffer."""
        return self.learner.state()

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.learner.restore(arrays)

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.learner.growth()


class SACPolicy:
    """A trained policy with its normaliser."""

    kind: Final = "policy"

    def __init__(
        self,
        env: str,
        env_settings: EnvSettings,
        network: sac.Policy,
        normalizer: Normalizer,
        omitted: tuple[int, ...],
    ) -> None:
        self.env, self.env_settings = env, env_settings
        self.network, self.normalizer, self.omitted = network, normalizer, omitted

    def act(self, states: ArrayLike, *, deterministic: bool = True, seed: int = 0) -> NDArray[np.float32]:
        """Actions in [-1, 1] for raw states (n,) or (N, n): the mode, or a sample that `seed` decides."""
        inputs = omit(self.normalizer(array("states", states, ..., len(self.normalizer.mean))), self.omitted)
        if yes_or_no("deterministic", deterministic):
            return np.asarray(sac.mode_actions(self.network, inputs))
        return np.asarray(sac.sample_actions(self.network, inputs, jax.random.key(whole_number("seed", seed, 0)), 0))

    def rollout(self, episodes: int = 16, *, seed: int = 0) -> Trajectories:
        """Whole episodes with the most likely actions; `seed` decides the initial states."""
        act = lambda states, step: self.act(states)  # noqa: E731
        return collect(self.make_env(episodes), act, seed=derive(seed, "episodes"))

    def make_env(self, num_envs: int) -> Env:
        """A batch of the environment that it was trained in."""
        return self.env_settings.make(self.env, num_envs)


@dataclass(frozen=True)
class _Sizes:
    """What config.json says of the policy."""

    state_dim: Count
    action_dim: Count
    omitted: tuple[Natural, ...]


_SIZES = tuple(field.name for field in dataclasses.fields(_Sizes))


def load_policy(run: RunDirectory) -> SACPolicy:
    """The policy of the run's newest good checkpoint."""
    config, env_settings = run.settings(SACConfig), run.settings(EnvSettings, "env_settings")
    file = str(run.path / "config.json")
    about = settings_from_json(_Sizes, {name: run.config[name] for name in _SIZES if name in run.config}, file)
    check_dims(file, about.state_dim, omitted=about.omitted)

    def assemble(arrays: Arrays) -> SACPolicy:
        inputs, actions = about.state_dim, about.action_dim
        template = sac.TanhGaussianPolicy(inputs, actions, config.hidden, jax.random.key(0), config.layer_norm)
        network = checkpoint.unflatten(template, arrays, "learner/policy/")
        normalizer = Normalizer.from_state(arrays, about.state_dim)
        return SACPolicy(run.config["env"], env_settings, network, normalizer, about.omitted)

    return run.use_checkpoint(assemble, lambda name: name.startswith(("learner/policy/", "normalizer/")))[0]


METHOD = Method("SAC", SACConfig, SACTrainer, load_policy)
