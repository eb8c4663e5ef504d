"""A model of visited states whose latents become skills: the second stage of EDL.

Gaussian VAE:  min E[|s - g(z)|^2 / 2 + beta KL(q(z | s) || N(0, I))],    z ~ q(z | s)
VQ-VAE:        min E[|s - g(e)|^2 + |sg[c] - e|^2 + beta' |c - sg[e]|^2],  e the code that is nearest to c = encoder(s)

Networks see and answer standardised states; distances are measured in units that the caller chooses.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from ibol.bounds import Count, Counts, Fraction, Natural, NonNegative, Positive
from ibol.learners import adam
from ibol.methods.state_marginal_matching import encode, gaussian_kl
from ibol.nn.networks import MLP
from ibol.seeding import derive

Info = dict[str, Array]
CONSTANT = 1e-6
"""A coordinate that deviates less is not scaled."""
_CHUNK = 500  # gradient steps in one compiled call, so that a training can be interrupted
_LIMIT = 5.0  # standard deviations at which the encoder's inputs are clipped


@dataclass(frozen=True)
class StateModelFields:
    """Settings of the state model; a part of the settings of methods that discover skills from states."""

    discrete_latents: Natural = 0
    """Number of skills that a VQ-VAE discovers, each with a unit vector as its latent; 0 discovers a continuous family
    by a VAE."""
    discover_steps: Count = 50_000
    """Gradient steps of the VAE."""
    discover_batch: Count = 256
    """States in a gradient step of the VAE."""
    discover_learning_rate: Positive = 2e-4
    """Adam's learning rate for the VAE."""
    final_discover_learning_rate: Fraction = 1.0
    """Learning rate at the VAE's last step, as a fraction of the first one; it decays linearly."""
    discover_hidden: Counts = (128, 128)
    """Widths of the hidden layers of the VAE."""
    discover_kl: NonNegative = 0.1
    """Weight of the KL divergence between q(z | s) and N(0, I)."""
    code_dim: Count = 16
    """Dimensions of a code of the VQ-VAE."""
    commitment: NonNegative = 1.5
    """Weight of the VQ-VAE's commitment loss."""


class GaussianVAE(eqx.Module):
    """q(z | x) = N(mean, std) and the mean of p(x | z), for standardised states x."""

    encoder: MLP
    decoder: MLP

    def __init__(self, states: int, latents: int, hidden: tuple[int, ...], key: Array) -> None:
        first, second = jax.random.split(key)
        self.encoder = MLP(states, 2 * latents, hidden, jax.nn.relu, "xavier_uniform", first)
        self.decoder = MLP(latents, states, hidden, jax.nn.relu, "xavier_uniform", second)

    def decode(self, latents: Array) -> Array:
        """Standardised states (..., k) for latents (..., d)."""
        return self.decoder(latents)


class VQVAE(eqx.Module):
    """A code for each of the discrete latents, and what it stands for."""

    encoder: MLP
    decoder: MLP
    codebook: Array  # (latents, code)

    def __init__(self, states: int, latents: int, code: int, hidden: tuple[int, ...], key: Array) -> None:
        first, second, third = jax.random.split(key, 3)
        self.encoder = MLP(states, code, hidden, jax.nn.relu, "xavier_uniform", first)
        self.decoder = MLP(code, states, hidden, jax.nn.relu, "xavier_uniform", second)
        self.codebook = jax.random.uniform(third, (latents, code), minval=-1 / latents, maxval=1 / latents)

    def decode(self, latents: Array) -> Array:
        """Standardised states (..., k) for unit vectors (..., latents)."""
        return self.decoder(latents @ self.codebook)

    def nearest(self, codes: Array) -> Array:
        """The unit vectors (..., latents) of the codes that are nearest to (..., code)."""
        distances = jnp.sum((codes[..., None, :] - self.codebook) ** 2, axis=-1)
        return jax.nn.one_hot(distances.argmin(axis=-1), len(self.codebook))


class Discovered(eqx.Module):
    """What the second stage leaves: the VAE, and how states are standardised for it and measured."""

    vae: GaussianVAE | VQVAE
    mean: Array  # (k,), of the visited states
    std: Array  # (k,)
    weights: Array  # (k,), what a standard deviation is in the chosen units


def vae_loss(
    vae: GaussianVAE, states: Array, weights: Array, key: Array, config: StateModelFields
) -> tuple[Array, Info]:
    """|s - g(z)|^2 / 2 + beta KL(q(z | s) || N(0, I)) for standardised states (B, k), z ~ q(z | s)."""
    mean, log_std = encode(vae.encoder, jnp.clip(states, -_LIMIT, _LIMIT))
    decoded = vae.decode(mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape))
    error = jnp.sum((weights * (states - decoded)) ** 2, axis=-1).mean()
    kl = gaussian_kl(mean, log_std).mean()
    return 0.5 * error + config.discover_kl * kl, {"discover/error": error, "discover/kl": kl}


