"""What METRA, LSD, CSD and CSF share: a representation phi of states, in which a skill goes along its latent.

    r = (phi(s') - phi(s)) . z

Over an episode the rewards add up to (phi(s_T) - phi(s_0)) . z. What differs is what keeps phi from growing without
bound: a constraint with a dual variable (METRA, CSD), its own weights (LSD), or a contrastive loss (CSF).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from ibol.bounds import Natural, Positive
from ibol.learners import adam
from ibol.methods.discovery import discrete_prior
from ibol.methods.sac_discovery import Info, Observed, SACDiscoveryConfig, SACDiscoveryTrainer
from ibol.nn.networks import MLP, LipschitzMLP
from ibol.skills.latents import PRIORS, Prior

Phi = MLP | LipschitzMLP


@dataclass(frozen=True)
class MetricConfig(SACDiscoveryConfig):
    """Settings that the methods with a representation share."""

    prior: Literal["sphere", "gaussian"] = "sphere"
    """What latents are drawn from: uniform on the unit sphere, or N(0, I)."""
    discrete_latents: Natural = 0
    """Number of discrete skills, each with a unit vector as its latent; 0 learns a continuous family."""
    reward_scale: Positive = 1.0
    """Factor of the reward."""
    phi_rate: Positive = 1.0
    """Learning rate of phi, as a multiple of that of the other networks."""


@dataclass(frozen=True)
class DualConfig(MetricConfig):
    """Settings of a constraint on phi."""

    multiplier: Positive = 30.0
    """The dual variable lambda at the start."""
    slack: Positive = 1e-3
    """eps: the most that the constraint's slack in one step can add to the objective."""
    squared_norm: Literal["sum", "mean"] = "sum"
    """How |phi(s') - phi(s)|² is computed from its d squares: their sum as in the papers, or their mean as in the
    authors' code, which allows d times as much."""


def displacement(phi: Phi, batch: Observed) -> Array:
    """phi(s') - phi(s), (..., d)."""
    return phi(batch.next_states) - phi(batch.states)


def direction(latents: Array, prior: Prior) -> Array:
    """The z (..., d) that rewards take: the latent, or (z - 1/K) K / (K - 1) for one of K discrete skills."""
    return (latents - 1 / prior.dim) * prior.dim / (prior.dim - 1) if prior.discrete else latents


def along(moved: Array, batch: Observed, prior: Prior) -> Array:
    """(phi(s') - phi(s)) . z for displacements (..., d)."""
    return jnp.sum(moved * direction(batch.latents, prior), axis=-1)


@partial(jax.jit, static_argnames="prior")
def reward(phi: Phi, observed: Observed, prior: Prior) -> Array:
    """How far a step went along its latent, (...)."""
    return along(displacement(phi, observed), observed, prior)


class Dual(eqx.Module):
    """The dual variable lambda > 0 of a constraint, and its optimiser."""

    log_multiplier: Array
    optimizer: optax.OptState

    @classmethod
    def start(cls, config: DualConfig) -> "Dual":
        """At the start."""
        log_multiplier = jnp.log(jnp.float32(config.multiplier))
        return cls(log_multiplier, adam.start(config.learning_rate, log_multiplier))

    @property
    def multiplier(self) -> Array:
        """lambda."""
        return jnp.exp(self.log_multiplier)


def room(moved: Array, allowed: Array | float, config: DualConfig) -> Array:
    """min(eps, allowed - |phi(s') - phi(s)|²), (...), for displacements (..., d): what is left to the constraint."""
    squares = moved**2
    norm = squares.sum(axis=-1) if config.squared_norm == "sum" else squares.mean(axis=-1)
    return jnp.minimum(config.slack, allowed - norm)


def constrained_loss(
    phi: Phi, multiplier: Array, allowed: Array | float, batch: Observed, prior: Prior, config: DualConfig
) -> tuple[Array, Info]:
    """-E[(phi(s') - phi(s)) . z + lambda min(eps, allowed - |phi(s') - phi(s)|²)]."""
    moved = displacement(phi, batch)
    left = room(moved, allowed, config).mean()
    loss = -(along(moved, batch, prior).mean() + multiplier * left)
    return loss, {"model_loss": loss, "room": left, "phi_step": jnp.sqrt(jnp.mean(jnp.sum(moved**2, axis=-1)))}


def dual_loss(log_multiplier: Array, left: Array) -> tuple[Array, Info]:
    """log(lambda) E[min(eps, ...)]: descending it, lambda grows while the constraint is violated, and shrinks else."""
    return log_multiplier * left, {"multiplier": jnp.exp(log_multiplier)}


def update_dual(dual: Dual, left: Array, config: DualConfig, decay: Array | float) -> tuple[Dual, Info]:
    """A gradient step of lambda, given what is `left` to the constraint in a minibatch."""
    gradient, info = jax.grad(dual_loss, has_aux=True)(dual.log_multiplier, left)
    return Dual(*adam.descend(config.learning_rate, dual.log_multiplier, gradient, dual.optimizer, decay)), info


class MetricTrainer(SACDiscoveryTrainer):
    """SAC on the reward (phi(s') - phi(s)) . z; a method's model has phi as its `phi`."""

    config: MetricConfig

    def create_prior(self) -> Prior:
        """Directions, N(0, I), or discrete skills."""
        count = self.config.discrete_latents
        return discrete_prior(count) if count else PRIORS[self.config.prior](self.config.latent_dim)

    def create_phi(self, key: Array) -> MLP:
        """A fresh phi: states to as many dimensions as a latent has."""
        inputs = len(self.world.encoder_dims)
        return MLP(inputs, self.prior.dim, self.config.hidden, jax.nn.relu, "xavier_uniform", key)

    @property
    def phi(self) -> MLP:
        """phi as it is now."""
        phi: Phi = self.model.phi
        return phi.plain() if isinstance(phi, LipschitzMLP) else phi

    def reward(self, model: Any, observed: Observed, key: Array) -> Array:
        """How far steps went along their latents."""
        return self.config.reward_scale * reward(model.phi, observed, self.prior)
