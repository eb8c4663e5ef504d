"""LSD ("Lipschitz-constrained Unsupervised Skill Discovery").

A representation phi maps states into a space of as many dimensions as the latent has, and is 1-Lipschitz: distances in
it are at most those of the (normalised) states. Each skill goes there as far as it can along its own latent:

    r = (phi(s') - phi(s)) . z,    policy by SAC,    phi:  max E[r]  with  |phi(x) - phi(y)| <= |x - y|.

The constraint holds by construction: every weight matrix of phi is divided by its largest singular value.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ibol.learners import adam
from ibol.methods.discovery import discovery_method
from ibol.methods.metric import MetricConfig, MetricTrainer, along, displacement
from ibol.methods.sac_discovery import Info, Observed
from ibol.nn.networks import LipschitzMLP
from ibol.skills.latents import Prior


@dataclass(frozen=True)
class LSDConfig(MetricConfig):
    """Settings of LSD; the preset gives the defaults."""


class Model(eqx.Module):
    """phi and its optimiser."""

    phi: LipschitzMLP
    optimizer: optax.OptState


def phi_loss(phi: LipschitzMLP, batch: Observed, prior: Prior) -> tuple[Array, Info]:
    """-E[(phi(s') - phi(s)) . z]."""
    moved = displacement(phi, batch)
    loss = -along(moved, batch, prior).mean()
    return loss, {"model_loss": loss, "phi_step": jnp.sqrt(jnp.mean(jnp.sum(moved**2, axis=-1)))}


@partial(jax.jit, static_argnames=("prior", "config"))
def update(model: Model, observed: Observed, prior: Prior, config: LSDConfig, decay: float) -> tuple[Model, Info]:
    """A gradient step on each of the minibatches (steps, batch, ...), after which phi is made 1-Lipschitz again."""

    def step(model: Model, batch: Observed) -> tuple[Model, Info]:
        grads, info = jax.grad(phi_loss, has_aux=True)(model.phi, batch, prior)
        rate = decay * config.phi_rate
        phi, optimizer = adam.descend(config.learning_rate, model.phi, grads, model.optimizer, rate)
        return Model(phi.follow(), optimizer), info

    model, infos = jax.lax.scan(step, model, observed)
    return model, jax.tree.map(jnp.mean, infos)


class LSDTrainer(MetricTrainer):
    """SAC on how far skills go in a representation that does not stretch distances."""

    title = "LSD"
    config: LSDConfig

    def create_model(self, key: Array) -> Model:
        """A fresh phi."""
        phi = LipschitzMLP(len(self.world.encoder_dims), self.prior.dim, self.config.hidden, key)
        return Model(phi, adam.start(self.config.learning_rate, phi))

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train phi."""
        return update(model, observed, self.prior, self.config, decay)


METHOD = discovery_method(LSDConfig, LSDTrainer)
