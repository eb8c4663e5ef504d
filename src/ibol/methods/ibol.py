"""IBOL (paper, "Skill Discovery with Bottleneck Learning", Algorithm 2).

Trajectories of a sampling policy pi_s(g | s, u), u ~ N(0, I), are encoded into latents, z ~ p(z | s_0:T-1), from which
a skill policy pi_z(g | s, z) imitates the goals. All three are trained together on

    J = E[ mean_t log pi_z(g_t | s_t, z)  -  alpha mean_t log pi_s(g_t | s_t)  -  beta KL(p(z | s) || N(0, I))
           + lambda log p(u | s) ]

(imitation, marginal, compression, auxiliary), where pi_s(g | s) is the sampling policy with u integrated out, by L
samples of u. Encoder and skill policy follow the gradient of J; the sampling policy follows the policy gradient with J,
one number for each trajectory, as its return. The skill policy never acts while it is trained.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from ibol.envs.settings import EnvSettings
from ibol.learners import adam, sac
from ibol.learners.normalizer import omit
from ibol.learners.rollout import Act, Trajectories
from ibol.methods.discovery import DiscoveryConfig, DiscoveryTrainer
from ibol.methods.policy_gradient import policy_log_prob, surrogate, time_mean
from ibol.nn.distributions import gaussian_log_prob
from ibol.nn.networks import BetaPolicy, RecurrentBetaPolicy, TrajectoryEncoder
from ibol.seeding import derive
from ibol.skills.policy import skills_of


@dataclass(frozen=True)
class IBOLConfig(DiscoveryConfig):
    """Settings of IBOL; the preset gives the defaults."""

    alpha: float = 1.0
    """Weight of the marginal term: how varied the sampling policy's goals are."""
    beta: float = 1e-2
    """Weight of the compression term, the bottleneck."""
    lambda_: float = 2.0
    """Weight of the auxiliary term, which ties the latent to the sampling policy's u."""
    gradient_steps: int = 4
    """Gradient steps in each epoch, all on the whole epoch."""
    latent_samples: int = 16
    """Latents drawn for each trajectory in the imitation term."""
    marginal_samples: int = 100
    """L, the samples of u that are averaged over in the marginal term."""
    marginal_steps: int = 0
    """Steps of each trajectory at which the marginal term is estimated, drawn at random; 0 takes all."""
    marginal_once: bool = False
    """Estimate the marginal term once in an epoch instead of at each gradient step."""
    normalize_advantage: bool = False
    """Subtract the mean of the epoch's returns and divide by their standard deviation."""
    use_u: bool = True
    """Let the sampling policy see u; otherwise it remembers its states instead (the paper's ablation without u)."""
    clip: float = 0.0
    """Clip the sampling policy's probability ratios to 1 +- this (PPO); 0 is the plain policy gradient."""


CONFIG = IBOLConfig


class Networks(eqx.Module):
    """The three networks."""

    sampling: BetaPolicy | RecurrentBetaPolicy
    encoder: TrajectoryEncoder
    skill: BetaPolicy


class State(eqx.Module):
    """Everything that learns."""

    networks: Networks
    optimizer: optax.OptState


class Batch(NamedTuple):
    """An epoch's trajectories as the networks see them."""

    states: Array  # (B, T, n), normalised, for the policies
    encoded: Array  # (B, T, k), normalised, for the encoder
    goals: Array  # (B, T, m)
    lengths: Array  # (B,)
    u: Array  # (B, d)


class Terms(NamedTuple):
    """The terms of the objective for each trajectory, (B,)."""

    imitation: Array
    compression: Array
    auxiliary: Array


def sampling_log_prob(policy: BetaPolicy | RecurrentBetaPolicy, batch: Batch) -> Array:
    """log pi_s(g_t | s_t, u), or without u log pi_s(g_t | s_0:t): (B, T)."""
    if isinstance(policy, RecurrentBetaPolicy):
        return policy(batch.states).log_prob(batch.goals)
    return policy_log_prob(policy, batch.states, batch.u, batch.goals)


