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
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, epoch_weight, omit
from ibol.learners.rate import falling
from ibol.learners.rollout import Trajectories, collect
from ibol.methods.discovery import DiscoveryConfig, World, look
from ibol.nn.networks import BetaPolicy, RecurrentBetaPolicy, TrajectoryEncoder
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory
from ibol.seeding import derive, generator
from ibol.skills.policy import Skills, describe, skills_of

_LOG_2PI = float(np.log(2 * np.pi))


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


def time_mean(values: Array, lengths: Array) -> Array:
    """Means over each trajectory's valid steps, (B, T) to (B,)."""
    return jnp.sum(jnp.where(_valid(values, lengths), values, 0.0), axis=1) / lengths


def policy_log_prob(policy: BetaPolicy, states: Array, latents: Array, goals: Array) -> Array:
    """log pi(g | s, z) for (..., T) steps, each trajectory with its one latent (..., d)."""
    held = jnp.broadcast_to(latents[..., None, :], (*latents.shape[:-1], goals.shape[-2], latents.shape[-1]))
    seen = jnp.broadcast_to(states, (*held.shape[:-1], states.shape[-1]))
    return policy(jnp.concatenate([seen, held], axis=-1)).log_prob(goals)


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
    auxiliary = jnp.sum(-0.5 * ((batch.u - mean) / std) ** 2 - jnp.log(std) - 0.5 * _LOG_2PI, axis=-1)
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
    returns = jax.lax.stop_gradient(returns_of(terms, marginal_term, config))
    advantage = returns
    if config.normalize_advantage:
        advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
    log_prob = sampling_log_prob(networks.sampling, batch)  # (B, T)
    gain = log_prob * advantage[:, None]
    if config.clip:
        ratio = jnp.exp(log_prob - old_log_prob)
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        gain = jnp.minimum(ratio * advantage[:, None], clipped * advantage[:, None])
    sampling_loss = -jnp.mean(jnp.sum(jnp.where(_valid(gain, batch.lengths), gain, 0.0), axis=1))
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
    adam = optax.adam(config.learning_rate)
    once_key, *keys = jax.random.split(key, config.gradient_steps + 1)
    old_log_prob = sampling_log_prob(state.networks.sampling, batch)
    once = marginal(state.networks.sampling, batch, once_key, config) if config.marginal_once else None

    def step(state: State, key: Array) -> tuple[State, dict[str, Array]]:
        term_key, marginal_key = jax.random.split(key)
        term = marginal(state.networks.sampling, batch, marginal_key, config) if once is None else once
        grads, info = jax.grad(losses, has_aux=True)(state.networks, batch, term, old_log_prob, term_key, config)
        steps, optimizer = adam.update(grads, state.optimizer)
        steps = jax.tree.map(lambda step: rate * step, steps)
        return State(optax.apply_updates(state.networks, steps), optimizer), info

    state, infos = jax.lax.scan(step, state, jnp.stack(keys))
    return state, jax.tree.map(lambda values: values[0], infos)


