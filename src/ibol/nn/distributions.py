"""The two policy distributions on [-1, 1]^m, squashed Gaussian and Beta, and the Gaussian density of latents.

Both offer `mode`, `sample(key)`, `sample_and_log_prob(key)` (reparameterised: gradients reach the parameters) and
`log_prob(action)`. Arrays are (..., m); log-probabilities are summed over the last axis.
"""

import math
from typing import Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpy.typing import NDArray

_LOG_STD_MIN, _LOG_STD_MAX = -13.815510557964274, 2.0  # log 1e-6 and the authors' upper clamp
_JACOBIAN_EPSILON = 1e-6
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_BETA_MINIMUM = 1.05  # keeps the density unimodal and finite at the ends
_EDGE = 1e-6


def gaussian_log_prob(mean: Array, std: Array, values: Array) -> Array:
    """The log density of values (..., d) under a diagonal Gaussian."""
    return jnp.sum(-0.5 * ((values - mean) / std) ** 2 - jnp.log(std) - _LOG_SQRT_2PI, axis=-1)


class ActionDistribution(Protocol):
    """What the learners ask of a policy's output."""

    @property
    def mode(self) -> Array:
        """The most likely action."""
        ...

    def sample(self, key: Array) -> Array:
        """A random action."""
        ...

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A reparameterised random action and its log-probability."""
        ...

    def log_prob(self, action: Array) -> Array:
        """Log-density of an action."""
        ...


class TanhNormal(eqx.Module):
    """a = tanh(x), x ~ N(mean, std^2); `mode` is tanh(mean), as the authors use it."""

    mean: Array
    log_std: Array

    def __init__(self, mean: Array, log_std: Array) -> None:
        self.mean = mean
        self.log_std = jnp.clip(log_std, _LOG_STD_MIN, _LOG_STD_MAX)

    @property
    def mode(self) -> Array:
        """tanh of the Gaussian's mean."""
        return jnp.tanh(self.mean)

    def sample(self, key: Array) -> Array:
        """A random action."""
        return self._action(self._noise(key))

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A reparameterised action a = tanh(mean + std e) with its log-probability, computed from e ~ N(0, I).

        Instead of a key it also takes e itself, so that a loop can draw all of its noise at once.
        """
        noise = self._noise(key)
        action = self._action(noise)
        return action, self._log_density(noise, action)

    def log_prob(self, action: Array) -> Array:
        """Log-density of an action; precise only away from the ends, where the tanh cannot be undone."""
        inside = jnp.clip(action, -1 + _EDGE, 1 - _EDGE)
        noise = (jnp.arctanh(inside) - self.mean) / jnp.exp(self.log_std)
        return self._log_density(noise, inside)

    def _noise(self, key: Array) -> Array:
        drawn = jnp.issubdtype(key.dtype, jnp.floating)
        return key if drawn else jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def _action(self, noise: Array) -> Array:
        return jnp.tanh(self.mean + jnp.exp(self.log_std) * noise)

    def _log_density(self, noise: Array, action: Array) -> Array:
        """sum[log N(x; mean, std) - log(1 - a^2 + 1e-6)] for x = mean + std e and a = tanh(x)."""
        density = -0.5 * noise**2 - self.log_std - _LOG_SQRT_2PI
        # 1 - a^2 lies in [0, 1] already: the authors' clip only guards its rounding.
        slope = 1 - action**2
        slope = slope + jax.lax.stop_gradient(jnp.clip(slope, 0.0, 1.0) - slope)
        return jnp.sum(density - jnp.log(slope + _JACOBIAN_EPSILON), axis=-1)


class ScaledBeta(eqx.Module):
    """a = 2x - 1, x ~ Beta(alpha, beta) with alpha, beta >= 1.05."""

    alpha: Array
    beta: Array

    def __init__(self, raw_alpha: Array, raw_beta: Array) -> None:
        self.alpha = jax.nn.softplus(raw_alpha) + _BETA_MINIMUM
        self.beta = jax.nn.softplus(raw_beta) + _BETA_MINIMUM

    @property
    def mode(self) -> Array:
        """The most likely action, exactly."""
        return 2 * (self.alpha - 1) / (self.alpha + self.beta - 2) - 1

    def sample(self, key: Array) -> Array:
        """A random action, kept 1e-6 away from the ends; gradients pass through that clip."""
        action = 2 * dist.Beta(self.alpha, self.beta).rsample(key) - 1
        return action + jax.lax.stop_gradient(jnp.clip(action, -1 + _EDGE, 1 - _EDGE) - action)

    def sample_and_log_prob(self, key: Array) -> tuple[Array, Array]:
        """A reparameterised action and its log-probability, fast in both directions.

        The log-odds of a Beta variable are a difference of logarithms of Gamma variables. Instead of a key it also
        takes the noise (8, ..., m) that `beta_noise` draws.
        """
        drawn = jnp.issubdtype(key.dtype, jnp.floating)
        noise = key if drawn else _noise_of(key, self.alpha.shape)
        log_odds = _log_gamma_sample(self.alpha, noise[:4]) - _log_gamma_sample(self.beta, noise[4:])
        action = jnp.tanh(log_odds / 2)
        action = action + jax.lax.stop_gradient(jnp.clip(action, -1 + _EDGE, 1 - _EDGE) - action)
        return action, self.log_prob(action)

    def log_prob(self, action: Array) -> Array:
        """Log-density of an action in (-1, 1)^m."""
        return self.log_probs(action) @ jnp.ones(action.shape[-1])  # XLA is several times slower with sum() here

    def log_probs(self, action: Array) -> Array:
        """Log-densities of an action's dimensions, which are independent: (..., m)."""
        x = (action + 1) / 2
        density = (self.alpha - 1) * jnp.log(x) + (self.beta - 1) * jnp.log1p(-x) - log_beta(self.alpha, self.beta)
        return density - jnp.log(2.0)

    def transport(self, action: Array, origin: "ScaledBeta") -> Array:
        """Where an action drawn from `origin` stands here: as many standard deviations from the mean, in log-odds.

        A cheap reparameterisation: exact in the first two moments of the log-odds; kept 1e-6 away from the ends.
        """
        mean, std = self._log_odds()
        origin_mean, origin_std = origin._log_odds()
        noise = (2 * jnp.arctanh(action) - origin_mean) / origin_std
        return jnp.clip(jnp.tanh((mean + std * noise) / 2), -1 + _EDGE, 1 - _EDGE)

    def _log_odds(self) -> tuple[Array, Array]:
        """Mean and standard deviation of log(x / (1 - x))."""
        (mean, var), (other_mean, other_var) = _log_gamma_moments(self.alpha), _log_gamma_moments(self.beta)
        return mean - other_mean, jnp.sqrt(var + other_var)

    def entropy(self) -> Array:
        """Differential entropy in nats, in closed form."""
        return jnp.sum(dist.Beta(self.alpha, self.beta).entropy() + jnp.log(2.0), axis=-1)


