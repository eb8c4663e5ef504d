"""DIAYN ("Diversity is All You Need"), with continuous latents as in the paper's comparison, or with discrete ones.

A discriminator q(z | s') guesses the latent from the state that a step led to, and rewards the skill policy for being
recognised:

    r = log q(z | s') - log p(z),    q trained on  max E[log q(z | s')],    policy by SAC.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ibol.bounds import Natural
from ibol.learners import adam
from ibol.methods.discovery import discovery_method, discrete_prior
from ibol.methods.sac_discovery import Info, Observed, SACDiscoveryConfig, SACDiscoveryTrainer
from ibol.nn.distributions import gaussian_log_prob
from ibol.nn.networks import MLP, STD_FLOOR
from ibol.skills.latents import Prior


@dataclass(frozen=True)
class DIAYNConfig(SACDiscoveryConfig):
    """Settings of DIAYN; the preset gives the defaults."""

    discrete_latents: Natural = 0
    """Number of discrete skills, each with a unit vector as its latent; 0 learns a continuous family."""


class Discriminator(eqx.Module):
    """q(z | s'), a diagonal Gaussian."""

    mean: MLP
    log_std: MLP

    def __init__(self, inputs: int, latents: int, hidden: tuple[int, ...], key: Array) -> None:
        mean_key, std_key = jax.random.split(key)
        self.mean = MLP(inputs, latents, hidden, jax.nn.relu, "xavier_uniform", mean_key)
        self.log_std = MLP(inputs, latents, hidden, jax.nn.relu, "xavier_uniform", std_key)

    def log_prob(self, next_states: Array, latents: Array) -> Array:
        """log q(z | s') for states (..., k) and latents (..., d)."""
        std = jnp.maximum(jnp.exp(self.log_std(next_states)), STD_FLOOR)
        return gaussian_log_prob(self.mean(next_states), std, latents)


class Classifier(eqx.Module):
    """q(z | s') of discrete latents."""

    logits: MLP

    def __init__(self, inputs: int, latents: int, hidden: tuple[int, ...], key: Array) -> None:
        self.logits = MLP(inputs, latents, hidden, jax.nn.relu, "xavier_uniform", key)

    def log_prob(self, next_states: Array, latents: Array) -> Array:
        """log q(z | s') for states (..., k) and unit vectors (..., d)."""
        return jnp.sum(jax.nn.log_softmax(self.logits(next_states)) * latents, axis=-1)


class Model(eqx.Module):
    """The discriminator and its optimiser."""

    discriminator: Discriminator | Classifier
    optimizer: optax.OptState


def discriminator_loss(discriminator: Discriminator | Classifier, batch: Observed) -> tuple[Array, Info]:
    """-E[log q(z | s')]."""
    loss = -discriminator.log_prob(batch.next_states, batch.latents).mean()
    return loss, {"model_loss": loss}


@partial(jax.jit, static_argnames="config")
def update(model: Model, observed: Observed, config: DIAYNConfig, decay: float) -> tuple[Model, Info]:
    """A gradient step on each of the minibatches (steps, batch, ...), with `decay` times the learning rate."""

    def step(model: Model, batch: Observed) -> tuple[Model, Info]:
        grads, info = jax.grad(discriminator_loss, has_aux=True)(model.discriminator, batch)
        return Model(*adam.descend(config.learning_rate, model.discriminator, grads, model.optimizer, decay)), info

    model, infos = jax.lax.scan(step, model, observed)
    return model, jax.tree.map(jnp.mean, infos)


@partial(jax.jit, static_argnames="prior")
def reward(discriminator: Discriminator | Classifier, observed: Observed, prior: Prior) -> Array:
    """log q(z | s') - log p(z)."""
    return discriminator.log_prob(observed.next_states, observed.latents) - prior.log_prob(observed.latents)


class DIAYNTrainer(SACDiscoveryTrainer):
    """SAC on the discriminator's reward."""

    title = "DIAYN"

    config: DIAYNConfig

    def create_prior(self) -> Prior:
        """N(0, I), or discrete skills."""
        count = self.config.discrete_latents
        return discrete_prior(count) if count else super().create_prior()

    def create_model(self, key: Array) -> Model:
        """A fresh discriminator."""
        make = Classifier if self.prior.discrete else Discriminator
        discriminator = make(len(self.world.encoder_dims), self.prior.dim, self.config.hidden, key)
        return Model(discriminator, adam.start(self.config.learning_rate, discriminator))

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train the discriminator."""
        return update(model, observed, self.config, decay)

    def reward(self, model: Model, observed: Observed, key: Array) -> Array:
        """How well the latent is recognised."""
        return reward(model.discriminator, observed, self.prior)


METHOD = discovery_method(DIAYNConfig, DIAYNTrainer)
