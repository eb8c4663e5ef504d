"""The policy gradient on whole trajectories, with one return for each, as IBOL and VALOR use it.

Episodes are padded to a common length T; `lengths` says how many steps of each are valid, and the rest changes nothing.
"""

import jax
import jax.numpy as jnp
from jax import Array

from ibol.nn.networks import BetaPolicy


def policy_log_prob(policy: BetaPolicy, states: Array, latents: Array, actions: Array) -> Array:
    """log pi(a | s, z) for (..., T) steps, each trajectory with its one latent (..., d)."""
    held = jnp.broadcast_to(latents[..., None, :], (*latents.shape[:-1], actions.shape[-2], latents.shape[-1]))
    seen = jnp.broadcast_to(states, (*held.shape[:-1], states.shape[-1]))
    return policy(jnp.concatenate([seen, held], axis=-1)).log_prob(actions)


def time_sum(values: Array, lengths: Array) -> Array:
    """Sums over each trajectory's valid steps, (B, T) to (B,)."""
    valid = jnp.arange(values.shape[1]) < lengths[:, None]
    return jnp.sum(jnp.where(valid, values, 0.0), axis=1)


def time_mean(values: Array, lengths: Array) -> Array:
    """Means over each trajectory's valid steps, (B, T) to (B,)."""
    return time_sum(values, lengths) / lengths


def surrogate(
    log_prob: Array, old_log_prob: Array, returns: Array, lengths: Array, *, normalize: bool, clip: float
) -> Array:
    """What rises along the policy gradient: E[R sum_t log pi], for log probabilities (B, T) and returns (B,).

    With `normalize` returns are standardised over the batch; with `clip` above 0 the policy's ratio to the old one is
    clipped (PPO).
    """
    advantage = jax.lax.stop_gradient(returns)
    if normalize:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = log_prob * advantage[:, None]
    if clip:
        ratio = jnp.exp(log_prob - old_log_prob)
        clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
        gain = jnp.minimum(ratio * advantage[:, None], clipped * advantage[:, None])
    return jnp.mean(time_sum(gain, lengths))
