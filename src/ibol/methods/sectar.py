"""SeCTAR ("Self-Consistent Trajectory Autoencoder"), with whole episodes as its segments as in the paper's comparison.

A variational autoencoder describes trajectories of an explorer pi_ex(a | s). An encoder q(z | s_0:T) infers the latent,
a state decoder p(s_1:T | s_0, z) predicts the states from it, and a policy decoder pi(a | s, z), the skill policy,
imitates the actions. With NLL = -mean_t log p(s_t | s_0, z), KL = KL(q(z | s_0:T) || N(0, I)) and z ~ q they minimise

    NLL  +  kl_weight KL  -  cloning_weight mean_t log pi(a_t | s_t, z).

Two policies are trained by PPO: the policy decoder, with z ~ N(0, I), to visit what the state decoder predicts
(self-consistency), and the explorer, to end in trajectories that the autoencoder does not describe well yet:

    r_t = log p(s_t+1 | s_0, z),        explorer:  r_T-1 = NLL + KL,  and 0 before.

An epoch's episodes are those of the explorer and, with the share `consistency_share`, those of the policy decoder.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from ibol import memory
from ibol.bounds import Count, Counts, Fraction, Natural, NonNegative, Positive
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import adam, sac
from ibol.learners.normalizer import omit
from ibol.learners.replay import Columns, Replay
from ibol.learners.rollout import Act, Trajectories
from ibol.methods.discovery import DiscoveryTrainer, discovery_method, initialized
from ibol.methods.policy_gradient import (
    PolicyGradientConfig,
    create_latent_policy,
    latent_policy,
    quadratic_fit,
    surrogate,
    time_mean,
    time_sum,
)
from ibol.methods.valor import evenly_spaced
from ibol.nn.distributions import ScaledBeta, gaussian_log_prob
from ibol.nn.networks import MLP, BetaPolicy, TrajectoryEncoder, lstm_cell
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator

Info = dict[str, Array]


@dataclass(frozen=True)
class SeCTARConfig(PolicyGradientConfig):
    """Settings of SeCTAR; the preset gives the defaults. `gradient_steps`, `baseline`, `normalize_advantage` and `clip`
    are those of both policies' PPO; the learning rate is the autoencoder's."""

    consistency_share: Fraction = 0.3
    """Fraction of an epoch's episodes that the policy decoder makes for its self-consistency; the explorer makes the
    others."""
    kl_weight: NonNegative = 2.0
    """Weight of the KL divergence in the autoencoder's loss."""
    cloning_weight: NonNegative = 100.0
    """Weight of behaviour cloning in the autoencoder's loss."""
    initial_std: Positive = 0.1
    """Initial standard deviation of the state decoder above its floor, in normalised states."""
    std_floor: Positive = 0.05
    """Smallest standard deviation of the state decoder, in normalised states: without it the explorer's reward
    drifts."""
    model_hidden: Counts = (256, 128, 128)
    """Widths of the MLPs of encoder and state decoder; the first is that of their LSTMs, too."""
    model_steps: Count = 30
    """Gradient steps of the autoencoder in each epoch."""
    batch_size: Count = 300
    """Trajectories in each of these steps, from the replay buffer."""
    replay_size: Count = 20_000
    """Trajectories of the explorer in the replay buffer."""
    policy_learning_rate: Positive = 3e-4
    """Adam's learning rate for PPO."""
    discount: Fraction = 0.99
    """gamma of PPO."""
    gae: Fraction = 0.95
    """tau of PPO: without a value function returns are discounted by gamma tau."""
    entropy_weight: NonNegative = 1e-3
    """Weight of the entropy of the explorer's actions."""
    noise_hold: Natural = 1
    """Steps (on a linearizer macro steps) for which the explorer's noise is held: with 1 each step has its own noise,
    with 0 an episode has one."""
    encoded_states: Natural = 21
    """Without a linearizer: states of a trajectory that the autoencoder sees, evenly spaced, with the first and the
    last; 0 shows all. On a linearizer it always sees all."""


