"""CSF ("Can a MISL Fly? Analysis and Ingredients for Mutual Information Skill Learning").

METRA's reward with a representation phi that is learned by contrast with other latents, and a critic of its successor
features instead of one number:

    r = (phi(s') - phi(s)) . z,    phi:  max E[r - xi log mean_k exp((phi(s') - phi(s)) . z_k)],    z_k ~ p(z),

    psi(s, a, z) = phi(s') - phi(s) + gamma psi(s', a', z),    policy:  max E[psi(s, a, z) . z - alpha log pi(a | s, z)]
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ibol import memory
from ibol.bounds import Count, Positive
from ibol.learners import adam
from ibol.methods.discovery import discovery_method
from ibol.methods.metric import MetricConfig, MetricTrainer, along, direction, displacement
from ibol.methods.sac_discovery import Info, Observed
from ibol.nn.networks import MLP
from ibol.seeding import derive
from ibol.skills.latents import Prior


@dataclass(frozen=True)
class CSFConfig(MetricConfig):
    """Settings of CSF; the preset gives the defaults."""

    prior_samples: Count = 256
    """Number of latents z_k that each minibatch is compared with."""
    contrast: Positive = 5.0
    """xi, the weight of this comparison."""


class Model(eqx.Module):
    """phi with its optimiser, and how many gradient steps it has taken, which decides what it is compared with."""

    phi: MLP
    optimizer: optax.OptState
    taken: Array


def phi_loss(phi: MLP, batch: Observed, others: Array, prior: Prior, contrast: float) -> tuple[Array, Info]:
    """-E[(phi(s') - phi(s)) . z - xi log mean_k exp((phi(s') - phi(s)) . z_k)] with `others` z_k, (L, d)."""
    moved = displacement(phi, batch)
    compared = moved @ direction(others, prior).T  # (..., L)
    normalizer = jax.nn.logsumexp(compared, axis=-1) - jnp.log(len(others))
    loss = -(along(moved, batch, prior) - contrast * normalizer).mean()
    return loss, {"model_loss": loss, "phi_step": jnp.sqrt(jnp.mean(jnp.sum(moved**2, axis=-1)))}


@partial(jax.jit, static_argnames=("prior", "config"))
def update(
    model: Model, observed: Observed, key: Array, prior: Prior, config: CSFConfig, decay: float
) -> tuple[Model, Info]:
    """A gradient step on each of the minibatches (steps, batch, ...), each compared with latents of its own."""

    def step(model: Model, batch: Observed) -> tuple[Model, Info]:
        others = prior.sample(jax.random.fold_in(key, model.taken), config.prior_samples)
        grads, info = jax.grad(phi_loss, has_aux=True)(model.phi, batch, others, prior, config.contrast)
        rate = decay * config.phi_rate
        phi, optimizer = adam.descend(config.learning_rate, model.phi, grads, model.optimizer, rate)
        return Model(phi, optimizer, model.taken + 1), info

    model, infos = jax.lax.scan(step, model, observed)
    return model, jax.tree.map(jnp.mean, infos)


@jax.jit
def successor_features(phi: MLP, observed: Observed) -> Array:
    """What the vector critic sums up: phi(s') - phi(s), (..., d)."""
    return displacement(phi, observed)


class CSFTrainer(MetricTrainer):
    """SAC with a vector critic on a representation that is learned by contrast."""

    title = "CSF"
    config: CSFConfig
    entropy_in_targets = False

    @property
    def num_features(self) -> int:
        """The critics predict as many as the representation has dimensions."""
        return self.prior.dim

    def features(self, model: Model, observed: Observed, key: Array) -> Array:
        """Steps in the representation."""
        return self.config.reward_scale * successor_features(model.phi, observed)

    def weights(self, latents: Array) -> Array:
        """The reward is how far a step goes along its latent."""
        return direction(latents, self.prior)

    def create_model(self, key: Array) -> Model:
        """A fresh phi."""
        config, phi = self.config, self.create_phi(key)
        rows = config.prior_samples * (config.batch_size or config.episodes_per_epoch * self.world.horizon)
        memory.check(8 * rows, f"{config.prior_samples} compared latents", "choose a smaller --prior-samples")
        return Model(phi, adam.start(config.learning_rate, phi), jnp.zeros((), jnp.int32))

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train phi."""
        key = jax.random.key(derive(self.seed, "compared latents"))
        return update(model, observed, key, self.prior, self.config, decay)


METHOD = discovery_method(CSFConfig, CSFTrainer)
