"""DADS ("Dynamics-Aware Discovery of Skills"), with continuous latents as in the paper's comparison.

Skill dynamics q(s' - s | s, z) predict where a skill leads, and reward the skill policy for steps that its own latent
predicts better than others do:

    r = log q(d | s, z) - log mean_i q(d | s, z_i),    z_i ~ p(z),    d = s' - s,    policy by SAC

where the mean is over L latents and z itself. q is a mixture of Gaussians with unit variance, of batch-normalised d.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from ibol import memory
from ibol.bounds import Count, PositiveFraction
from ibol.learners import adam
from ibol.methods.discovery import discovery_method
from ibol.methods.sac_discovery import Info, Observed, SACDiscoveryConfig, SACDiscoveryTrainer
from ibol.nn.networks import Dense, Trunk
from ibol.skills.latents import Prior

_LOG_2PI = float(np.log(2 * np.pi))
_EPSILON = 1e-5
_LIMIT = 50.0  # of a difference of log likelihoods
_ROWS = 2048  # comparisons at a time


@dataclass(frozen=True)
class DADSConfig(SACDiscoveryConfig):
    """Settings of DADS; the preset gives the defaults."""

    prior_samples: Count = 100
    """L, the number of other latents that a step is compared with."""
    mixture: Count = 4
    """Number of Gaussians in the skill dynamics."""
    statistics_rate: PositiveFraction = 0.01
    """How fast the running statistics of the batch normalisation follow the minibatches."""


class Statistics(eqx.Module):
    """Mean and variance for normalisation."""

    mean: Array
    var: Array

    @classmethod
    def of(cls, values: Array) -> "Statistics":
        """Those of a batch (B, k)."""
        return cls(values.mean(axis=0), values.var(axis=0))

    def __call__(self, values: Array) -> Array:
        """Normalised values (..., k)."""
        return (values - self.mean) / jnp.sqrt(self.var + _EPSILON)

    def follow(self, other: "Statistics", rate: float) -> "Statistics":
        """A step of the moving average."""
        return jax.tree.map(lambda old, new: (1 - rate) * old + rate * new, self, other)


class SkillDynamics(eqx.Module):
    """q(d | s, z) of normalised differences; s comes normalised, and is scaled and shifted as the network likes."""

    scale: Array
    shift: Array
    trunk: Trunk
    means: Dense
    logits: Dense

    def __init__(
        self, inputs: int, outputs: int, latents: int, mixture: int, hidden: tuple[int, ...], key: Array
    ) -> None:
        trunk_key, means_key, logits_key = jax.random.split(key, 3)
        self.scale, self.shift = jnp.ones(inputs), jnp.zeros(inputs)
        self.trunk = Trunk(inputs + latents, hidden, jax.nn.relu, "xavier_uniform", trunk_key)
        self.means = Dense(hidden[-1], mixture * outputs, "xavier_uniform", means_key)
        self.logits = Dense(hidden[-1], mixture, "xavier_uniform", logits_key)

    def log_prob(self, states: Array, latents: Array, moved: Array) -> Array:
        """log q for normalised states (..., k), latents (..., d) and normalised differences (..., m)."""
        features = self.trunk(jnp.concatenate([states * self.scale + self.shift, latents], axis=-1))
        logits = jax.nn.log_softmax(self.logits(features))
        means = self.means(features).reshape(*logits.shape, moved.shape[-1])
        squares = jnp.sum((moved[..., None, :] - means) ** 2, axis=-1)
        return jax.nn.logsumexp(logits - 0.5 * squares, axis=-1) - 0.5 * moved.shape[-1] * _LOG_2PI


class Model(eqx.Module):
    """The skill dynamics, the running statistics of their inputs and outputs, and the optimiser."""

    dynamics: SkillDynamics
    seen: Statistics
    moved: Statistics
    optimizer: optax.OptState


def dynamics_loss(dynamics: SkillDynamics, states: Array, moved: Array, latents: Array) -> tuple[Array, Info]:
    """-E[log q(d | s, z)] of normalised states and differences."""
    loss = -dynamics.log_prob(states, latents, moved).mean()
    return loss, {"model_loss": loss}


@partial(jax.jit, static_argnames="config")
def update(
    model: Model, states: Array, moved: Array, latents: Array, config: DADSConfig, decay: float
) -> tuple[Model, Info]:
    """A gradient step on each of the minibatches (steps, batch, ...), each normalised by its own statistics."""

    def step(model: Model, batch: tuple[Array, Array, Array]) -> tuple[Model, Info]:
        states, moved, latents = batch
        seen, differences = Statistics.of(states), Statistics.of(moved)
        grads, info = jax.grad(dynamics_loss, has_aux=True)(model.dynamics, seen(states), differences(moved), latents)
        dynamics, optimizer = adam.descend(config.learning_rate, model.dynamics, grads, model.optimizer, decay)
        rate = config.statistics_rate
        return Model(dynamics, model.seen.follow(seen, rate), model.moved.follow(differences, rate), optimizer), info

    model, infos = jax.lax.scan(step, model, (states, moved, latents))
    return model, jax.tree.map(jnp.mean, infos)


@partial(jax.jit, static_argnames=("prior", "config"))
def reward(
    model: Model, states: Array, moved: Array, latents: Array, key: Array, prior: Prior, config: DADSConfig
) -> Array:
    """log(L + 1) - log(1 + sum_i q(d | s, z_i) / q(d | s, z)): some transitions at a time, to stay in the cache."""
    seen, differences = model.seen(states), model.moved(moved)
    shape, count = latents.shape[:-1], config.prior_samples

    def one(x: tuple[Array, Array, Array, Array]) -> Array:
        state, moved, latent, key = x
        others = prior.sample(key, count)
        compared = jnp.concatenate([latent[None], others])
        state, moved = (jnp.broadcast_to(v, (count + 1, *v.shape)) for v in (state, moved))
        log_q = model.dynamics.log_prob(state, compared, moved)
        apart = jnp.clip(log_q[1:] - log_q[0], -_LIMIT, _LIMIT)
        return jnp.log(count + 1.0) - jnp.log1p(jnp.sum(jnp.exp(apart)))

    transitions = latents.size // latents.shape[-1]
    rows = [v.reshape(transitions, v.shape[-1]) for v in (seen, differences, latents)]
    keys = jax.random.split(key, transitions)
    return jax.lax.map(one, (*rows, keys), batch_size=max(1, _ROWS // (count + 1))).reshape(shape)


class DADSTrainer(SACDiscoveryTrainer):
    """SAC on the skill dynamics' reward."""

    title = "DADS"
    config: DADSConfig

    @property
    def _inputs(self) -> list[int]:
        """Which of the observed dimensions the dynamics start from: not those that the policy does not see."""
        dims = self.world.encoder_dims
        return [i for i, dim in enumerate(dims) if dim not in self.world.omitted]

    def _parts(self, observed: Observed) -> tuple[Array, Array, Array]:
        return observed.states[..., self._inputs], observed.next_states - observed.states, observed.latents

    def create_model(self, key: Array) -> Model:
        """Fresh dynamics."""
        config, outputs, inputs = self.config, len(self.world.encoder_dims), len(self._inputs)
        compared = 4 * config.prior_samples * (sum(config.hidden) + config.mixture * outputs)
        memory.check(compared, f"{config.prior_samples} compared latents", "choose a smaller --prior-samples")
        dynamics = SkillDynamics(inputs, outputs, config.latent_dim, config.mixture, config.hidden, key)
        optimizer = adam.start(config.learning_rate, dynamics)
        seen, moved = (Statistics(jnp.zeros(size), jnp.ones(size)) for size in (inputs, outputs))
        return Model(dynamics, seen, moved, optimizer)

    def update_model(self, model: Model, observed: Observed, decay: float) -> tuple[Model, Info]:
        """Train the skill dynamics."""
        return update(model, *self._parts(observed), self.config, decay)

    def reward(self, model: Model, observed: Observed, key: Array) -> Array:
        """How much better the step is predicted by its own latent than by others."""
        return reward(model, *self._parts(observed), key, self.prior, self.config)


METHOD = discovery_method(DADSConfig, DADSTrainer)
