"""Skill discovery by SAC on an intrinsic reward, as DIAYN, DADS and METRA do it.

A model of the latents is trained on the transitions, and rewards them: by how well it infers z from s' (DIAYN), or
predicts s' from z (DADS), or by how far s' lies from s along z (METRA and its kin). Each epoch collects episodes with
one latent each, updates the model, and takes SAC's gradient steps.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ibol import memory
from ibol.bounds import Count
from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.replay import Columns
from ibol.learners.rollout import Trajectories
from ibol.learners.sac_learner import SACFields, SACLearner
from ibol.methods.discovery import DiscoveryConfig, DiscoveryTrainer, initialized
from ibol.nn.networks import BetaPolicy
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator


@dataclass(frozen=True)
class SACDiscoveryConfig(DiscoveryConfig, SACFields):
    """Settings that the methods with SAC share."""

    model_steps: Count = 64
    """Gradient steps of the model in each epoch."""


Info = dict[str, Array]


class Observed(NamedTuple):
    """What the model sees of transitions, normalised."""

    states: Array
    """(..., k), the state dimensions of `--encoder-sees` before the step."""
    next_states: Array
    """(..., k), the same after the step; on a linearizer after the macro step."""
    latents: Array
    """(..., d), the latents of their episodes."""


class SACDiscoveryTrainer(DiscoveryTrainer):
    """Collects episodes of the skill policy, updates the model, and learns; a method gives the model."""

    config: SACDiscoveryConfig
    headline = ("intrinsic_reward", "evaluation/information", "evaluation/spread")

    def __init__(self, env: str, env_settings: EnvSettings, config: SACDiscoveryConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        world, latents = self.world, self.prior.dim
        columns: dict[str, tuple[int, ...]] = {
            "states": (world.state_dim,),
            "next_states": (world.state_dim,),
            "latents": (latents,),
            "actions": (world.action_dim,),
            "dones": (),
        }
        self.learner = SACLearner(
            config,
            hidden=config.hidden,
            layer_norm=config.layer_norm,
            learning_rate=config.learning_rate,
            inputs=world.state_dim + latents,
            actions=world.action_dim,
            features=self.num_features,
            columns=columns,
            transitions_per_epoch=config.episodes_per_epoch * world.horizon,
            seed=seed,
            policy_type=BetaPolicy,
            epoch_minibatches=True,  # as the authors' code does
            entropy_in_targets=self.entropy_in_targets,
        )
        sampled = config.model_steps * (config.batch_size or config.episodes_per_epoch * world.horizon)
        row = 4 * sum(math.prod(shape) for shape in columns.values())
        memory.check(2 * sampled * row, f"{sampled} samples", "choose a smaller --batch-size or --model-steps")
        policy = self.learner.policy
        assert isinstance(policy, BetaPolicy)
        policy = initialized(policy, world.state_dim, config)
        self.learner.networks = eqx.tree_at(lambda networks: networks.policy, self.learner.networks, policy)
        self.model: Any = self.create_model(jax.random.key(derive(seed, "model")))

    @abstractmethod
    def create_model(self, key: Array) -> Any:
        """The model with its optimiser, at the start."""

    @abstractmethod
    def update_model(self, model: Any, observed: Observed, decay: float) -> tuple[Any, Info]:
        """A gradient step on each of the minibatches (steps, batch, ...); returns their mean metrics, too."""

    @abstractmethod
    def reward(self, model: Any, observed: Observed, key: Array) -> Array:
        """The intrinsic reward of transitions of any leading shape."""

    entropy_in_targets: bool = True
    """Whether the critics' targets have SAC's entropy bonus, for which the last feature's weight must be 1."""

    @property
    def num_features(self) -> int:
        """K, how many features of the future the critics predict."""
        return 1

    def features(self, model: Any, observed: Observed, key: Array) -> Array:
        """What the critics predict sums of, (..., K); the reward is their product with `weights`."""
        return self.reward(model, observed, key)[..., None]

    def weights(self, latents: Array) -> Array:
        """The features' weights (..., K) in the reward."""
        return jnp.ones((*latents.shape[:-1], 1))

    @property
    def skill_policy(self) -> sac.Policy:
        """The skill policy as it is now."""
        return self.learner.policy

    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """Update the model, then take SAC's gradient steps on the reward that it gives."""
        transitions = self._transitions(trajectories, latents)
        self.learner.store(transitions)
        rng, key = generator(self.seed, "minibatches", epoch), jax.random.key(derive(self.seed, "rewards", epoch))
        minibatches = self._observed(self.learner.sample(rng, self.config.model_steps))
        decay = self.decay(epoch)
        self.model, model_info = self.update_model(self.model, minibatches, decay)
        observed = self._observed(transitions)
        features = self.features(self.model, observed, key)
        if self.learner.replay is None:  # each transition is rewarded once, however often it is sampled
            self.learner.store({**transitions, "features": np.asarray(features)})
        sampled = self.learner.sample(rng, self.config.gradient_steps)
        info = self.learner.update(self._compose(sampled, key), epoch, decay)
        metrics = {name: float(value) for name, value in model_info.items()}
        rewards = jnp.sum(features * self.weights(observed.latents), axis=-1)
        return {**metrics, "intrinsic_reward": float(rewards.mean()), **info}

    def _transitions(self, trajectories: Trajectories, latents: NDArray[np.float32]) -> Columns:
        """The steps that were taken, one row each, with raw states."""
        mask = trajectories.mask
        ends = trajectories.ends(time_limits=not self.config.bootstrap_at_time_limit)
        return {
            "states": trajectories.states[:, :-1][mask],
            "next_states": trajectories.states[:, 1:][mask],
            "latents": np.repeat(latents[:, None], mask.shape[1], axis=1)[mask],
            "actions": trajectories.actions[mask],
            "dones": ends[mask].astype(np.float32),
        }

    def _observed(self, columns: Columns) -> Observed:
        dims = list(self.world.encoder_dims)
        states, after = (self.normalizer(columns[name])[..., dims] for name in ("states", "next_states"))
        return Observed(jnp.asarray(states), jnp.asarray(after), jnp.asarray(columns["latents"]))

    def _compose(self, columns: Columns, key: Array) -> sac.Transitions:
        known = "features" in columns
        features = columns["features"] if known else self.features(self.model, self._observed(columns), key)
        return sac.Transitions(
            inputs=jnp.asarray(self.inputs(columns["states"], columns["latents"])),
            actions=jnp.asarray(columns["actions"]),
            rewards=jnp.asarray(features),
            next_inputs=jnp.asarray(self.inputs(columns["next_states"], columns["latents"])),
            dones=jnp.asarray(columns["dones"]),
            weights=self.weights(jnp.asarray(columns["latents"])),
        )

    def learned(self) -> Arrays:
        """SAC's networks, replay buffer and the model by name."""
        return {**self.learner.state(), **checkpoint.flatten(self.model, "model/")}

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.learner.restore(arrays)
        self.model = checkpoint.unflatten(self.model, arrays, "model/")

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.learner.growth()