class StateDecoder(eqx.Module):
    """p(s_1:T | s_0, z): an LSTM that continues its own mean, then an MLP; a standard deviation for each dimension."""

    cell: eqx.nn.LSTMCell
    mean: MLP
    log_std: Array
    floor: float = eqx.field(static=True)

    def __init__(self, states: int, latents: int, config: SeCTARConfig, key: Array) -> None:
        cell_key, mean_key = jax.random.split(key)
        hidden = config.model_hidden
        self.cell = lstm_cell(states + latents, hidden[0], cell_key)
        self.mean = MLP(hidden[0], states, hidden, jax.nn.relu, "xavier_uniform", mean_key)
        self.log_std = jnp.full(states, jnp.log(config.initial_std), jnp.float32)
        self.floor = config.std_floor

    @property
    def std(self) -> Array:
        """The standard deviations (k,), never below the floor."""
        return self.floor + jnp.exp(self.log_std)

    def __call__(self, start: Array, latents: Array, steps: int) -> Array:
        """The predicted means (B, T, k) of s_1 ... s_T, from s_0 (B, k) and latents (B, d)."""

        def step(carry: Any, _: None) -> tuple[Any, Array]:
            state, remembered = carry
            remembered = jax.vmap(self.cell)(jnp.concatenate([state, latents], axis=-1), remembered)
            state = self.mean(remembered[0])
            return (state, remembered), state

        zero = jnp.zeros((len(start), self.cell.hidden_size))
        return jax.lax.scan(step, (start, (zero, zero)), length=steps)[1].swapaxes(0, 1)


class Autoencoder(eqx.Module):
    """What learns from the explorer's trajectories."""

    encoder: TrajectoryEncoder
    states: StateDecoder
    skill: BetaPolicy


class State(eqx.Module):
    """Everything that learns; the skill policy has two optimisers, as in the official code."""

    model: Autoencoder
    explorer: BetaPolicy
    model_optimizer: optax.OptState
    skill_optimizer: optax.OptState
    explorer_optimizer: optax.OptState


class Batch(NamedTuple):
    """Trajectories as the networks see them."""

    states: Array  # (B, T, n), normalised s_0 ... s_T-1 for the policies
    actions: Array  # (B, T, m)
    lengths: Array  # (B,)
    encoded: Array  # (B, N, k), normalised, those of s_0 ... s_T that the autoencoder sees
    encoded_lengths: Array  # (B,)
    reached: Array  # (B, N - 1), the steps that led to encoded[:, 1:]


class Terms(NamedTuple):
    """The terms of the autoencoder's loss for each trajectory, (B,)."""

    nll: Array
    kl: Array
    cloning: Array


def likelihoods(decoder: StateDecoder, encoded: Array, latents: Array) -> Array:
    """log p(s_t | s_0, z) of s_1 ... s_N-1 in (B, N, k), each summed over dimensions: (B, N - 1)."""
    predicted = decoder(encoded[:, 0], latents, encoded.shape[1] - 1)
    return gaussian_log_prob(predicted, decoder.std, encoded[:, 1:])


def terms_of(model: Autoencoder, batch: Batch, key: Array) -> Terms:
    """The three terms, at one latent for each trajectory."""
    mean, std = model.encoder(batch.encoded, batch.encoded_lengths)
    latents = mean + std * jax.random.normal(key, mean.shape)
    nll = -time_mean(likelihoods(model.states, batch.encoded, latents), batch.encoded_lengths - 1)
    kl = 0.5 * jnp.sum(mean**2 + std**2 - 1 - 2 * jnp.log(std), axis=-1)
    imitated = latent_policy(model.skill, batch.states, latents).log_prob(batch.actions)
    return Terms(nll, kl, -time_mean(imitated, batch.lengths))