class IBOLTrainer:
    """Collects trajectories of the sampling policy, and learns."""

    headline = ("objective", "evaluation/information", "evaluation/spread")

    def __init__(self, env: str, env_settings: EnvSettings, config: IBOLConfig, seed: int) -> None:
        self.config, self.seed, self.epochs = config, seed, config.epochs
        self.world = World(env, env_settings, config)
        self.normalizer = self.world.normalizer(seed)
        inputs, goals = self.world.state_dim + config.latent_dim, self.world.action_dim
        keys = jax.random.split(jax.random.key(derive(seed, "networks")), 3)
        remembering = RecurrentBetaPolicy(self.world.state_dim, goals, config.hidden, keys[0])
        networks = Networks(
            sampling=BetaPolicy(inputs, goals, config.hidden, keys[0]) if config.use_u else remembering,
            encoder=TrajectoryEncoder(len(self.world.encoder_dims), config.latent_dim, config.hidden, keys[1]),
            skill=BetaPolicy(inputs, goals, config.hidden, keys[2]),
        )
        optimizer = optax.adam(config.learning_rate).init(eqx.filter(networks, eqx.is_array))
        self.learned = State(networks, optimizer)
        self.env_steps = 0
        self.directory: Path | None = None

    def skills(self) -> Skills:
        """What has been learned so far."""
        skill = self.learned.networks.skill
        return Skills(self.world.describe_skills(), skill, self.normalizer, self.world.linearizer)

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """Collect one episode for each of a batch of u, then learn."""
        config = self.config
        shape = (config.episodes_per_epoch, config.latent_dim)
        u = generator(self.seed, "u", epoch).standard_normal(shape).astype(np.float32)
        trajectories = self._explore(u, epoch)
        key = jax.random.key(derive(self.seed, "updates", epoch))
        rate = falling(config.final_learning_rate, epoch, config.epochs)
        self.learned, info = update_epoch(self.learned, self._batch(trajectories, u), key, config, rate)
        if config.normalizer == "ema":
            visited = np.arange(trajectories.states.shape[1]) <= trajectories.lengths[:, None]
            states = trajectories.states[visited]
            self.normalizer.update(states, epoch_weight(len(states)))
        steps = trajectories.num_steps * self.skills().macro_length
        self.env_steps += steps
        metrics = {
            "env_steps": self.env_steps,
            "episode_length": float(trajectories.lengths.mean()),
            **{name: float(value) for name, value in info.items()},
            "epoch_env_steps": steps,
        }
        last = epoch + 1 == self.epochs
        if config.evaluate_every and (last or (epoch + 1) % config.evaluate_every == 0):
            metrics |= self._look(epoch)
        return metrics

    def _explore(self, u: NDArray[np.float32], epoch: int) -> Trajectories:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        policy = self.learned.networks.sampling
        memory = policy.start(len(u)) if isinstance(policy, RecurrentBetaPolicy) else None

        def act(states: NDArray[np.float32], step: int) -> Array:
            nonlocal memory
            seen = omit(self.normalizer(states), self.world.omitted)
            if memory is None:
                return sac.sample_actions(policy, np.concatenate([seen, u], axis=-1), key, step)
            memory, goals = _sample_next(policy, memory, seen, key, step)
            return goals

        return collect(self.world.env, act, seed=derive(self.seed, "episodes", epoch))

    def _batch(self, trajectories: Trajectories, u: NDArray[np.float32]) -> Batch:
        """The encoder does not see the last state, as in the authors' code."""
        states = self.normalizer(trajectories.states[:, :-1])
        return Batch(
            states=jnp.asarray(omit(states, self.world.omitted)),
            encoded=jnp.asarray(states[..., list(self.world.encoder_dims)]),
            goals=jnp.asarray(trajectories.actions),
            lengths=jnp.asarray(trajectories.lengths),
            u=jnp.asarray(u),
        )

    def _look(self, epoch: int) -> dict[str, float]:
        picture = None if self.directory is None else self.directory / "pictures" / f"epoch-{epoch + 1:06d}.png"
        found = look(
            self.skills(),
            trajectories=self.config.evaluation_trajectories,
            seed=derive(self.seed, "evaluation", epoch),
            picture=picture,
            title=f"IBOL on {self.world.name} after {epoch + 1} epochs",
        )
        return {f"evaluation/{name}": value for name, value in found.items()}

    def keep(self, directory: Path) -> None:
        """Put the linearizer into the run, and the pictures."""
        self.directory = directory
        (directory / "pictures").mkdir(exist_ok=True)
        self.world.keep(directory)

    def describe(self) -> dict[str, Any]:
        """What kind of skills they are."""
        return describe(self.world.describe_skills())

    def state(self) -> Arrays:
        """Networks, optimisers, normaliser and counters; the skill policy under the name that `load_skills` knows."""
        networks = self.learned.networks
        return {
            **checkpoint.flatten(networks.skill, "skills/"),
            **checkpoint.flatten((networks.sampling, networks.encoder), "training/"),
            **checkpoint.flatten(self.learned.optimizer, "optimizer/"),
            **self.normalizer.state(),
            "env_steps": np.array(self.env_steps),
        }

    def restore(self, arrays: Arrays) -> None:
        """Continue from a saved state."""
        networks = self.learned.networks
        sampling, encoder = checkpoint.unflatten((networks.sampling, networks.encoder), arrays, "training/")
        skill = checkpoint.unflatten(networks.skill, arrays, "skills/")
        optimizer = checkpoint.unflatten(self.learned.optimizer, arrays, "optimizer/")
        self.learned = State(Networks(sampling, encoder, skill), optimizer)
        self.normalizer = Normalizer.from_state(arrays)
        self.env_steps = int(arrays["env_steps"])

    def checkpoint_bytes(self) -> int:
        """Networks and optimisers."""
        return sum(value.nbytes for value in self.state().values())


def create_trainer(env: str, env_settings: EnvSettings, config: IBOLConfig, seed: int) -> IBOLTrainer:
    """A trainer at epoch 0."""
    return IBOLTrainer(env, env_settings, config, seed)


def load_policy(run: RunDirectory) -> Skills:
    """The skills of the run's newest good checkpoint."""
    return skills_of(run)


@jax.jit
def _sample_next(
    policy: RecurrentBetaPolicy, memory: tuple[Array, Array], states: Array, key: Array, step: int
) -> tuple[tuple[Array, Array], Array]:
    memory, distribution = policy.step(memory, states)
    return memory, distribution.sample(jax.random.fold_in(key, step))


def _valid(values: Array, lengths: Array) -> Array:
    return jnp.arange(values.shape[1]) < lengths[:, None]
