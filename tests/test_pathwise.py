"""Gradients through actions and states: the linear model against systems that are known."""

import jax
import jax.numpy as jnp
import numpy as np

from ibol.methods.pathwise import fit_dynamics, follow

DECAY = jnp.array([[1.0, 0.0, 0.1], [0.0, 0.9, 0.0], [0.0, 0.2, 0.8]])
RESPONSE = jnp.array([[0.5, 0.0, 0.0], [0.0, -0.3, 0.2]])


def simulate(actions: jax.Array) -> jax.Array:
    """States (B, T, 3) of a linear system with a drift, from actions (B, T, 2)."""
    states = [jnp.zeros((len(actions), 3))]
    for t in range(actions.shape[1] - 1):
        states.append(states[-1] @ DECAY + actions[:, t] @ RESPONSE + 0.1)
    return jnp.stack(states, axis=1)


ACTIONS = jax.random.uniform(jax.random.key(0), (64, 12, 2), minval=-1, maxval=1)
STATES = simulate(ACTIONS)
LENGTHS = jnp.full(64, 12)


def test_a_linear_system_is_found() -> None:
    found = fit_dynamics(STATES, ACTIONS, LENGTHS)
    np.testing.assert_allclose(found.decay, DECAY, atol=0.01)
    np.testing.assert_allclose(found.response, RESPONSE, atol=0.01)


def test_what_comes_after_the_end_of_an_episode_changes_nothing() -> None:
    lengths = jnp.arange(64) % 11 + 2
    garbage = (jnp.arange(12) >= lengths[:, None])[..., None]
    clean = fit_dynamics(STATES, ACTIONS, lengths)
    found = fit_dynamics(jnp.where(garbage, 9.0, STATES), jnp.where(garbage, -9.0, ACTIONS), lengths)
    for a, b in zip(clean, found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_states_follow_changed_actions() -> None:
    dynamics = fit_dynamics(STATES, ACTIONS, LENGTHS)
    changes = 0.1 * jax.random.normal(jax.random.key(1), ACTIONS.shape)
    np.testing.assert_allclose(follow(dynamics, STATES, changes), simulate(ACTIONS + changes), atol=0.02)
    np.testing.assert_array_equal(follow(dynamics, STATES, jnp.zeros_like(changes)), STATES)
