"""The policy gradient on whole trajectories: advantages, baselines and clipped surrogates."""

import jax
import jax.numpy as jnp
import numpy as np

from ibol.methods.policy_gradient import (
    PolicyGradientConfig,
    advantages,
    create_latent_policy,
    quadratic_fit,
    surrogate,
)
from ibol.nn.distributions import ScaledBeta

LATENTS = jax.random.normal(jax.random.key(0), (200, 2))
NOISE = jax.random.normal(jax.random.key(1), (200,))


def test_the_fit_explains_whatever_is_quadratic_in_the_latent() -> None:
    returns = 3 - LATENTS[:, 0] + 0.5 * LATENTS[:, 1] ** 2
    np.testing.assert_allclose(quadratic_fit(returns, LATENTS), returns, atol=1e-3)
    assert quadratic_fit(NOISE, LATENTS).std() < 0.3


def test_advantages_are_what_the_latent_does_not_explain() -> None:
    expected = -2 * (LATENTS**2).sum(axis=1)
    plain, unit = advantages(expected + NOISE, LATENTS, PolicyGradientConfig())
    np.testing.assert_allclose(plain, expected + NOISE)
    assert unit == 1
    config = PolicyGradientConfig(baseline=True, normalize_advantage=True)
    advantage, unit = advantages(expected + NOISE, LATENTS, config)
    assert np.corrcoef(advantage, NOISE)[0, 1] > 0.97
    np.testing.assert_allclose([advantage.mean(), advantage.std()], [0, 1], atol=1e-4)
    np.testing.assert_allclose(unit, NOISE.std(), rtol=0.1)


def test_clipping_holds_each_dimension_back_by_itself() -> None:
    """One trajectory of one step; the first dimension has left the range upwards, the second has not moved."""
    old = ScaledBeta(jnp.zeros((1, 1, 2)), jnp.zeros((1, 1, 2)))
    actions, lengths = jnp.full((1, 1, 2), 0.5), jnp.array([1])

    def gain(raw: jax.Array, advantage: float) -> jax.Array:
        policy = ScaledBeta(raw, jnp.zeros((1, 1, 2)))
        return surrogate(policy, old, actions, jnp.array([advantage]), lengths, clip=0.2)

    moved = jnp.array([[[2.0, 0.0]]])
    assert jnp.exp(ScaledBeta(moved, jnp.zeros((1, 1, 2))).log_probs(actions) - old.log_probs(actions))[0, 0, 0] > 1.2
    praised, blamed = (jax.grad(gain)(moved, advantage)[0, 0] for advantage in (1.0, -1.0))
    assert praised[0] == 0  # already likelier by more than a fifth
    assert praised[1] > 0
    assert blamed[0] < 0  # back is always allowed
    np.testing.assert_allclose(gain(moved, 1.0), 1.2 + 1.0, rtol=1e-4)


def test_a_heavier_latent_is_heard_among_many_states() -> None:
    states, latents = jax.random.normal(jax.random.key(2), (200, 29)), LATENTS

    def heard(weight: float) -> float:
        """How much of the goals' variance is the latent's."""
        config = PolicyGradientConfig(hidden=(32, 32), latent_weight=weight)
        policy = create_latent_policy(29, 5, config, jax.random.key(3))
        modes = policy(jnp.concatenate([jnp.repeat(states, 20, axis=0), jnp.tile(latents[:20], (200, 1))], axis=1)).mode
        modes = modes.reshape(200, 20, 5)
        return float(modes.mean(axis=0).var(axis=0).mean() / modes.var(axis=(0, 1)).mean())

    assert heard(1.0) < 0.2
    assert heard(4.0) > 2 * heard(1.0)


def test_a_concentrated_policy_starts_with_little_noise() -> None:
    inputs = jax.random.normal(jax.random.key(2), (2000, 7))

    def deviation(concentration: float) -> float:
        config = PolicyGradientConfig(hidden=(32, 32), concentration=concentration)
        policy = create_latent_policy(5, 3, config, jax.random.key(3))(inputs)
        return float((policy.sample(jax.random.key(4)) - policy.mode).std())

    assert 0.4 < deviation(0.0) < 0.6
    assert 0.2 < deviation(8.0) < 0.27
