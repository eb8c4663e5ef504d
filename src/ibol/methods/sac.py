"""Plain SAC on an environment's external reward: the paper's baseline without skills.

An epoch collects whole episodes with the current policy, then takes a fixed number of gradient steps, from a replay
buffer or, without one, on the epoch's own transitions.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.envs import Env
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, compute_normalizer, epoch_weight, load_normalizer
from ibol.learners.replay import Columns, Replay
from ibol.learners.rollout import Trajectories, collect
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.seeding import derive, generator


@dataclass(frozen=True)
class SACConfig:
    """Settings of plain SAC; the preset gives the defaults."""

    epochs: int = 300
    """Epochs of collecting and learning."""
    episodes_per_epoch: int = 16
    """Episodes collected in each epoch, all at once in a batch."""
    gradient_steps: int = 200
    """Gradient steps in each epoch."""
    batch_size: int = 256
    """Transitions in a gradient step; 0 takes all that the replay buffer or the epoch holds."""
    replay_size: int = 1_000_000
    """Transitions kept for learning; 0 learns only from the current epoch's."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers of policy and critics."""
    layer_norm: bool = False
    """Layer normalisation in policy and critics."""
    learning_rate: float = 3e-4
    """Adam's learning rate for policy, critics and temperature."""
    discount: float = 0.99
    """Discount factor gamma."""
    tau: float = 0.005
    """How far the target networks move at each of their updates."""
    target_every_step: bool = True
    """Move the target networks after every gradient step instead of once in an epoch."""
    temperature: float = 0.1
    """Entropy weight alpha at the start."""
    learn_temperature: bool = True
    """Adapt the temperature to the target entropy -dim(A)/2."""
    normalizer: Literal["preset", "ema", "none"] = "preset"
    """How states are normalised: fixed statistics of random actions, a moving average, or not at all."""
    normalizer_trajectories: int = 500
    """Trajectories for the fixed statistics of an environment that ships none."""
    bootstrap_at_time_limit: bool = True
    """Add the value of the state where the time limit cut the episode; the authors' code does not."""
    evaluate_every: int = 10
    """Epochs between evaluations of the policy's mode; 0 never evaluates."""
    evaluation_episodes: int = 16
    """Episodes of an evaluation."""


CONFIG = SACConfig


