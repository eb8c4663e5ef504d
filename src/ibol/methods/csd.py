"""CSD ("Controllability-Aware Unsupervised Skill Discovery").

As METRA, but a step of the representation phi may be as long as the step of the state was hard to make, so that skills
prefer what is hard to control. Hard is what a model N(mu(s), sigma(s)) of the usual steps s' - s does not expect:

    d(s, s') = mean_i [((s' - s) - mu(s))_i² w_i²],    w = 1 / sigma(s) scaled to a geometric mean of 1,

    r = (phi(s') - phi(s)) . z,    policy by SAC,

    phi:        max E[r + lambda min(eps, d(s, s') - |phi(s') - phi(s)|²)],
    lambda:     min log(lambda) E[min(eps, d(s, s') - |phi(s') - phi(s)|²)],
    mu, sigma:  max E[log N(s' - s; mu(s), sigma(s))].
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
from ibol.nn.distributions import gaussian_log_prob
from ibol.nn.networks import MLP, STD_FLOOR
from ibol.skills.latents import Prior


@dataclass(frozen=True)
class CSDConfig(DualConfig):
    """Settings of CSD; the preset gives the defaults."""


class StepModel(eqx.Module):
    """N(mu(s), sigma(s)) of steps s' - s, with independent dimensions."""

    mean: MLP
    log_std: MLP

    def __init__(self, states: int, hidden: tuple[int, ...], key: Array) -> None:
        mean_key, std_key = jax.random.split(key)
        self.mean = MLP(states, states, hidden, jax.nn.relu, "xavier_uniform", mean_key)
        self.log_std = MLP(states, states, hidden, jax.nn.relu, "xavier_uniform", std_key)

    def __call__(self, states: Array) -> tuple[Array, Array]:
        """mu and sigma, both (..., k), for states (..., k)."""
        return self.mean(states), jnp.maximum(jnp.exp(self.log_std(states)), STD_FLOOR)


class Model(eqx.Module):
    """phi and the model of steps with their optimisers, and the dual variable."""

    phi: MLP
    optimizer: optax.OptState
    dual: Dual
    steps: StepModel
    steps_optimizer: optax.OptState


def distance(steps: StepModel, batch: Observed) -> Array:
    """d(s, s'), (...): the squared surprise of a step, whose weights have a geometric mean of 1."""
    mean, std = steps(batch.states)
    log_weights = -jnp.log(std)
    log_weights = log_weights - log_weights.mean(axis=-1, keepdims=True)
    surprise = batch.next_states - batch.states - mean  # (..., k)
    return jnp.mean(surprise**2 * jnp.exp(2 * log_weights), axis=-1)


def steps_loss(steps: StepModel, batch: Observed) -> tuple[Array, Info]:
    """-E[log N(s' - s; mu(s), sigma(s))]."""
    loss = -gaussian_log_prob(*steps(batch.states), batch.next_states - batch.states).mean()
    return loss, {"steps_loss": loss}


def phi_loss(
    phi: MLP, multiplier: Array, allowed: Array, batch: Observed, prior: Prior, config: CSDConfig
) -> tuple[Array, Info]:
    """-E[(phi(s') - phi(s)) . z + lambda min(eps, d(s, s') - |phi(s') - phi(s)|²)], with d(s, s') as `allowed`."""
    loss, info = constrained_loss(phi, multiplier, allowed, batch, prior, config)
    return loss, {**info, "step_distance": allowed.mean()}


@partial(jax.jit, static_argnames=("prior", "config"))
def update(model: Model, observed: Observed, prior: Prior, config: CSDConfig, decay: float) -> tuple[Model, Info]:
    """On each of the minibatches (steps, batch, ...) a gradient step of phi, of lambda and of the model of steps."""

    def step(model: Model, batch: Observed) -> tuple[Model, Info]:
        allowed = distance(model.steps, batch)
        multiplier = model.dual.multiplier
        grads, info = jax.grad(phi_loss, has_aux=True)(model.phi, multiplier, allowed, batch, prior, config)
        rate = decay * config.phi_rate
        phi, optimizer = adam.descend(config.learning_rate, model.phi, grads, model.optimizer, rate)
        dual, dual_info = update_dual(model.dual, info["room"], config, decay)
        grads, steps_info = jax.grad(steps_loss, has_aux=True)(model.steps, batch)
        steps, steps_optimizer = adam.descend(config.learning_rate, model.steps, grads, model.steps_optimizer, decay)
        return Model(phi, optimizer, dual, steps, steps_optimizer), {**info, **dual_info, **steps_info}

    model, infos = jax.lax.scan(step, model, observed)
    return model, jax.tree.map(jnp.mean, infos)


class CSDTrainer(MetricTrainer):
    """SAC on how far skills go in a representation whose distances are how hard steps are to control."""

    title = "CSD"
    config: CSDConfig

    def create_model(self, key: Array) -> Model:
        """A fresh phi, lambda at its start, and a fresh model of steps."""
        phi_key, steps_key = jax.random.split(key)
        phi, config = self.create_phi(phi_key), self.config
        steps = StepModel(len(self.world.encoder_dims), config.hidden, steps_key)
        phi_optimizer, steps_optimizer = (adam.start(config.learning_rate, learnt) for learnt in (phi, steps))
        return Model(phi, phi_optimizer, Dual.start(config), steps, steps_optimizer)

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train phi, lambda and the model of steps."""
        return update(model, observed, self.prior, self.config, decay)


METHOD = discovery_method(CSDConfig, CSDTrainer)