def objective(networks: Networks, batch: Batch, key: Array, config: IBOLConfig) -> Terms:
    """The terms that encoder and skill policy are trained on."""
    mean, std = networks.encoder(batch.encoded, batch.lengths)
    noise = jax.random.normal(key, (config.latent_samples, *mean.shape))
    imitation = policy_log_prob(networks.skill, batch.states, mean + std * noise, batch.goals).mean(axis=0)
    compression = 0.5 * jnp.sum(mean**2 + std**2 - 1 - 2 * jnp.log(std), axis=-1)
    auxiliary = gaussian_log_prob(mean, std, batch.u)
    return Terms(time_mean(imitation, batch.lengths), compression, auxiliary)


def marginal(policy: BetaPolicy | RecurrentBetaPolicy, batch: Batch, key: Array, config: IBOLConfig) -> Array:
    """mean_t log pi_s(g_t | s_t) with u integrated out, (B,): one trajectory after the other, to stay in the cache."""
    if isinstance(policy, RecurrentBetaPolicy):
        return time_mean(sampling_log_prob(policy, batch), batch.lengths)  # there is no u
    count, steps = config.marginal_samples, config.marginal_steps

    def one(x: tuple[Array, Array, Array, Array]) -> Array:
        states, goals, length, key = x
        u_key, step_key = jax.random.split(key)
        if steps:
            chosen = jnp.floor(jax.random.uniform(step_key, (steps,)) * length).astype(int)
            states, goals, length = states[chosen], goals[chosen], jnp.full_like(length, steps)
        u = jax.random.normal(u_key, (*states.shape[:-1], count, batch.u.shape[-1]))
        seen = jnp.broadcast_to(states[:, None], (*u.shape[:-1], states.shape[-1]))
        log_prob = policy(jnp.concatenate([seen, u], axis=-1)).log_prob(goals[:, None])  # (T, L)
        average = jax.nn.logsumexp(log_prob, axis=1) - jnp.log(count)
        return time_mean(average[None], length[None])[0]

    return jax.lax.map(one, (batch.states, batch.goals, batch.lengths, jax.random.split(key, len(batch.u))))


def returns_of(terms: Terms, marginal_term: Array, config: IBOLConfig) -> Array:
    """The objective for each trajectory, the return of the sampling policy: (B,)."""
    return skill_objective(terms, config) - config.alpha * marginal_term


def skill_objective(terms: Terms, config: IBOLConfig) -> Array:
    """The part of the objective that encoder and skill policy can change: (B,)."""
    auxiliary = config.lambda_ * terms.auxiliary if config.use_u else 0.0
    return terms.imitation - config.beta * terms.compression + auxiliary


def losses(
    networks: Networks, batch: Batch, marginal_term: Array, old_log_prob: Array, key: Array, config: IBOLConfig
) -> tuple[Array, dict[str, Array]]:
    """The loss of encoder and skill policy plus that of the sampling policy; neither reaches the other's networks."""
    terms = objective(networks, batch, key, config)
    returns = returns_of(terms, marginal_term, config)
    log_prob = sampling_log_prob(networks.sampling, batch)  # (B, T)
    sampling_loss = -surrogate(
        log_prob, old_log_prob, returns, batch.lengths, normalize=config.normalize_advantage, clip=config.clip
    )
    skill_loss = -jnp.mean(skill_objective(terms, config))
    info = {
        "objective": returns.mean(),
        "objective_std": returns.std(),
        "imitation": terms.imitation.mean(),
        "marginal": marginal_term.mean(),
        "prediction": (terms.imitation - marginal_term).mean(),
        "compression": terms.compression.mean(),
        "auxiliary": terms.auxiliary.mean(),
    }
    return sampling_loss + skill_loss, info


