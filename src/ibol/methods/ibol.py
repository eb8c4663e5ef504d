"""IBOL (paper, "Skill Discovery with Bottleneck Learning", Algorithm 2).

Trajectories of a sampling policy pi_s(g | s, u), u ~ N(0, I), are encoded into latents, z ~ p(z | s_0:T-1), from which
a skill policy pi_z(g | s, z) imitates the goals. All three are trained together on

    J = E[ mean_t log pi_z(g_t | s_t, z)  -  alpha mean_t log pi_s(g_t | s_t)  -  beta KL(p(z | s) || N(0, I))
           + lambda log p(u | s) ]

(imitation, marginal, compression, auxiliary), where pi_s(g | s) is the sampling policy with u integrated out, by L
samples of u. Encoder and skill policy follow the gradient of J; the sampling policy follows the policy gradient with J,
one number for each trajectory, as its return, or the gradient through its own goals and the states after them
(`pathwise`). The skill policy never acts while it is trained.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from jax import Array
from numpy.typing import NDArray

from ibol import memory
from ibol.bounds import Count, Natural, NonNegative
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import adam, sac
from ibol.learners.normalizer import omit
from ibol.learners.replay import Columns, Replay
from ibol.learners.rollout import Act, Trajectories
from ibol.methods.chosen_steps import evenly_spaced, one_of_each_part, taken
from ibol.methods.discovery import DiscoveryTrainer, discovery_method
from ibol.methods.pathwise import LinearDynamics, fit_dynamics, follow
from ibol.methods.policy_gradient import (
    PolicyGradientConfig,
    advantages,
    create_latent_policy,
    latent_policy,
    surrogate,
    time_mean,
)
from ibol.nn.distributions import ScaledBeta, gaussian_log_prob
from ibol.nn.networks import BetaPolicy, RecurrentBetaPolicy, TrajectoryEncoder
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator

_REFINED_AT_ONCE = 50  # gradient steps
_FINAL_RATE = 0.01  # of the learning rate is left at the last of the final steps


@dataclass(frozen=True)
class IBOLConfig(PolicyGradientConfig):
    """Settings of IBOL; the preset gives the defaults."""

    alpha: NonNegative = 1.0
    """Weight of the marginal term: the diversity of the sampling policy's goals."""
    beta: NonNegative = 1e-2
    """Weight of the compression term, the bottleneck."""
    lambda_: Annotated[NonNegative, tyro.conf.arg(name="lambda")] = 2.0
    """Weight of the auxiliary term, by which u can be inferred from the trajectory."""
    recent_epochs: Count = 1
    """Number of last epochs whose trajectories the encoder and the skill policy learn from, so that they do not overfit
    those of one epoch. The sampling policy learns from the last epoch alone."""
    final_steps: Natural = 0
    """Gradient steps of the encoder and the skill policy alone at the end of the last epoch, when the sampling policy
    no longer changes. Their learning rate starts again at its first value and decays linearly to a hundredth."""
    final_epochs: Count = 1
    """Number of last epochs whose trajectories these steps learn from."""
    latent_samples: Count = 16
    """Latents drawn for each trajectory in the imitation term."""
    marginal_samples: Count = 100
    """L, the samples of u that are averaged over in the marginal term."""
    marginal_steps: Natural = 0
    """Steps of each trajectory at which the marginal term is estimated, drawn at random; 0 takes all."""
    encoded_states: Natural = 0
    """States of a trajectory that the encoder sees, evenly spaced; 0 shows all. For trajectories without a linearizer,
    which have hundreds of states."""
    policy_steps: Natural = 0
    """Steps of each trajectory at which imitation, marginal and policy gradient are estimated: the trajectory is
    divided into this many equal parts, and in each epoch one step of each part is drawn at random; 0 takes all
    steps."""
    marginal_once: bool = False
    """Estimate the marginal term once in an epoch instead of at each gradient step."""
    use_u: bool = True
    """Let the sampling policy see u. Without u it has a memory of past states instead (the paper's ablation)."""
    pathwise: Literal["nothing", "goals", "states"] = "nothing"
    """Terms whose gradient reaches the sampling policy through its own reparameterised goals instead of by the policy
    gradient: 'goals' means imitation and marginal; 'states' also what depends on the states, by a linear model of their
    response to goals. Without u it is always nothing."""


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
    encoded: Array  # (B, N, k), normalised, for the encoder
    goals: Array  # (B, T, m)
    lengths: Array  # (B,), of the policies' steps
    encoded_lengths: Array  # (B,)
    weights: Array  # (B,), how many steps of the trajectory each of the policies' steps stands for
    u: Array  # (B, d)