def beta_noise(rng: np.random.Generator, leading: tuple[int, ...], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """What `ScaledBeta.sample_and_log_prob` makes samples (..., m) = `shape` of: (*leading, 8, *shape).

    For each of two Gamma variables two normal and two exponential variables; NumPy draws them several times faster.
    """
    pair = (*leading, 2, 2, *shape)
    drawn = [rng.standard_normal(pair, np.float32), rng.standard_exponential(pair, np.float32)]
    return np.concatenate(drawn, axis=len(leading) + 1).reshape(*leading, 8, *shape)


def _noise_of(key: Array, shape: tuple[int, ...]) -> Array:
    normal_key, exponential_key = jax.random.split(key)
    normal = jax.random.normal(normal_key, (2, 2, *shape))
    exponential = jax.random.exponential(exponential_key, (2, 2, *shape))
    return jnp.concatenate([normal, exponential], axis=1).reshape(8, *shape)


def _log_gamma_sample(a: Array, noise: Array) -> Array:
    """The logarithm of a Gamma(a) variable, a >= 1, made of two normal and two exponential variables (4, ...).

    Marsaglia and Tsang's method for a + 1, where more than 98 % of the proposals are accepted; the second one is taken
    without being asked, as a loop is slow. Gradients go along the accepted proposal: what they neglect, the chance of
    acceptance, is below 2 % of them.
    """
    d = a + 2 / 3
    cube_root = 1 + noise[:2] / jnp.sqrt(9 * d)
    log_v = 3 * jnp.log(jnp.maximum(cube_root, 1e-3))
    accepted = (cube_root[0] > 0) & (-noise[2] < 0.5 * noise[0] ** 2 + d * (1 - cube_root[0] ** 3 + log_v[0]))
    return jnp.log(d) + jnp.where(accepted, log_v[0], log_v[1]) - noise[3] / a


def _log_gamma_moments(a: Array) -> tuple[Array, Array]:
    """Mean and variance of the logarithm of a Gamma variable, digamma and trigamma, by series after a shift by 3."""
    shift = [a, a + 1, a + 2]
    inverse = 1 / (a + 3)
    square = inverse**2
    digamma = jnp.log(a + 3) - inverse / 2 - square * (1 / 12 - square * (1 / 120 - square / 252))
    trigamma = inverse + square / 2 + inverse * square * (1 / 6 - square * (1 / 30 - square / 42))
    return digamma - sum(1 / x for x in shift), trigamma + sum(1 / x**2 for x in shift)


def log_beta(a: Array, b: Array) -> Array:
    """log B(a, b) for a, b >= 1, by Stirling's series after a shift by 3: several times faster than by log-gammas.

    IBOL's marginal term takes it for millions of pairs in an epoch; the error is below 2e-6 on top of rounding.
    """

    def product(x: Array) -> Array:
        return x * (x + 1) * (x + 2)  # Gamma(x + 3) / Gamma(x)

    def stirling(x: Array) -> Array:
        """log Gamma(x) + x - log sqrt(2 pi) for x >= 4; the linear parts of the three cancel but for 3."""
        inverse = 1 / x
        return (x - 0.5) * jnp.log(x) + inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 / 1260))

    shifted = stirling(a + 3) + stirling(b + 3) - stirling(a + b + 3) - 3 + _LOG_SQRT_2PI
    return shifted - jnp.log(product(a) / product(a + b) * product(b))
