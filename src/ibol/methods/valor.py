"""VALOR ("Variational Option Discovery Algorithms"), with continuous latents as in the paper's comparison.

A decoder p(z | s_0:T-1) guesses the latent from a whole trajectory of the skill policy, which follows the policy
gradient with one return for each trajectory:

    R = log p(z | s_0:T-1) - alpha sum_t log pi(a_t | s_t, z),    decoder on  max E[log p(z | s_0:T-1)].
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from numpy.typing import NDArray

from ibol.bounds import Natural, NonNegative
from ibol.envs.settings import EnvSettings
from ibol.learners import adam
from ibol.learners.normalizer import omit
from ibol.learners.rollout import Trajectories
from ibol.methods.chosen_steps import evenly_spaced
from ibol.methods.discovery import DiscoveryTrainer, discovery_method
from ibol.methods.pathwise import fit_dynamics, follow
from ibol.methods.policy_gradient import (
    PolicyGradientConfig,
    advantages,
    create_latent_policy,
    latent_policy,
    surrogate,
    time_sum,
)
from ibol.nn.distributions import ScaledBeta, gaussian_log_prob
from ibol.nn.networks import BetaPolicy, TrajectoryEncoder
from ibol.seeding import derive


@dataclass(frozen=True)
class VALORConfig(PolicyGradientConfig):
    """Settings of VALOR; the preset gives the defaults."""

    alpha: NonNegative = 1e-3
    """Weight of the entropy of the policy's actions."""
    decoded_states: Natural = 20
    """Without a linearizer: states of a trajectory that the decoder sees, evenly spaced, as many as VALOR-L has macro
    steps; 0 shows all. On a linearizer it always sees all."""
    pathwise: Literal["nothing", "goals", "states"] = "nothing"
    """Terms whose gradient reaches the policy through its own actions instead of by the policy gradient: 'goals' means
    the entropy, exactly; 'states' also the decoder's likelihood, by a linear model of how states respond to actions."""


class Networks(eqx.Module):
    """The skill policy and the decoder."""

    skill: BetaPolicy
    decoder: TrajectoryEncoder


class State(eqx.Module):
    """Everything that learns."""

    networks: Networks
    optimizer: optax.OptState


class Batch(NamedTuple):
    """An epoch's trajectories as the networks see them."""

    states: Array  # (B, T, n), normalised, for the policy
    encoded: Array  # (B, T, k), normalised, for the decoder
    decoded: Array  # (B, N), the steps that it sees of them
    decoded_lengths: Array  # (B,)
    actions: Array  # (B, T, m)
    lengths: Array  # (B,)
    latents: Array  # (B, d)


def likelihood_of(decoder: TrajectoryEncoder, batch: Batch, states: Array) -> Array:
    """log p(z | s) for trajectories (B, T, k): (B,)."""
    decoded = jnp.take_along_axis(states, batch.decoded[..., None], axis=1)
    return gaussian_log_prob(*decoder(decoded, batch.decoded_lengths), batch.latents)


def pathwise_gain(networks: Networks, batch: Batch, old: ScaledBeta, policy: ScaledBeta, config: VALORConfig) -> Array:
    """The return, (B,), of actions that move along with the policy, which alone it changes."""
    actions = policy.transport(batch.actions, old)
    dynamics = fit_dynamics(batch.encoded, batch.actions, batch.lengths)
    states = follow(dynamics, batch.encoded, actions - batch.actions)
    entropy = time_sum(policy.entropy(), batch.lengths)
    return likelihood_of(jax.lax.stop_gradient(networks.decoder), batch, states) + config.alpha * entropy


def losses(networks: Networks, batch: Batch, old: ScaledBeta, config: VALORConfig) -> tuple[Array, dict[str, Array]]:
    """The decoder's loss plus the policy's; neither reaches the other's network."""
    likelihood = likelihood_of(networks.decoder, batch, batch.encoded)
    policy = latent_policy(networks.skill, batch.states, batch.latents)
    entropy = -time_sum(policy.log_prob(batch.actions), batch.lengths)
    returns = likelihood + config.alpha * entropy
    if config.pathwise == "states":
        gain = pathwise_gain(networks, batch, old, policy, config).mean()
    else:
        exact = config.pathwise == "goals"
        advantage, scale = advantages(likelihood if exact else returns, batch.latents, config)
        gain = surrogate(policy, old, batch.actions, advantage, batch.lengths, config.clip)
        if exact:
            gain += config.alpha * jnp.mean(time_sum(policy.entropy(), batch.lengths)) / scale
    info = {
        "objective": returns.mean(),
        "objective_std": returns.std(),
        "decoder": likelihood.mean(),
        "entropy": (entropy / batch.lengths).mean(),
    }
    return -gain - likelihood.mean(), info


@partial(jax.jit, static_argnames="config")
def update(state: State, batch: Batch, config: VALORConfig, decay: float) -> tuple[State, dict[str, Array]]:
    """The gradient steps of an epoch, with `decay` times the learning rate; returns what the first of them saw."""
    old = latent_policy(state.networks.skill, batch.states, batch.latents)

    def step(state: State, _: None) -> tuple[State, dict[str, Array]]:
        grads, info = jax.grad(losses, has_aux=True)(state.networks, batch, old, config)
        return State(*adam.descend(config.learning_rate, state.networks, grads, state.optimizer, decay)), info

    state, infos = jax.lax.scan(step, state, length=config.gradient_steps)
    return state, jax.tree.map(lambda values: values[0], infos)


class VALORTrainer(DiscoveryTrainer):
    """Collects trajectories of the skill policy, and learns."""

    title = "VALOR"
    config: VALORConfig
    headline = ("decoder", "evaluation/information", "evaluation/spread")

    def __init__(self, env: str, env_settings: EnvSettings, config: VALORConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        keys = jax.random.split(jax.random.key(derive(seed, "networks")))
        networks = Networks(
            skill=create_latent_policy(self.world.state_dim, self.world.action_dim, config, keys[0]),
            decoder=TrajectoryEncoder(len(self.world.encoder_dims), config.latent_dim, config.hidden, keys[1]),
        )
        self.training = State(networks, adam.start(config.learning_rate, networks))

    @property
    def skill_policy(self) -> BetaPolicy:
        """The skill policy as it is now."""
        return self.training.networks.skill

    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """The gradient steps of an epoch."""
        batch = self.batch(trajectories, latents)
        self.training, info = update(self.training, batch, self.config, self.decay(epoch))
        return {name: float(value) for name, value in info.items()}

    def batch(self, trajectories: Trajectories, latents: NDArray[np.float32]) -> Batch:
        """What the networks see; not the last state, as in the authors' code."""
        states = self.normalizer(trajectories.states[:, :-1])
        count = self.config.decoded_states if self.world.linearizer is None else 0
        which, decoded_lengths = evenly_spaced(trajectories.lengths, states.shape[1], count)
        return Batch(
            states=jnp.asarray(omit(states, self.world.omitted)),
            encoded=jnp.asarray(states[..., list(self.world.encoder_dims)]),
            decoded=jnp.asarray(which),
            decoded_lengths=jnp.asarray(decoded_lengths),
            actions=jnp.asarray(trajectories.actions),
            lengths=jnp.asarray(trajectories.lengths),
            latents=jnp.asarray(latents),
        )


METHOD = discovery_method(VALORConfig, VALORTrainer)
