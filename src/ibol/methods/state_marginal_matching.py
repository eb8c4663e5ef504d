"""Exploration by state marginal matching (SMM), the first stage of EDL.

Exploration skills k = 1 ... K are to visit all states evenly, each its own part of them. A VAE models the states that
were visited with each skill, a discriminator q(k | s) says whose they are, and a step is rewarded by

    r = log q(k | s') - log(1 / K) + w |x - vae(x)|^2,    x = [s', k].

The reconstruction error is high where the density of visited states is low. Both models learn from replayed steps; the
reward of a step is that of the models at its collection.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ibol.bounds import Count, Counts, NonNegative, Positive
from ibol.learners import adam
from ibol.nn.networks import MLP

Info = dict[str, Array]


@dataclass(frozen=True)
class ExplorationFields:
    """Settings of the exploration; a part of the settings of methods that explore like this."""

    explore_skills: Count = 4
    """Number K of exploration skills."""
    explore_temperature: Positive = 1.0
    """Entropy weight of the exploration's SAC at the start; the official code has 1 or 0.1, fixed."""
    learn_explore_temperature: bool = False
    """Adapt the exploration's temperature to the target entropy."""
    explore_learning_rate: Positive = 1e-3
    """Adam's learning rate for the exploration's SAC."""
    novelty_weight: NonNegative = 0.05
    """Weight w of the novelty; the official code has 0.05 with temperature 1, and 1 with temperature 0.1."""
    density_code: Count = 64
    """Dimensions of the density model's code."""
    density_kl: NonNegative = 0.5
    """Weight of the KL divergence in the density model's loss: the larger, the broader its density."""
    density_learning_rate: Positive = 1e-2
    """Adam's learning rate for the density model."""
    discriminator_learning_rate: Positive = 1e-3
    """Adam's learning rate for the discriminator."""
    model_hidden: Counts = (128, 128, 128)
    """Widths of the hidden layers of density model and discriminator."""


class Visited(NamedTuple):
    """States that steps led to, and the exploration skills that took them."""

    states: Array  # (..., k), standardised
    skills: Array  # (..., K), unit vectors


class Density(eqx.Module):
    """A VAE of x = [s', k]."""

    encoder: MLP
    decoder: MLP

    def __init__(self, inputs: int, code: int, hidden: tuple[int, ...], key: Array) -> None:
        first, second = jax.random.split(key)
        self.encoder = MLP(inputs, 2 * code, hidden, jax.nn.relu, "xavier_uniform", first)
        self.decoder = MLP(code, inputs, hidden, jax.nn.relu, "xavier_uniform", second)


class Models(eqx.Module):
    """Density model and discriminator with their optimisers."""

    density: Density
    discriminator: MLP
    optimizers: tuple[optax.OptState, optax.OptState]


def create(states: int, config: ExplorationFields, key: Array) -> Models:
    """Fresh models."""
    first, second = jax.random.split(key)
    density = Density(states + config.explore_skills, config.density_code, config.model_hidden, first)
    discriminator = MLP(states, config.explore_skills, config.model_hidden, jax.nn.relu, "xavier_uniform", second)
    starts = (
        adam.start(config.density_learning_rate, density),
        adam.start(config.discriminator_learning_rate, discriminator),
    )
    return Models(density, discriminator, starts)


def gaussian_kl(mean: Array, log_std: Array) -> Array:
    """KL(N(mean, std) || N(0, I)), summed over the last axis."""
    return 0.5 * jnp.sum(mean**2 + jnp.exp(2 * log_std) - 2 * log_std - 1, axis=-1)


def encode(encoder: MLP, inputs: Array) -> tuple[Array, Array]:
    """Mean and log standard deviation of a VAE's code, each (..., d)."""
    mean, log_std = jnp.split(encoder(inputs), 2, axis=-1)
    return mean, jnp.clip(log_std, -10.0, 2.0)


def reconstruct(density: Density, visited: Visited, weights: Array, noise: Array) -> tuple[Array, Array]:
    """Squared errors (..., k + K), times the squares of `weights` (k,) for states; and the code's KL (...)."""
    x = jnp.concatenate(visited, axis=-1)
    mean, log_std = encode(density.encoder, x)
    code = mean + jnp.exp(log_std) * noise
    units = jnp.concatenate([weights, jnp.ones(visited.skills.shape[-1])])
    return (units * (x - density.decoder(code))) ** 2, gaussian_kl(mean, log_std)


def density_loss(
    density: Density, visited: Visited, weights: Array, noise: Array, kl_weight: float
) -> tuple[Array, Info]:
    """kl_weight KL + mean squared error, over batch and dimensions."""
    errors, kl = reconstruct(density, visited, weights, noise)
    loss = kl_weight * kl.mean() + errors.mean()
    return loss, {"explore/density_loss": loss}


def discriminator_loss(discriminator: MLP, visited: Visited) -> tuple[Array, Info]:
    """-E[log q(k | s')]."""
    loss = -jnp.sum(jax.nn.log_softmax(discriminator(visited.states)) * visited.skills, axis=-1).mean()
    return loss, {"explore/discriminator_loss": loss}


@jax.jit
def reward(
    models: Models, visited: Visited, weights: Array, novelty_weight: float, key: Array
) -> tuple[Array, dict[str, Array]]:
    """log q(k | s') + log K + w times the novelty, which takes one sample of the code; and both parts' means."""
    shape = (*visited.states.shape[:-1], models.density.decoder.trunk.layers[0].weight.shape[0])
    errors, _ = reconstruct(models.density, visited, weights, jax.random.normal(key, shape))
    novelty = errors.sum(axis=-1)
    guessed = jnp.sum(jax.nn.log_softmax(models.discriminator(visited.states)) * visited.skills, axis=-1)
    told_apart = guessed + jnp.log(visited.skills.shape[-1])
    total = told_apart + novelty_weight * novelty
    parts = {"reward": total, "novelty": novelty, "discrimination": told_apart}
    return total, {f"explore/{name}": values.mean() for name, values in parts.items()}


@partial(jax.jit, static_argnames="config")
def update(
    models: Models, visited: Visited, weights: Array, config: ExplorationFields, key: Array
) -> tuple[Models, Info]:
    """A gradient step of both models on each of the minibatches (steps, batch, ...)."""
    noise = jax.random.normal(key, (*visited.states.shape[:-1], config.density_code))

    def step(models: Models, x: tuple[Visited, Array]) -> tuple[Models, Info]:
        batch, noise = x
        density_opt, discriminator_opt = models.optimizers
        grads, info = jax.grad(density_loss, has_aux=True)(models.density, batch, weights, noise, config.density_kl)
        density, density_opt = adam.descend(config.density_learning_rate, models.density, grads, density_opt)
        grads, more = jax.grad(discriminator_loss, has_aux=True)(models.discriminator, batch)
        rate = config.discriminator_learning_rate
        discriminator, discriminator_opt = adam.descend(rate, models.discriminator, grads, discriminator_opt)
        return Models(density, discriminator, (density_opt, discriminator_opt)), {**info, **more}

    models, infos = jax.lax.scan(step, models, (visited, noise))
    return models, jax.tree.map(jnp.mean, infos)
