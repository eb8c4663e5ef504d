"""The gradient through actions and the states that follow them, instead of the policy gradient.

Actions that were taken move along with the policy (`ScaledBeta.transport`), and the states after them by a linear model
of the environment that is fitted to the trajectories themselves. The policy that collected the trajectories moves
nothing: at the first gradient step the model gives the gradient alone, and not the value.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_RIDGE = 1e-4  # of the mean square of the regressors


class LinearDynamics(NamedTuple):
    """s_t+1 = s_t decay + a_t response + a constant that moves nothing."""

    decay: Array  # (k, k)
    response: Array  # (m, k)


def fit_dynamics(states: Array, actions: Array, lengths: Array) -> LinearDynamics:
    """By least squares, from trajectories of states (..., T, k) and actions (..., T, m) with valid lengths (...,)."""
    now, after = states[..., :-1, :], states[..., 1:, :]
    valid = (jnp.arange(1, states.shape[-2]) < lengths[..., None])[..., None]
    regressors = jnp.concatenate([now, actions[..., :-1, :], jnp.ones_like(now[..., :1])], axis=-1)
    regressors = jnp.where(valid, regressors, 0.0).reshape(-1, regressors.shape[-1])
    moments = regressors.T @ regressors
    moments += _RIDGE * jnp.trace(moments) / len(moments) * jnp.eye(len(moments))
    found = jnp.linalg.solve(moments, regressors.T @ (after - now).reshape(-1, now.shape[-1]))
    count = now.shape[-1]
    return LinearDynamics(jnp.eye(count) + found[:count], found[count:-1])


def follow(dynamics: LinearDynamics, states: Array, changes: Array) -> Array:
    """Where states (B, T, k) go when the actions that led to them are changed by (B, T, m)."""

    def step(moved: Array, push: Array) -> tuple[Array, Array]:
        return moved @ dynamics.decay + push, moved

    pushes = (changes @ dynamics.response).swapaxes(0, 1)
    return states + jax.lax.scan(step, jnp.zeros_like(states[:, 0]), pushes)[1].swapaxes(0, 1)