def model_loss(model: Autoencoder, batch: Batch, key: Array, config: SeCTARConfig) -> tuple[Array, Info]:
    """E[NLL + kl_weight KL + cloning_weight BC]."""
    nll, kl, cloning = terms_of(model, batch, key)
    loss = jnp.mean(nll + config.kl_weight * kl + config.cloning_weight * cloning)
    return loss, {"model_loss": loss, "nll": nll.mean(), "kl": kl.mean(), "cloning": cloning.mean()}


@jax.jit
def explorer_rewards(model: Autoencoder, batch: Batch, key: Array) -> Array:
    """The negative ELBO, NLL + KL, at each trajectory's last step: (B, T)."""
    nll, kl, _ = terms_of(model, batch, key)
    last = jnp.arange(batch.actions.shape[1]) == batch.lengths[:, None] - 1
    return jnp.where(last, (nll + kl)[:, None], 0.0)


@jax.jit
def consistency_rewards(decoder: StateDecoder, batch: Batch, latents: Array) -> tuple[Array, Info]:
    """log p(s_t+1 | s_0, z) at each step that led to a state which the autoencoder sees: (B, T)."""
    rewards, count = likelihoods(decoder, batch.encoded, latents), batch.encoded_lengths - 1
    valid = jnp.arange(rewards.shape[1]) < count[:, None]
    rows = jnp.arange(len(rewards))[:, None]
    placed = jnp.zeros(batch.actions.shape[:2]).at[rows, batch.reached].add(jnp.where(valid, rewards, 0.0))
    return placed, {"consistency": time_mean(rewards, count).mean()}


def discounted_returns(rewards: Array, factor: float) -> Array:
    """sum_k factor^k r_t+k along (B, T)."""

    def step(later: Array, reward: Array) -> tuple[Array, Array]:
        now = reward + factor * later
        return now, now

    return jax.lax.scan(step, jnp.zeros(len(rewards)), rewards.T, reverse=True)[1].T


def step_advantages(returns: Array, latents: Array, lengths: Array, config: PolicyGradientConfig) -> Array:
    """Returns (B, T) less what step and latent alone let expect, standardised over all valid steps."""
    if config.baseline:
        returns = returns - quadratic_fit(returns, latents)
    if not config.normalize_advantage:
        return returns
    mean = time_sum(returns, lengths).sum() / lengths.sum()
    variance = time_sum((returns - mean) ** 2, lengths).sum() / lengths.sum()
    return (returns - mean) / (jnp.sqrt(variance) + 1e-8)


def policy_loss(
    policy: BetaPolicy, old: ScaledBeta, batch: Batch, latents: Array, advantage: Array, entropy_weight: float,
    clip: float,
) -> tuple[Array, Info]:  # fmt: skip
    """PPO's clipped loss and the entropy bonus, summed over steps."""
    policy_now = latent_policy(policy, batch.states, latents)
    gain = surrogate(policy_now, old, batch.actions, advantage, batch.lengths, clip)
    entropy = policy_now.entropy() if entropy_weight else jnp.zeros(batch.actions.shape[:2])  # it is slow
    bonus = entropy_weight * time_sum(entropy, batch.lengths).mean()
    return -gain - bonus, {"entropy": time_mean(entropy, batch.lengths).mean()}


@partial(jax.jit, static_argnames=("config", "entropy_weight"))
def improve(
    policy: BetaPolicy, optimizer: optax.OptState, batch: Batch, latents: Array, rewards: Array, config: SeCTARConfig,
    entropy_weight: float, decay: float,
) -> tuple[BetaPolicy, optax.OptState, Info]:  # fmt: skip
    """PPO on an epoch's episodes (B, T) with their latents (B, d), d = 0 for the explorer."""
    old = latent_policy(policy, batch.states, latents)
    returns = discounted_returns(rewards, config.discount * config.gae)
    advantage = step_advantages(returns, latents, batch.lengths, config)

    def step(carry: Any, _: None) -> tuple[Any, Info]:
        policy, optimizer = carry
        loss = jax.grad(policy_loss, has_aux=True)
        grads, info = loss(policy, old, batch, latents, advantage, entropy_weight, config.clip)
        return adam.descend(config.policy_learning_rate, policy, grads, optimizer, decay), info

    (policy, optimizer), infos = jax.lax.scan(step, (policy, optimizer), length=config.gradient_steps)
    return policy, optimizer, jax.tree.map(lambda values: values[0], infos)