def vq_loss(vae: VQVAE, states: Array, weights: Array, key: Array, config: StateModelFields) -> tuple[Array, Info]:
    """|s - g(e)|^2 + |sg[c] - e|^2 + beta |c - sg[e]|^2 with the code e that is nearest to the encoder's answer c."""
    fixed = jax.lax.stop_gradient
    answer = vae.encoder(jnp.clip(states, -_LIMIT, _LIMIT))
    code = vae.nearest(fixed(answer)) @ vae.codebook
    decoded = vae.decoder(answer + fixed(code - answer))  # the decoder's gradient goes on to the encoder
    error = jnp.sum((weights * (states - decoded)) ** 2, axis=-1).mean()
    moved = jnp.sum((fixed(answer) - code) ** 2, axis=-1).mean()
    committed = jnp.sum((answer - fixed(code)) ** 2, axis=-1).mean()
    return error + moved + config.commitment * committed, {"discover/error": error, "discover/commitment": committed}


@partial(jax.jit, static_argnames=("config", "steps"))
def update(
    found: Discovered,
    optimizer: optax.OptState,
    states: Array,
    key: Array,
    config: StateModelFields,
    steps: int,
    decay: float,
) -> tuple[Discovered, optax.OptState, Info]:
    """Gradient steps on minibatches of standardised states (N, k), with `decay` times the learning rate."""
    loss = vq_loss if config.discrete_latents else vae_loss

    def step(carry: tuple[Any, optax.OptState], key: Array) -> tuple[tuple[Any, optax.OptState], Info]:
        vae, optimizer = carry
        rows, drawn = jax.random.split(key)
        batch = states[jax.random.randint(rows, (config.discover_batch,), 0, len(states))]
        grads, info = jax.grad(loss, has_aux=True)(vae, batch, found.weights, drawn, config)
        return adam.descend(config.discover_learning_rate, vae, grads, optimizer, decay), info

    (vae, optimizer), infos = jax.lax.scan(step, (found.vae, optimizer), jax.random.split(key, steps))
    return eqx.tree_at(lambda f: f.vae, found, vae), optimizer, jax.tree.map(jnp.mean, infos)


def create(states: int, latents: int, config: StateModelFields, key: Array) -> Discovered:
    """A model that has seen nothing, for states (..., k)."""
    vae: GaussianVAE | VQVAE = (
        VQVAE(states, latents, config.code_dim, config.discover_hidden, key)
        if config.discrete_latents
        else GaussianVAE(states, latents, config.discover_hidden, key)
    )
    return Discovered(vae, jnp.zeros(states), jnp.ones(states), jnp.ones(states))


def in_units(std: NDArray[np.floating], unit: NDArray[np.floating] | None) -> Array:
    """Standard deviations (k,) in units (k,), or each as its own unit."""
    safe = np.ones_like(std) if unit is None else std / np.where(unit < CONSTANT, 1.0, unit)
    return jnp.asarray(safe, jnp.float32)


def fit(
    found: Discovered,
    visited: NDArray[np.floating],
    unit: NDArray[np.floating] | None,
    config: StateModelFields,
    seed: int,
) -> tuple[Discovered, Info]:
    """Train on raw states (N, k), from the start; returns the means over the last gradient steps, too."""
    mean, std = visited.mean(axis=0, dtype=np.float64), visited.std(axis=0, dtype=np.float64)
    std = np.where(std < CONSTANT, 1.0, std)
    center, scale = jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32)
    found, info = Discovered(found.vae, center, scale, in_units(std, unit)), {}
    optimizer = adam.start(config.discover_learning_rate, found.vae)
    states = (jnp.asarray(visited) - found.mean) / found.std
    for done in range(0, config.discover_steps, _CHUNK):
        key, steps = jax.random.key(derive(seed, "discover", done)), min(_CHUNK, config.discover_steps - done)
        decay = adam.linear_decay(config.final_discover_learning_rate, done, config.discover_steps)
        found, optimizer, info = update(found, optimizer, states, key, config, steps, decay)
    return found, info


def distance(found: Discovered, states: Array, latents: Array) -> Array:
    """|s - g(z)| for raw states (..., k) and latents (..., d)."""
    standardised = (states - found.mean) / found.std
    return jnp.sqrt(jnp.sum((found.weights * (standardised - found.vae.decode(latents))) ** 2, axis=-1) + 1e-12)
