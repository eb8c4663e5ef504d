"""Plain SAC on an environment's external reward: the paper's baseline without skills.

An epoch collects whole episodes with the current policy, then takes a fixed number of gradient steps, from a replay
buffer or, without one, on the epoch's own transitions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.envs import Env, sizes
from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, epoch_weight, find_normalizer, omit
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACLearner, SACLearnerConfig, plain_batch, transition_widths, transitions
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import derive


@dataclass(frozen=True)
class SACConfig(SACLearnerConfig):
    """Settings of plain SAC; the preset gives the defaults."""

    normalizer: Literal["preset", "ema", "none"] = "preset"
    """How states are normalised: fixed statistics of random actions, a moving average, or not at all."""
    omit_location: bool = False
    """Hide the location from policy and critics: a reward for speed does not need it, and it grows without bounds."""
    normalizer_trajectories: int = 500
    """Trajectories for the fixed statistics of an environment that ships none."""
    evaluate_every: int = 10
    """Epochs between evaluations of the policy's mode; 0 never evaluates."""
    evaluation_episodes: int = 16
    """Episodes of an evaluation."""


CONFIG = SACConfig


class SACTrainer:
    """Collects and learns; see `SACConfig`."""

    headline = ("return", "evaluation/return")

    def __init__(self, env: str, env_settings: EnvSettings, config: SACConfig, seed: int) -> None:
        self.config, self.seed, self.epochs = config, seed, config.epochs
        self.env = env_settings.make(env, config.episodes_per_epoch)
        self.evaluation_env = env_settings.make(env, config.evaluation_episodes)
        state_dim, action_dim = sizes(self.env)
        self.learner = SACLearner(
            config,
            inputs=state_dim,
            actions=action_dim,
            features=1,
            columns=transition_widths(state_dim, action_dim),
            transitions_per_epoch=config.episodes_per_epoch * self.env.horizon,
            seed=seed,
        )
        self.normalizer = Normalizer(state_dim)
        if config.normalizer == "preset":
            self.normalizer = find_normalizer(env, env_settings, config.normalizer_trajectories, seed)
        self.omitted = self.env.location_dims if config.omit_location else ()
        self.env_steps = 0

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """Collect episodes, then learn."""
        config = self.config
        trajectories = self._explore(epoch)
        inputs = self._inputs(trajectories.states)
        taken = transitions(trajectories, inputs, time_limits=not config.bootstrap_at_time_limit)
        info = self.learner.learn(taken, epoch, plain_batch)
        if config.normalizer == "ema":
            visited = np.arange(trajectories.states.shape[1]) <= trajectories.lengths[:, None]
            states = trajectories.states[visited]
            self.normalizer.update(states, epoch_weight(len(states)))
        self.env_steps += trajectories.num_steps
        metrics = {
            "env_steps": self.env_steps,
            "return": float(trajectories.returns.mean()),
            "episode_length": float(trajectories.lengths.mean()),
            **info,
            "epoch_env_steps": trajectories.num_steps,
        }
        last = epoch + 1 == self.epochs
        if config.evaluate_every and (last or (epoch + 1) % config.evaluate_every == 0):
            metrics["evaluation/return"] = float(self._evaluate(epoch).returns.mean())
        return metrics

    def _explore(self, epoch: int) -> Trajectories:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.sample_actions(self.learner.policy, self._inputs(states), key, step)

        return collect(self.env, act, seed=derive(self.seed, "episodes", epoch))

    def _evaluate(self, epoch: int) -> Trajectories:
        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.mode_actions(self.learner.policy, self._inputs(states))

        return collect(self.evaluation_env, act, seed=derive(self.seed, "evaluation", epoch))

    def _inputs(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return omit(self.normalizer(states), self.omitted)

    def keep(self, directory: Path) -> None:
        """Nothing: the policy needs no more than its checkpoint."""

    def describe(self) -> dict[str, Any]:
        """The sizes of the policy."""
        state_dim, action_dim = sizes(self.env)
        return {"state_dim": state_dim, "action_dim": action_dim, "omitted": self.omitted}

    def state(self) -> Arrays:
        """Networks, optimisers, replay buffer, normaliser and counters."""
        return {
            **self.learner.state(),
            **self.normalizer.state(),
            "env_steps": np.array(self.env_steps),
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from a saved state."""
        self.learner.restore(arrays)
        self.normalizer = Normalizer.from_state(arrays)
        self.env_steps = int(arrays["env_steps"])

    def checkpoint_bytes(self) -> int:
        """Networks and a full replay buffer."""
        return self.learner.num_bytes()


class SACPolicy:
    """A trained policy with its normaliser."""

    kind = "policy"

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
        inputs = omit(self.normalizer(np.asarray(states)), self.omitted)
        if deterministic:
            return np.asarray(sac.mode_actions(self.network, inputs))
        return np.asarray(sac.sample_actions(self.network, inputs, jax.random.key(seed), 0))

    def rollout(self, episodes: int = 16, *, seed: int = 0) -> Trajectories:
        """Whole episodes with the most likely actions."""
        return collect(self.make_env(episodes), lambda states, step: self.act(states), seed=seed)

    def make_env(self, num_envs: int) -> Env:
        """A batch of the environment that it was trained in."""
        return self.env_settings.make(self.env, num_envs)


def create_trainer(env: str, env_settings: EnvSettings, config: SACConfig, seed: int) -> SACTrainer:
    """A trainer at epoch 0."""
    return SACTrainer(env, env_settings, config, seed)


def load_policy(run: RunDirectory) -> SACPolicy:
    """The policy of the run's newest good checkpoint."""
    arrays, _ = run.load_checkpoint(lambda name: name.startswith(("learner/policy/", "normalizer/")))
    config = settings_from_json(SACConfig, run.config["settings"])
    env_settings = settings_from_json(EnvSettings, run.config["env_settings"])
    state_dim, action_dim = run.config["state_dim"], run.config["action_dim"]
    template = sac.TanhGaussianPolicy(state_dim, action_dim, config.hidden, jax.random.key(0), config.layer_norm)
    network = checkpoint.unflatten(template, arrays, "learner/policy/")
    normalizer, omitted = Normalizer.from_state(arrays), tuple(run.config["omitted"])
    return SACPolicy(run.config["env"], env_settings, network, normalizer, omitted)