class Terms(NamedTuple):
    """The terms of the objective for each trajectory, (B,)."""

    imitation: Array
    compression: Array
    auxiliary: Array


def sampling_distribution(policy: BetaPolicy | RecurrentBetaPolicy, batch: Batch) -> ScaledBeta:
    """pi_s(. | s_t, u), or without u pi_s(. | s_0:t), for (B, T) steps."""
    if isinstance(policy, RecurrentBetaPolicy):
        return policy(batch.states)
    return latent_policy(policy, batch.states, batch.u)


def objective(networks: Networks, batch: Batch, key: Array, config: IBOLConfig) -> tuple[Terms, Array]:
    """The terms that encoder and skill policy are trained on, and the latents (K, B, d) that they were taken at."""
    mean, std, compression, auxiliary = encode(networks.encoder, batch)
    latents = mean + std * jax.random.normal(key, (config.latent_samples, *mean.shape))
    return Terms(imitation(networks.skill, batch, latents), compression, auxiliary), latents


def encode(encoder: TrajectoryEncoder, batch: Batch) -> tuple[Array, Array, Array, Array]:
    """Mean and standard deviation of p(z | s), each (B, d), then compression and auxiliary, each (B,)."""
    mean, std = encoder(batch.encoded, batch.encoded_lengths)
    compression = 0.5 * jnp.sum(mean**2 + std**2 - 1 - 2 * jnp.log(std), axis=-1)
    return mean, std, compression, gaussian_log_prob(mean, std, batch.u)


def imitation(skill: BetaPolicy, batch: Batch, latents: Array) -> Array:
    """mean_t log pi_z(g_t | s_t, z), averaged over the latents (K, B, d): (B,)."""
    log_prob = latent_policy(skill, batch.states, latents).log_prob(batch.goals).mean(axis=0)
    return time_mean(log_prob, batch.lengths)


def marginal(policy: BetaPolicy | RecurrentBetaPolicy, batch: Batch, key: Array, config: IBOLConfig) -> Array:
    """mean_t log pi_s(g_t | s_t) with u integrated out, (B,): one trajectory after the other, to stay in the cache."""
    if isinstance(policy, RecurrentBetaPolicy):
        return time_mean(sampling_distribution(policy, batch).log_prob(batch.goals), batch.lengths)  # there is no u
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


def pathwise_gains(
    networks: Networks, batch: Batch, old: ScaledBeta, latents: Array, dynamics: LinearDynamics | None, key: Array,
    config: IBOLConfig,
) -> tuple[Array, Array]:  # fmt: skip
    """The parts of the objective, each (B,), that change with goals which move along with the sampling policy.

    Imitation and marginal change through the goals themselves, and with `pathwise = "states"` auxiliary and compression
    through the states after them; otherwise the second part is 0.
    """
    goals = sampling_distribution(networks.sampling, batch).transport(batch.goals, old)
    moved, fixed = batch._replace(goals=goals), jax.lax.stop_gradient(networks)
    through_goals = imitation(fixed.skill, moved, jax.lax.stop_gradient(latents))
    through_goals -= config.alpha * marginal(fixed.sampling, moved, key, config)
    if config.pathwise != "states" or dynamics is None:
        return through_goals, jnp.zeros_like(through_goals)
    after = batch._replace(encoded=follow(dynamics, batch.encoded, goals - batch.goals))
    *_, compression, auxiliary = encode(fixed.encoder, after)
    return through_goals, config.lambda_ * auxiliary - config.beta * compression