class SACTrainer:
    """Collects and learns; see `SACConfig`."""

    headline = ("return", "evaluation/return")

    def __init__(self, env: str, env_settings: EnvSettings, config: SACConfig, seed: int) -> None:
        if config.replay_size and not config.batch_size:
            raise IbolError("batch_size is 0 (the whole epoch), which goes with replay_size 0 only")
        self.config, self.seed, self.epochs = config, seed, config.epochs
        self.env = env_settings.make(env, config.episodes_per_epoch)
        self.evaluation_env = env_settings.make(env, config.evaluation_episodes)
        state_dim, action_dim = _dims(self.env)
        self.settings = sac.SACSettings(
            learning_rate=config.learning_rate,
            discount=config.discount,
            tau=config.tau,
            target_entropy=-action_dim / 2,
            learn_temperature=config.learn_temperature,
            target_every_step=config.target_every_step,
        )
        self.learner = sac.create(
            state_dim,
            action_dim,
            config.hidden,
            temperature=config.temperature,
            settings=self.settings,
            key=jax.random.key(derive(seed, "networks")),
            layer_norm=config.layer_norm,
        )
        self.normalizer = _normalizer(env, env_settings, config, state_dim, seed)
        widths = {"inputs": state_dim, "actions": action_dim, "next_inputs": state_dim}
        columns = {name: (width,) for name, width in widths.items()} | {"rewards": (), "dones": ()}
        self.replay = Replay(config.replay_size, columns) if config.replay_size else None
        self.env_steps = 0

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """Collect episodes, then learn."""
        config = self.config
        trajectories = self._explore(epoch)
        transitions = self._transitions(trajectories)
        if config.normalizer == "ema":
            visited = np.arange(trajectories.states.shape[1]) <= trajectories.lengths[:, None]
            states = trajectories.states[visited]
            self.normalizer.update(states, epoch_weight(len(states)))
        batches = self._batches(transitions, epoch)
        key = jax.random.key(derive(self.seed, "updates", epoch))
        self.learner, info = sac.update_many(self.learner, batches, key, self.settings)
        self.env_steps += trajectories.num_steps
        metrics = {
            "env_steps": self.env_steps,
            "return": float(trajectories.returns.mean()),
            "episode_length": float(trajectories.lengths.mean()),
            **{name: float(value) for name, value in info.items()},
            "epoch_env_steps": trajectories.num_steps,
        }
        last = epoch + 1 == self.epochs
        if config.evaluate_every and (last or (epoch + 1) % config.evaluate_every == 0):
            metrics["evaluation/return"] = float(self._evaluate(epoch).returns.mean())
        return metrics

    def _explore(self, epoch: int) -> Trajectories:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.sample_actions(self.learner.policy, self.normalizer(states), key, step)

        return collect(self.env, act, seed=derive(self.seed, "episodes", epoch))

    def _evaluate(self, epoch: int) -> Trajectories:
        def act(states: NDArray[np.float32], step: int) -> jax.Array:
            return sac.mode_actions(self.learner.policy, self.normalizer(states))

        return collect(self.evaluation_env, act, seed=derive(self.seed, "evaluation", epoch))

    def _transitions(self, trajectories: Trajectories) -> Columns:
        """The steps that were taken, one row each, as the networks see them."""
        mask = trajectories.mask
        states = self.normalizer(trajectories.states)
        last = np.arange(mask.shape[1]) == trajectories.lengths[:, None] - 1  # (N, T)
        final = (
            trajectories.terminated if self.config.bootstrap_at_time_limit else np.ones_like(trajectories.terminated)
        )
        return {
            "inputs": states[:, :-1][mask],
            "actions": trajectories.actions[mask],
            "rewards": trajectories.rewards[mask],
            "next_inputs": states[:, 1:][mask],
            "dones": (last & final[:, None])[mask].astype(np.float32),
        }

    def _batches(self, transitions: Columns, epoch: int) -> sac.Batch:
        """The minibatches of all gradient steps of this epoch, (steps, batch, ...)."""
        config, rng = self.config, generator(self.seed, "minibatches", epoch)
        if self.replay is not None:
            self.replay.add(transitions)
            return _as_batch(self.replay.sample(rng, (config.gradient_steps, config.batch_size)))
        count = len(transitions["rewards"])
        if config.batch_size:
            rows = rng.integers(count, size=(config.gradient_steps, config.batch_size))
        else:
            # Episodes that ended early are made up for by repeated transitions: compiled code wants one size.
            full = self.env.num_envs * self.env.horizon
            whole = np.concatenate([np.arange(count), rng.integers(count, size=full - count)])
            rows = np.broadcast_to(whole, (config.gradient_steps, full))
        return _as_batch({name: values[rows] for name, values in transitions.items()})

    def state(self) -> Arrays:
        """Networks, optimisers, normaliser, replay buffer and counters."""
        replay = {} if self.replay is None else self.replay.state()
        return {
            **checkpoint.flatten(self.learner, "learner/"),
            "normalizer/mean": self.normalizer.mean,
            "normalizer/var": self.normalizer.var,
            "env_steps": np.array(self.env_steps),
            **{f"replay/{name}": value for name, value in replay.items()},
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from a saved state."""
        self.learner = checkpoint.unflatten(self.learner, arrays, "learner/")
        self.normalizer.mean, self.normalizer.var = arrays["normalizer/mean"], arrays["normalizer/var"]
        self.env_steps = int(arrays["env_steps"])
        if self.replay is not None:
            saved = {name.removeprefix("replay/"): v for name, v in arrays.items() if name.startswith("replay/")}
            self.replay.restore(saved)

    def checkpoint_bytes(self) -> int:
        """Networks and optimisers, and a full replay buffer."""
        learner = sum(value.nbytes for value in checkpoint.flatten(self.learner).values())
        return learner + (0 if self.replay is None else self.replay.num_bytes())


class SACPolicy:
    """A trained policy with its normaliser."""

    def __init__(self, env: str, env_settings: EnvSettings, network: sac.Policy, normalizer: Normalizer) -> None:
        self.env, self.env_settings = env, env_settings
        self.network, self.normalizer = network, normalizer

    def act(self, states: ArrayLike, *, deterministic: bool = True, seed: int = 0) -> NDArray[np.float32]:
        """Actions in [-1, 1] for raw states (n,) or (N, n): the mode, or a sample that `seed` decides."""
        inputs = self.normalizer(np.asarray(states))
        if deterministic:
            return np.asarray(sac.mode_actions(self.network, inputs))
        return np.asarray(sac.sample_actions(self.network, inputs, jax.random.key(seed), 0))

    def rollout(self, episodes: int = 16, *, seed: int = 0) -> Trajectories:
        """Whole episodes with the most likely actions."""
        env = self.env_settings.make(self.env, episodes)
        return collect(env, lambda states, step: self.act(states), seed=seed)


def create_trainer(env: str, env_settings: EnvSettings, config: SACConfig, seed: int) -> SACTrainer:
    """A trainer at epoch 0."""
    return SACTrainer(env, env_settings, config, seed)


def load_policy(run: RunDirectory) -> SACPolicy:
    """The policy of the run's newest good checkpoint."""
    arrays, _ = run.load_checkpoint(lambda name: name.startswith(("learner/policy/", "normalizer/")))
    config = settings_from_json(SACConfig, run.config["settings"])
    env_settings = settings_from_json(EnvSettings, run.config["env_settings"])
    state_dim = len(arrays["normalizer/mean"])
    action_dim = len(arrays["learner/policy/network/heads/0/bias"])
    template = sac.TanhGaussianPolicy(state_dim, action_dim, config.hidden, jax.random.key(0), config.layer_norm)
    network = checkpoint.unflatten(template, arrays, "learner/policy/")
    normalizer = Normalizer(state_dim)
    normalizer.mean, normalizer.var = arrays["normalizer/mean"], arrays["normalizer/var"]
    return SACPolicy(run.config["env"], env_settings, network, normalizer)


def _as_batch(columns: Columns) -> sac.Batch:
    return sac.Batch(**{name: jax.numpy.asarray(values) for name, values in columns.items()})


def _dims(env: Env) -> tuple[int, int]:
    return int(np.prod(env.single_observation_space.shape or ())), int(np.prod(env.single_action_space.shape or ()))


def _normalizer(env: str, env_settings: EnvSettings, config: SACConfig, state_dim: int, seed: int) -> Normalizer:
    if config.normalizer != "preset":
        return Normalizer(state_dim)
    shipped = load_normalizer(env)
    if shipped is not None:
        return shipped
    return compute_normalizer(
        env,
        trajectories=config.normalizer_trajectories,
        seed=seed,
        horizon=env_settings.horizon,
        location_dims=env_settings.location_dims,
    )
