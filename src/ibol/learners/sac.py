"""Soft actor-critic as the authors use it: twin critics, learnt temperature, one pure update function.

`inputs` are whatever the policy sees: normalised states, with a goal or a latent appended where there is one.

The critics predict K features psi of the future, and Q = <psi, w> for weights w that each transition brings along.
Plain SAC is K = 1 with w = 1. A reward that is linear in a goal, <phi, g>, can be learned as its vector phi with w = g
(successor features); the entropy bonus is then carried by a last feature of weight 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ibol.learners import adam
from ibol.nn.distributions import ActionDistribution, beta_noise
from ibol.nn.networks import BetaPolicy, TanhGaussianPolicy, TwinCritic

Policy = TanhGaussianPolicy | BetaPolicy
Info = dict[str, Array]


class FeatureMaps(NamedTuple):
    """Linear maps of features, for critics that predict a next state's features in other coordinates than a state's."""

    which: Array  # (B,), the map of each transition
    matrices: Array  # (C, K, K), of row vectors

    def __call__(self, features: Array) -> Array:
        """Features (B, K) of the next states in the coordinates of the states."""
        count, width, _ = self.matrices.shape
        mapped = features @ self.matrices.swapaxes(0, 1).reshape(width, -1)  # by all of them, (B, C K)
        return jnp.take_along_axis(mapped.reshape(-1, count, width), self.which[:, None, None], axis=1)[:, 0]


class Transitions(NamedTuple):
    """Transitions; `dones` is 1 where no future value may be added; a reward is <rewards, weights>."""

    inputs: Array  # (B, k)
    actions: Array  # (B, m)
    rewards: Array  # (B, K)
    next_inputs: Array  # (B, k)
    dones: Array  # (B,)
    weights: Array  # (B, K)
    next_maps: FeatureMaps | None = None


@dataclass(frozen=True)
class SACSettings:
    """What an update needs to know; a static argument of the jitted functions."""

    learning_rate: float
    discount: float
    tau: float
    target_entropy: float
    learn_temperature: bool
    target_every_step: bool
    """Move the target networks after each gradient step; otherwise once after all of a call."""
    entropy_in_targets: bool = True
    """Add the entropy bonus to the Bellman targets; otherwise only the policy's loss has it."""


class SACState(eqx.Module):
    """Everything that learns."""

    policy: Policy
    critic: TwinCritic
    target: TwinCritic
    log_temperature: Array
    optimizers: tuple[optax.OptState, optax.OptState, optax.OptState]


def create(
    inputs: int,
    actions: int,
    hidden: Sequence[int],
    *,
    features: int = 1,
    temperature: float,
    settings: SACSettings,
    key: Array,
    layer_norm: bool = False,
    policy_type: type[TanhGaussianPolicy] | type[BetaPolicy] = TanhGaussianPolicy,
) -> SACState:
    """Fresh networks and optimisers."""
    policy_key, critic_key = jax.random.split(key)
    policy = policy_type(inputs, actions, hidden, policy_key, layer_norm)
    critic = TwinCritic(inputs + actions, hidden, critic_key, layer_norm, features)
    log_temperature = jnp.log(jnp.float32(temperature))
    policy_opt, critic_opt, temperature_opt = (
        adam.start(settings.learning_rate, learnt) for learnt in (policy, critic, log_temperature)
    )
    return SACState(policy, critic, critic, log_temperature, (policy_opt, critic_opt, temperature_opt))


def critic_loss(critic: TwinCritic, batch: Transitions, targets: Array) -> tuple[Array, Info]:
    """0.5 E[|psi_i(s, a) - y|^2], summed over both critics."""
    first, second = critic(batch.inputs, batch.actions)
    loss = 0.5 * jnp.mean(jnp.sum((first - targets) ** 2 + (second - targets) ** 2, axis=-1))
    return loss, {"critic_loss": loss, "q_mean": jnp.mean(q_value(first, batch))}


def policy_loss(
    policy: Policy, critic: TwinCritic, temperature: Array, batch: Transitions, key: Array
) -> tuple[Array, Info]:
    """E[alpha log pi(a|s) - min_i Q_i(s, a)] with reparameterised a ~ pi."""
    distribution: ActionDistribution = policy(batch.inputs)
    actions, log_prob = distribution.sample_and_log_prob(key)
    first, second = critic(batch.inputs, actions)
    loss = jnp.mean(temperature * log_prob - jnp.minimum(q_value(first, batch), q_value(second, batch)))
    return loss, {"policy_loss": loss, "entropy": -log_prob.mean()}