def losses(
    networks: Networks,
    batch: Batch,
    recent: Batch | None,
    marginal_term: Array,
    old: ScaledBeta,
    dynamics: LinearDynamics | None,
    key: Array,
    config: IBOLConfig,
) -> tuple[Array, dict[str, Array]]:
    """The loss of encoder and skill policy plus that of the sampling policy; neither reaches the other's networks.

    Encoder and skill policy learn from `recent` trajectories, or if there are none from the sampling policy's own.
    """
    latent_key, path_key, recent_key = jax.random.split(key, 3)
    terms, latents = objective(networks, batch, latent_key, config)
    returns = returns_of(terms, marginal_term, config)
    gain, scale = jnp.zeros(()), jnp.ones(())
    through = config.pathwise if config.use_u else "nothing"
    if through != "states":
        of_states = returns if through == "nothing" else returns - (terms.imitation - config.alpha * marginal_term)
        advantage, scale = advantages(of_states, batch.u, config)
        policy = sampling_distribution(networks.sampling, batch)
        gain += surrogate(policy, old, batch.goals, advantage * batch.weights, batch.lengths, config.clip)
    if through != "nothing":
        gain += jnp.mean(sum(pathwise_gains(networks, batch, old, latents, dynamics, path_key, config))) / scale
    learned = terms if recent is None else objective(networks, recent, recent_key, config)[0]
    skill_loss = -jnp.mean(skill_objective(learned, config))
    info = {
        "objective": returns.mean(),
        "objective_std": returns.std(),
        "imitation": terms.imitation.mean(),
        "marginal": marginal_term.mean(),
        "prediction": (terms.imitation - marginal_term).mean(),
        "compression": terms.compression.mean(),
        "auxiliary": terms.auxiliary.mean(),
    }
    return skill_loss - gain, info


@partial(jax.jit, static_argnames="config")
def update(
    state: State, batch: Batch, recent: Batch | None, key: Array, config: IBOLConfig, decay: float = 1.0
) -> tuple[State, dict[str, Array]]:
    """The gradient steps of an epoch, with `decay` times the learning rate; returns what the first of them saw.

    `recent`, if any, has trajectories for each of the steps: (steps, B, ...).
    """
    once_key, *keys = jax.random.split(key, config.gradient_steps + 1)
    old = sampling_distribution(state.networks.sampling, batch)
    seen = batch if recent is None else recent
    states_move = config.pathwise == "states"
    dynamics = fit_dynamics(seen.encoded, seen.goals, seen.lengths) if states_move else None
    once = marginal(state.networks.sampling, batch, once_key, config) if config.marginal_once else None

    def step(state: State, x: tuple[Array, Batch | None]) -> tuple[State, dict[str, Array]]:
        key, some = x
        term_key, marginal_key = jax.random.split(key)
        term = marginal(state.networks.sampling, batch, marginal_key, config) if once is None else once
        grads, info = jax.grad(losses, has_aux=True)(state.networks, batch, some, term, old, dynamics, term_key, config)
        return State(*adam.descend(config.learning_rate, state.networks, grads, state.optimizer, decay)), info

    state, infos = jax.lax.scan(step, state, (jnp.stack(keys), recent))
    return state, jax.tree.map(lambda values: values[0], infos)