@partial(jax.jit, static_argnames="config")
def update_model(
    model: Autoencoder, optimizer: optax.OptState, batches: Batch, key: Array, config: SeCTARConfig, decay: float
) -> tuple[Autoencoder, optax.OptState, Info]:
    """A gradient step of the autoencoder on each of the minibatches (steps, B, ...)."""

    def step(carry: Any, x: tuple[Batch, Array]) -> tuple[Any, Info]:
        model, optimizer = carry
        grads, info = jax.grad(model_loss, has_aux=True)(model, *x, config)
        return adam.descend(config.learning_rate, model, grads, optimizer, decay), info

    keys = jax.random.split(key, len(batches.lengths))
    (model, optimizer), infos = jax.lax.scan(step, (model, optimizer), (batches, keys))
    return model, optimizer, jax.tree.map(jnp.mean, infos) | {"decoder_std": model.states.std.mean()}


class SeCTARTrainer(DiscoveryTrainer):
    """Collects trajectories of the explorer and of the policy decoder, and learns."""

    title = "SeCTAR"
    config: SeCTARConfig
    headline = ("consistency", "evaluation/information", "evaluation/spread")

    def __init__(self, env: str, env_settings: EnvSettings, config: SeCTARConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        episodes, world, encoded = config.episodes_per_epoch, self.world, len(self.world.encoder_dims)
        if episodes < 2:
            raise IbolError("SeCTAR needs 2 episodes: one of the explorer and one of the policy decoder")
        self.explored = episodes - min(max(round(config.consistency_share * episodes), 1), episodes - 1)
        columns = {"states": (world.horizon + 1, world.state_dim), "actions": (world.horizon, world.action_dim)}
        self.replay = Replay(config.replay_size, {**columns, "lengths": ()})
        sampled, row = config.model_steps * config.batch_size, self.replay.num_bytes() // config.replay_size
        memory.check(3 * sampled * row, f"{sampled} samples", "choose a smaller --batch-size or --model-steps")
        keys = jax.random.split(jax.random.key(derive(seed, "networks")), 4)
        explorer = BetaPolicy(world.state_dim, world.action_dim, config.hidden, keys[3], config.layer_norm)
        explorer = initialized(explorer, world.state_dim, config)
        model = Autoencoder(
            encoder=TrajectoryEncoder(encoded, config.latent_dim, config.model_hidden, keys[0], mean_scale=1.0),
            states=StateDecoder(encoded, config.latent_dim, config, keys[1]),
            skill=create_latent_policy(world.state_dim, world.action_dim, config, keys[2]),
        )
        rate = config.policy_learning_rate
        optimizers = adam.start(config.learning_rate, model), adam.start(rate, model.skill), adam.start(rate, explorer)
        self.training = State(model, explorer, *optimizers)

    @property
    def skill_policy(self) -> BetaPolicy:
        """The policy decoder as it is now."""
        return self.training.model.skill

    def behaviour(self, latents: NDArray[np.float32], key: Array) -> Act:
        """Samples of the explorer in the first episodes, of the policy decoder in the others."""
        count, hold = self.explored, self.config.noise_hold
        blind = self.world.state_dim  # the explorer has no latent
        explorer_key, skill_key = jax.random.split(key)
        explorer, skill = self.training.explorer, self.skill_policy

        def act(states: NDArray[np.float32], step: int) -> NDArray[np.float32]:
            seen = self.inputs(states, latents)
            exploring = sac.sample_actions(explorer, seen[:count, :blind], explorer_key, step // hold if hold else 0)
            following = sac.sample_actions(skill, seen[count:], skill_key, step)
            return np.concatenate([exploring, following])

        return act

    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """Both policies by PPO on the autoencoder as it was while they acted, then the autoencoder.

        In the first epoch there is no autoencoder to learn from, and both policies rest.
        """
        config, decay, count, now = self.config, self.decay(epoch), self.explored, self.training
        explorer_key, model_key = jax.random.split(jax.random.key(derive(self.seed, "updates", epoch)))
        columns = columns_of(trajectories)
        seen, followed = (self.batch(part(columns, rows)) for rows in (slice(count), slice(count, None)))
        self.replay.add(part(columns, slice(count)))
        surprise = explorer_rewards(now.model, seen, explorer_key)
        rewards, info = consistency_rewards(now.model.states, followed, jnp.asarray(latents[count:]))
        explorer, skill = (now.explorer, now.explorer_optimizer), (now.model.skill, now.skill_optimizer)
        improved = partial(improve, config=config, decay=decay)
        if epoch:
            none, weight = jnp.zeros((count, 0)), config.entropy_weight
            *explorer, explored = improved(*explorer, seen, none, surprise, entropy_weight=weight)
            *skill, _ = improved(*skill, followed, jnp.asarray(latents[count:]), rewards, entropy_weight=0.0)
            info |= {"explorer_entropy": explored["entropy"]}
        model = eqx.tree_at(lambda model: model.skill, now.model, skill[0])
        batches = self._sample(generator(self.seed, "minibatches", epoch))
        model, optimizer, fitted = update_model(model, now.model_optimizer, batches, model_key, config, decay)
        self.training = State(model, explorer[0], optimizer, skill[1], explorer[1])
        info |= fitted | {"negative_elbo": surprise.sum(axis=1).mean()}
        return {name: float(value) for name, value in info.items()}

    def _sample(self, rng: np.random.Generator) -> Batch:
        """Minibatches (steps, B, ...) of the explorer's trajectories."""
        steps, size = self.config.model_steps, self.config.batch_size
        batch = self.batch(self.replay.sample(rng, (steps * size,)))
        return jax.tree.map(lambda values: values.reshape(steps, size, *values.shape[1:]), batch)

    def batch(self, columns: Columns) -> Batch:
        """What the networks see of trajectories."""
        states, lengths = self.normalizer(columns["states"]), columns["lengths"].astype(int)
        count = self.config.encoded_states if self.world.linearizer is None else 0
        which, encoded_lengths = evenly_spaced(lengths + 1, states.shape[1], count)
        encoded = np.take_along_axis(states[..., list(self.world.encoder_dims)], which[..., None], axis=1)
        return Batch(
            states=jnp.asarray(omit(states[:, :-1], self.world.omitted)),
            actions=jnp.asarray(columns["actions"]),
            lengths=jnp.asarray(lengths),
            encoded=jnp.asarray(encoded),
            encoded_lengths=jnp.asarray(encoded_lengths),
            reached=jnp.asarray(which[:, 1:] - 1),
        )

    def learned(self) -> Arrays:
        """All that learns, and what it learns from."""
        return {**super().learned(), **{f"replay/{name}": values for name, values in self.replay.state().items()}}

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        super().restore_learned(arrays)
        self.replay.restore({name[7:]: values for name, values in arrays.items() if name.startswith("replay/")})

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.replay.num_bytes()


def columns_of(trajectories: Trajectories) -> Columns:
    """What is kept of trajectories, one row for each."""
    lengths = trajectories.lengths.astype(np.float32)
    return {"states": trajectories.states, "actions": trajectories.actions, "lengths": lengths}


def part(columns: Columns, rows: slice) -> Columns:
    """Some rows of them."""
    return {name: values[rows] for name, values in columns.items()}


METHOD = discovery_method(SeCTARConfig, SeCTARTrainer)