@partial(jax.jit, static_argnames="config")
def update_epoch(
    state: State, batch: Batch, key: Array, config: IBOLConfig, rate: float = 1.0
) -> tuple[State, dict[str, Array]]:
    """The gradient steps of an epoch, with `rate` times the learning rate; returns what the first of them saw."""
    once_key, *keys = jax.random.split(key, config.gradient_steps + 1)
    old_log_prob = sampling_log_prob(state.networks.sampling, batch)
    once = marginal(state.networks.sampling, batch, once_key, config) if config.marginal_once else None

    def step(state: State, key: Array) -> tuple[State, dict[str, Array]]:
        term_key, marginal_key = jax.random.split(key)
        term = marginal(state.networks.sampling, batch, marginal_key, config) if once is None else once
        grads, info = jax.grad(losses, has_aux=True)(state.networks, batch, term, old_log_prob, term_key, config)
        return State(*adam.descend(config.learning_rate, state.networks, grads, state.optimizer, rate)), info

    state, infos = jax.lax.scan(step, state, jnp.stack(keys))
    return state, jax.tree.map(lambda values: values[0], infos)


class IBOLTrainer(DiscoveryTrainer):
    """Collects trajectories of the sampling policy, and learns; their latents are the u."""

    title = "IBOL"
    config: IBOLConfig

    def __init__(self, env: str, env_settings: EnvSettings, config: IBOLConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        inputs, goals = self.world.state_dim + config.latent_dim, self.world.action_dim
        keys = jax.random.split(jax.random.key(derive(seed, "networks")), 3)
        make = partial(BetaPolicy, inputs, goals, config.hidden, layer_norm=config.layer_norm)
        remembering = RecurrentBetaPolicy(self.world.state_dim, goals, config.hidden, keys[0])
        networks = Networks(
            sampling=make(key=keys[0]) if config.use_u else remembering,
            encoder=TrajectoryEncoder(len(self.world.encoder_dims), config.latent_dim, config.hidden, keys[1]),
            skill=make(key=keys[2]),
        )
        self.training = State(networks, adam.start(config.learning_rate, networks))

    @property
    def skill_policy(self) -> BetaPolicy:
        """The skill policy as it is now."""
        return self.training.networks.skill

    def behaviour(self, latents: NDArray[np.float32], key: Array) -> Act:
        """Samples of the sampling policy; without u it remembers its states instead."""
        policy = self.training.networks.sampling
        memory = policy.start(len(latents)) if isinstance(policy, RecurrentBetaPolicy) else None

        def act(states: NDArray[np.float32], step: int) -> Array:
            nonlocal memory
            if not isinstance(policy, RecurrentBetaPolicy) or memory is None:
                return sac.sample_actions(policy, self.inputs(states, latents), key, step)
            seen = omit(self.normalizer(states), self.world.omitted)
            memory, goals = _sample_next(policy, memory, seen, key, step)
            return goals

        return act

    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """The gradient steps of an epoch."""
        key = jax.random.key(derive(self.seed, "updates", epoch))
        rate = adam.falling(self.config.final_learning_rate, epoch, self.epochs)
        batch = self.batch(trajectories, latents)
        self.training, info = update_epoch(self.training, batch, key, self.config, rate)
        return {name: float(value) for name, value in info.items()}

    def batch(self, trajectories: Trajectories, latents: NDArray[np.float32]) -> Batch:
        """What the networks see; not the last state, as in the authors' code."""
        states = self.normalizer(trajectories.states[:, :-1])
        return Batch(
            states=jnp.asarray(omit(states, self.world.omitted)),
            encoded=jnp.asarray(states[..., list(self.world.encoder_dims)]),
            goals=jnp.asarray(trajectories.actions),
            lengths=jnp.asarray(trajectories.lengths),
            u=jnp.asarray(latents),
        )


create_trainer, load_policy = IBOLTrainer, skills_of


@jax.jit
def _sample_next(
    policy: RecurrentBetaPolicy, memory: tuple[Array, Array], states: Array, key: Array, step: int
) -> tuple[tuple[Array, Array], Array]:
    memory, distribution = policy.step(memory, states)
    return memory, distribution.sample(jax.random.fold_in(key, step))
