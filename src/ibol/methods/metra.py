"""METRA ("METRA: Scalable Unsupervised RL with Metric-Aware Abstraction").

A representation phi maps states into a space of as many dimensions as the latent has, where neighbours in time lie at
most 1 apart. Each skill goes there as far as it can along its own latent:

    r = (phi(s') - phi(s)) . z,    policy by SAC,

    phi:     max E[r + lambda min(eps, 1 - |phi(s') - phi(s)|²)],
    lambda:  min log(lambda) E[min(eps, 1 - |phi(s') - phi(s)|²)].
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
from ibol.methods.metric import Dual, DualConfig, MetricTrainer, constrained_loss, update_dual
from ibol.methods.sac_discovery import Info, Observed
from ibol.nn.networks import MLP
from ibol.skills.latents import Prior


@dataclass(frozen=True)
class METRAConfig(DualConfig):
    """Settings of METRA; the preset gives the defaults."""


class Model(eqx.Module):
    """phi with its optimiser, and the dual variable."""

    phi: MLP
    optimizer: optax.OptState
    dual: Dual


def phi_loss(phi: MLP, multiplier: Array, batch: Observed, prior: Prior, config: METRAConfig) -> tuple[Array, Info]:
    """-E[(phi(s') - phi(s)) . z + lambda min(eps, 1 - |phi(s') - phi(s)|²)]: one step is at most 1 long."""
    return constrained_loss(phi, multiplier, 1.0, batch, prior, config)


@partial(jax.jit, static_argnames=("prior", "config"))
def update(model: Model, observed: Observed, prior: Prior, config: METRAConfig, decay: float) -> tuple[Model, Info]:
    """On each of the minibatches (steps, batch, ...) a gradient step of phi, then one of lambda."""

    def step(model: Model, batch: Observed) -> tuple[Model, Info]:
        grads, info = jax.grad(phi_loss, has_aux=True)(model.phi, model.dual.multiplier, batch, prior, config)
        rate = decay * config.phi_rate
        phi, optimizer = adam.descend(config.learning_rate, model.phi, grads, model.optimizer, rate)
        dual, dual_info = update_dual(model.dual, info["room"], config, decay)
        return Model(phi, optimizer, dual), {**info, **dual_info}

    model, infos = jax.lax.scan(step, model, observed)
    return model, jax.tree.map(jnp.mean, infos)


class METRATrainer(MetricTrainer):
    """SAC on how far skills go in a representation whose distances are steps in time."""

    title = "METRA"
    config: METRAConfig

    def create_model(self, key: Array) -> Model:
        """A fresh phi, and lambda at its start."""
        phi = self.create_phi(key)
        return Model(phi, adam.start(self.config.learning_rate, phi), Dual.start(self.config))

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train phi and lambda."""
        return update(model, observed, self.prior, self.config, decay)


METHOD = discovery_method(METRAConfig, METRATrainer)