def bellman_targets(state: SACState, batch: Transitions, settings: SACSettings, key: Array) -> Array:
    """y = r + gamma (1 - done) [psi'_i(s', a') - alpha log pi(a'|s')], a' ~ pi(.|s'), i the critic with the smaller Q.

    The entropy bonus belongs to the last feature, whose weight is 1; so <y, w> is SAC's usual target.
    """
    distribution: ActionDistribution = state.policy(batch.next_inputs)
    actions, log_prob = distribution.sample_and_log_prob(key)
    first, second = state.target(batch.next_inputs, actions)
    if batch.next_maps is not None:
        first, second = batch.next_maps(first), batch.next_maps(second)
    smaller = q_value(first, batch) < q_value(second, batch)
    features = jnp.where(smaller[:, None], first, second)
    if settings.entropy_in_targets:
        last = jnp.arange(first.shape[-1]) == first.shape[-1] - 1
        bonus = -jnp.exp(state.log_temperature) * log_prob[:, None] * last  # indexed addition would be slow on a CPU
        features = features + bonus
    return batch.rewards + settings.discount * (1 - batch.dones)[:, None] * features


def q_value(features: Array, batch: Transitions) -> Array:
    """Q = <psi, w>, (B,)."""
    return jnp.sum(features * batch.weights, axis=-1)


def update(
    state: SACState, batch: Transitions, keys: Array, settings: SACSettings, decay: Array | float = 1.0
) -> tuple[SACState, Info]:
    """One gradient step: critics, then the policy against the new critics, then the temperature.

    `keys` are two, or the noise drawn for two samples: the first for the Bellman targets, the second for the policy.
    `decay` scales the learning rate.
    """
    target_key, policy_key = keys
    descend = partial(adam.descend, settings.learning_rate, decay=decay)
    policy_opt, critic_opt, temperature_opt = state.optimizers

    targets = jax.lax.stop_gradient(bellman_targets(state, batch, settings, target_key))
    grads, critic_info = jax.grad(critic_loss, has_aux=True)(state.critic, batch, targets)
    critic, critic_opt = descend(state.critic, grads, critic_opt)

    temperature = jnp.exp(state.log_temperature)
    grads, policy_info = jax.grad(policy_loss, has_aux=True)(state.policy, critic, temperature, batch, policy_key)
    policy, policy_opt = descend(state.policy, grads, policy_opt)

    log_temperature = state.log_temperature
    if settings.learn_temperature:
        # d/d(log alpha) of E[-log_alpha * (log pi + H_target)]
        gradient = policy_info["entropy"] - settings.target_entropy
        log_temperature, temperature_opt = descend(log_temperature, gradient, temperature_opt)

    target = _polyak(state.target, critic, settings.tau) if settings.target_every_step else state.target
    new_state = SACState(policy, critic, target, log_temperature, (policy_opt, critic_opt, temperature_opt))
    return new_state, {**critic_info, **policy_info, "temperature": jnp.exp(log_temperature)}


@partial(jax.jit, static_argnames="settings")
def update_many(
    state: SACState, batches: Transitions, key: Array, settings: SACSettings, decay: Array | float = 1.0
) -> tuple[SACState, Info]:
    """As many gradient steps as `batches` has along its first axis, in one call; infos are their means.

    Instead of a key it also takes what `draw_noise` gives.
    """

    def step(state: SACState, x: tuple[Transitions, Array]) -> tuple[SACState, Info]:
        return update(state, x[0], x[1], settings, decay)

    state, infos = jax.lax.scan(step, state, (batches, _randomness(state.policy, batches, key)))
    if not settings.target_every_step:
        state = eqx.tree_at(lambda s: s.target, state, _polyak(state.target, state.critic, settings.tau))
    return state, jax.tree.map(jnp.mean, infos)


@jax.jit
def sample_actions(policy: Policy, inputs: Array, key: Array, step: int) -> Array:
    """Random actions for a batch of inputs at step `step` of a roll-out."""
    distribution: ActionDistribution = policy(inputs)
    return distribution.sample(jax.random.fold_in(key, step))


@jax.jit
def mode_actions(policy: Policy, inputs: Array) -> Array:
    """The most likely actions for a batch of inputs."""
    distribution: ActionDistribution = policy(inputs)
    return distribution.mode


def draw_noise(policy: Policy, batches: Transitions, seed: int) -> Array:
    """The randomness of `update_many`: a key, or for a Beta policy its noise, which NumPy draws much faster."""
    if isinstance(policy, TanhGaussianPolicy):
        return jax.random.key(seed)
    steps, *shape = batches.actions.shape
    return jnp.asarray(beta_noise(np.random.default_rng(seed), (steps, 2), tuple(shape)))


def _randomness(policy: Policy, batches: Transitions, key: Array) -> Array:
    """What each step of `batches` gets to draw its two samples from: noise for all at once is faster than keys."""
    steps, *shape = batches.actions.shape
    if jnp.issubdtype(key.dtype, jnp.floating):
        return key
    if isinstance(policy, TanhGaussianPolicy):
        return jax.random.normal(key, (steps, 2, *shape))
    return jax.random.split(key, (steps, 2))


def _polyak(target: TwinCritic, critic: TwinCritic, tau: float) -> TwinCritic:
    return jax.tree.map(lambda t, c: (1 - tau) * t + tau * c, target, critic)