@partial(jax.jit, static_argnames="config")
def refine(
    networks: Networks, optimizer: optax.OptState, batches: Batch, key: Array, decays: Array, config: IBOLConfig
) -> tuple[Networks, optax.OptState, dict[str, Array]]:
    """Gradient steps of encoder and skill policy alone, one on each of `batches` (steps, B, ...).

    Returns the networks, Adam's state of these two and what the last step saw.
    """

    def loss(learned: tuple[TrajectoryEncoder, BetaPolicy], batch: Batch, key: Array) -> tuple[Array, Terms]:
        terms, _ = objective(Networks(networks.sampling, *learned), batch, key, config)
        return -jnp.mean(skill_objective(terms, config)), terms

    def step(carry: Any, x: tuple[Batch, Array, Array]) -> tuple[Any, Terms]:
        learned, optimizer = carry
        batch, key, decay = x
        grads, terms = jax.grad(loss, has_aux=True)(learned, batch, key)
        return adam.descend(config.learning_rate, learned, grads, optimizer, decay), terms

    start = (networks.encoder, networks.skill), optimizer
    ((encoder, skill), optimizer), terms = jax.lax.scan(
        step, start, (batches, jax.random.split(key, len(decays)), decays)
    )
    info = {f"final_{name}": values[-1].mean() for name, values in terms._asdict().items()}
    return Networks(networks.sampling, encoder, skill), optimizer, info


