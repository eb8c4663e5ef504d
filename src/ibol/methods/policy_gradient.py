"""The policy gradient on whole trajectories, with one return for each, as IBOL and VALOR use it.

Episodes are padded to a common length T; `lengths` says how many steps of each are valid, and the rest changes nothing.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from ibol.bounds import Count, NonNegative
from ibol.methods.discovery import DiscoveryConfig, initialized
from ibol.nn.distributions import ScaledBeta
from ibol.nn.networks import BetaPolicy


@dataclass(frozen=True)
class PolicyGradientConfig(DiscoveryConfig):
    """Settings of methods with the policy gradient; at their defaults it is plain REINFORCE."""

    gradient_steps: Count = 4
    """Gradient steps in each epoch, all on the whole epoch."""
    baseline: bool = False
    """Subtract a baseline from each trajectory's return: what its latent alone predicts, by a quadratic fit to the
    epoch."""
    normalize_advantage: bool = False
    """Subtract the mean of the epoch's returns and divide by their standard deviation."""
    clip: NonNegative = 0.0
    """Clip the policy's probability ratios, separately for each action dimension, to 1 +- this (PPO); 0 clips
    nothing."""


def create_latent_policy(states: int, actions: int, config: PolicyGradientConfig, key: Array) -> BetaPolicy:
    """pi(. | s, z) before its training."""
    made = BetaPolicy(states + config.latent_dim, actions, config.hidden, key, config.layer_norm)
    return initialized(made, states, config)


def latent_policy(policy: BetaPolicy, states: Array, latents: Array) -> ScaledBeta:
    """pi(. | s, z) for states (..., T, n), each trajectory with its one latent (..., d)."""
    held = jnp.broadcast_to(latents[..., None, :], (*latents.shape[:-1], states.shape[-2], latents.shape[-1]))
    seen = jnp.broadcast_to(states, (*held.shape[:-1], states.shape[-1]))
    return policy(jnp.concatenate([seen, held], axis=-1))


def time_sum(values: Array, lengths: Array) -> Array:
    """Sums over each trajectory's valid steps, (B, T) to (B,)."""
    valid = jnp.arange(values.shape[1]) < lengths[:, None]
    return jnp.sum(jnp.where(valid, values, 0.0), axis=1)


def time_mean(values: Array, lengths: Array) -> Array:
    """Means over each trajectory's valid steps, (B, T) to (B,)."""
    return time_sum(values, lengths) / lengths


def advantages(returns: Array, latents: Array, config: PolicyGradientConfig) -> tuple[Array, Array]:
    """Returns (B,) less what was to be expected, in units of their standard deviation; and that unit."""
    gain = jax.lax.stop_gradient(returns)
    if config.baseline:
        gain = gain - quadratic_fit(gain, latents)
    if not config.normalize_advantage:
        return gain, jnp.ones(())
    scale = gain.std() + 1e-8
    return (gain - gain.mean()) / scale, scale


def quadratic_fit(returns: Array, latents: Array) -> Array:
    """What latents (B, d) and their squares say of returns (B,), by least squares: (B,)."""
    features = jnp.concatenate([jnp.ones((len(latents), 1)), latents, latents**2], axis=1)
    moments = features.T @ features + 1e-3 * jnp.eye(features.shape[1])
    return features @ jnp.linalg.solve(moments, features.T @ returns)


def surrogate(
    policy: ScaledBeta, old: ScaledBeta, actions: Array, advantage: Array, lengths: Array, clip: float
) -> Array:
    """What rises along the policy gradient: E[sum_t A log pi], for (B, T) steps and advantages (B,) or (B, T).

    With `clip` above 0 the policy's ratio to the old one is clipped (PPO), for each dimension of the action by itself:
    the ratio of a whole goal of many dimensions would leave any narrow range at once.
    """
    log_prob = policy.log_probs(actions)  # (B, T, m)
    advantage = advantage.reshape(*advantage.shape, *(1,) * (3 - advantage.ndim))
    gain = log_prob * advantage
    if clip:
        ratio = jnp.exp(log_prob - old.log_probs(actions))
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
    return jnp.mean(time_sum(gain.sum(axis=-1), lengths))