class IBOLTrainer(DiscoveryTrainer):
    """Collects trajectories of the sampling policy, and learns; their latents are the u."""

    title = "IBOL"
    config: IBOLConfig

    def __init__(self, env: str, env_settings: EnvSettings, config: IBOLConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        goals = self.world.action_dim
        keys = jax.random.split(jax.random.key(derive(seed, "networks")), 3)
        make = partial(create_latent_policy, self.world.state_dim, goals, config)
        remembering = RecurrentBetaPolicy(self.world.state_dim, goals, config.hidden, keys[0])
        networks = Networks(
            sampling=make(keys[0]) if config.use_u else remembering,
            encoder=TrajectoryEncoder(len(self.world.encoder_dims), config.latent_dim, config.hidden, keys[1]),
            skill=make(keys[2]),
        )
        self.training = State(networks, adam.start(config.learning_rate, networks))
        states, steps = self.world.state_dim, self.world.horizon
        if config.marginal_steps > steps:
            raise IbolError(
                f"marginal_steps is {config.marginal_steps}, but an episode has {steps} steps of the policy: choose a "
                "smaller --marginal-steps or a longer --horizon"
            )
        if config.pathwise == "states" and (config.encoded_states or config.policy_steps):
            raise IbolError(
                "encoded_states and policy_steps leave steps out, but the gradient through states follows every step: "
                "give --pathwise goals (or nothing), or --encoded-states 0 --policy-steps 0"
            )
        if config.policy_steps and not config.use_u:
            raise IbolError(
                "policy_steps leave steps out, but without u the policy remembers all: give --policy-steps 0"
            )
        if config.policy_steps and config.marginal_steps > config.policy_steps:
            raise IbolError(
                f"marginal_steps is {config.marginal_steps}, but they are some of the {config.policy_steps} "
                "policy_steps: choose a smaller --marginal-steps"
            )
        seen = 4 * (config.policy_steps or steps) * sum(config.hidden)
        latents = config.latent_samples * config.episodes_per_epoch
        memory.check(latents * seen, f"{latents} imitated episodes", "choose a smaller --latent-samples")
        memory.check(config.marginal_samples * seen, "the marginal term", "choose a smaller --marginal-samples")
        columns = {"states": (steps + 1, states), "goals": (steps, goals), "lengths": (), "u": (config.latent_dim,)}
        self.kept_epochs = max(config.recent_epochs, config.final_epochs if config.final_steps else 1)
        kept = self.kept_epochs * config.episodes_per_epoch
        self.recent = Replay(kept, columns, "--recent-epochs or --final-epochs")

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
        config = self.config
        key = jax.random.key(derive(self.seed, "updates", epoch))
        columns, recent = columns_of(trajectories, latents), None
        if self.kept_epochs > 1:
            self.recent.add(columns)
        if config.recent_epochs > 1:
            recent = self._recent(config.gradient_steps, config.recent_epochs, generator(self.seed, "recent", epoch))
        batch = self.batch(columns, generator(self.seed, "policy steps", epoch))
        self.training, info = update(self.training, batch, recent, key, config, self.decay(epoch))
        if config.final_steps and epoch == self.epochs - 1:
            info |= self._refine(epoch)
        return {name: float(value) for name, value in info.items()}

    def _recent(self, steps: int, epochs: int, rng: np.random.Generator) -> Batch:
        """Trajectories of the last epochs at random, as many for each gradient step as an epoch has."""
        count = self.config.episodes_per_epoch
        return self.batch(self.recent.sample(rng, (steps, count), newest=epochs * count), rng)

    def _refine(self, epoch: int) -> dict[str, Array]:
        """The last steps of encoder and skill policy, some at a time to spare memory."""
        config, networks, info = self.config, self.training.networks, {}
        optimizer = adam.start(config.learning_rate, (networks.encoder, networks.skill))
        rng = generator(self.seed, "refinement", epoch)
        for first in range(0, config.final_steps, _REFINED_AT_ONCE):
            steps = np.arange(first, min(first + _REFINED_AT_ONCE, config.final_steps))
            decays = jnp.asarray(1 - (1 - _FINAL_RATE) * steps / config.final_steps, jnp.float32)
            batches = self._recent(len(steps), config.final_epochs, rng)
            key = jax.random.key(int(rng.integers(2**31)))
            networks, optimizer, info = refine(networks, optimizer, batches, key, decays, config)
        self.training = State(networks, self.training.optimizer)
        return info

    def batch(self, columns: Columns, rng: np.random.Generator) -> Batch:
        """What the networks see of trajectories (..., T + 1, n); not the last state, as in the authors' code."""
        config, horizon = self.config, self.world.horizon
        states, goals = self.normalizer(columns["states"][..., :-1, :]), columns["goals"]
        lengths = encoded_lengths = columns["lengths"].astype(int)
        encoded, weights = states[..., list(self.world.encoder_dims)], np.ones(lengths.shape, np.float32)
        seen = omit(states, self.world.omitted)
        if 0 < config.encoded_states < horizon:
            steps, encoded_lengths = evenly_spaced(lengths.ravel(), horizon, config.encoded_states)
            encoded_lengths = encoded_lengths.reshape(lengths.shape)
            encoded = taken(encoded, steps.reshape(*lengths.shape, -1))
        if 0 < config.policy_steps < horizon:
            count = config.policy_steps
            steps = one_of_each_part(lengths.ravel(), count, rng).reshape(*lengths.shape, count)
            seen, goals = taken(seen, steps), taken(goals, steps)
            weights, lengths = (lengths / count).astype(np.float32), np.full_like(lengths, count)
        return Batch(*map(jnp.asarray, (seen, encoded, goals, lengths, encoded_lengths, weights, columns["u"])))

    def learned(self) -> Arrays:
        """All that learns, and what it learns from."""
        recent = self.recent.state() if self.kept_epochs > 1 else {}
        return {**super().learned(), **{f"recent/{name}": values for name, values in recent.items()}}

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        super().restore_learned(arrays)
        if self.kept_epochs > 1:
            self.recent.restore({name[7:]: values for name, values in arrays.items() if name.startswith("recent/")})


def columns_of(trajectories: Trajectories, u: NDArray[np.float32]) -> Columns:
    """What is kept of trajectories, one row for each."""
    return {"states": trajectories.states, "goals": trajectories.actions, "lengths": trajectories.lengths, "u": u}


@jax.jit
def _sample_next(
    policy: RecurrentBetaPolicy, memory: tuple[Array, Array], states: Array, key: Array, step: int
) -> tuple[tuple[Array, Array], Array]:
    memory, distribution = policy.step(memory, states)
    return memory, distribution.sample(jax.random.fold_in(key, step))


METHOD = discovery_method(IBOLConfig, IBOLTrainer)
