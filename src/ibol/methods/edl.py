"""EDL ("Explore, Discover and Learn"), with continuous latents as in the paper's comparison, or with discrete ones.

Three stages, one after the other in one run:

    explore:   visit many states, by state marginal matching (state_marginal_matching.py)
    discover:  a VAE of the visited states: q(z | s), p(s | z) = N(g(z), I), with prior N(0, I);
               or a VQ-VAE, whose codes are the discrete latents
    learn:     a skill policy whose states are likely under its latent, by SAC on
               r = -|s' - g(z)|,  or  r = log p(s' | z) = -|s' - g(z)|^2 / 2

Exploring takes the first epochs, learning the rest. Discovering takes no steps of the environment, and happens at the
end of the last epoch of exploring.
"""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ibol.bounds import Count, Fraction, NonNegative
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.adam import linear_decay
from ibol.learners.normalizer import find_normalizer
from ibol.learners.replay import Columns
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACFields, SACLearner
from ibol.methods import state_marginal_matching as smm
from ibol.methods import state_vae
from ibol.methods.discovery import DiscoveryConfig, DiscoveryTrainer, discovery_method, discrete_prior, initialized
from ibol.methods.state_vae import Discovered, distance, in_units
from ibol.nn.networks import BetaPolicy
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive, generator
from ibol.skills.latents import OneHot, Prior
from ibol.training.trainer import Epoch


@dataclass(frozen=True)
class EDLConfig(DiscoveryConfig, SACFields, smm.ExplorationFields, state_vae.StateModelFields):
    """Settings of EDL; the preset gives the defaults."""

    explore_epochs: Count = 32
    """Number of epochs, of all `epochs`, that explore; in the others the skill policy learns."""
    units: Literal["raw", "normalized", "random_actions"] = "raw"
    """Unit of distances between states: raw states, standard deviations of the visited states, or standard deviations
    of the states that random actions visit."""
    reward: Literal["euclidean", "log_likelihood"] = "euclidean"
    """Reward of the skill policy: -|s' - g(z)|, or -|s' - g(z)|^2 / 2."""
    progress: bool = False
    """Reward the difference that a step makes instead: the rewards of an episode then add up to that of its last state
    minus that of the first."""
    reuse_exploration: bool = True
    """Learn the skill policy from the steps of the exploration, too, each with random latents."""
    relabel: Fraction = 0.0
    """Fraction of the other steps that get random latents, too, instead of the latents of their own episodes."""
    sibling_rivalry: bool = False
    """Two episodes for each latent, rewarded only at their ends by min(0, |s_T - sibling's s_T| - |s_T - g(z)|); the
    one nearer to g(z) is learned from only if both end close together."""
    sibling_distance: NonNegative = 5.0
    """Distance below which the two ends are close together."""


@partial(jax.jit, static_argnames="config")
def reward(found: Discovered, states: Array, next_states: Array, latents: Array, config: EDLConfig) -> Array:
    """-|s' - g(z)| or log p(s' | z) without its constant; with `progress` less that of s."""

    def closeness(reached: Array) -> Array:
        far = distance(found, reached, latents)
        return -far if config.reward == "euclidean" else -0.5 * far**2

    return closeness(next_states) - (closeness(states) if config.progress else 0.0)


def sibling_rewards(
    to_goal: NDArray[np.floating], apart: NDArray[np.floating], close: float
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """What pairs of episodes (P, 2) that end `to_goal` from their goal and `apart` (P,) from each other get, and which
    of them are learned from: the one that is farther from the goal, and the nearer one if they end `close` together."""
    farther = to_goal >= to_goal[:, ::-1]
    return np.minimum(0.0, apart[:, None] - to_goal), farther | (apart < close)[:, None]


class EDLTrainer(DiscoveryTrainer):
    """Explores, discovers, learns."""

    title = "EDL"
    config: EDLConfig
    headline = (
        "explore/reward", "discover/error", "learn/reward", "learn/distance", "evaluation/information",
        "evaluation/spread",
    )  # fmt: skip

    def __init__(self, env: str, env_settings: EnvSettings, config: EDLConfig, seed: int) -> None:
        super().__init__(env, env_settings, config, seed)
        if not config.replay_size:
            raise IbolError("replay_size is 0, but EDL discovers skills in the states of its replay buffer")
        if config.sibling_rivalry and config.episodes_per_epoch % 2:
            raise IbolError(f"episodes_per_epoch is {config.episodes_per_epoch}, but siblings need an even number")
        world, dims = self.world, len(self.world.encoder_dims)
        self.explore_epochs = min(config.explore_epochs, self.epochs)
        columns: dict[str, tuple[int, ...]] = {
            "states": (world.state_dim,),
            "next_states": (world.state_dim,),
            "latents": (self.prior.dim,),
            "skills": (config.explore_skills,),
            "actions": (world.action_dim,),
            "rewards": (),
            "dones": (),
        }
        explorer = dataclasses.replace(
            config, temperature=config.explore_temperature, learn_temperature=config.learn_explore_temperature,
            replay_size=0,
        )  # fmt: skip
        self.learner = self._sac(config, config.learning_rate, self.prior.dim, columns, seed)
        self.explorer = self._sac(
            explorer, config.explore_learning_rate, config.explore_skills, columns, derive(seed, "explorer")
        )
        self.models = smm.create(dims, config, jax.random.key(derive(seed, "models")))
        self.found = state_vae.create(dims, self.prior.dim, config, jax.random.key(derive(seed, "vae")))
        self.unit = self._unit(seed)

    def _unit(self, seed: int) -> NDArray[np.floating] | None:
        """The unit (k,) of each dimension that is seen; None are the visited states' own deviations."""
        if self.config.units == "normalized":
            return None
        if self.config.units == "raw":
            return np.ones(len(self.world.encoder_dims))
        random = find_normalizer(self.world.name, self.world.env_settings, 500, seed)
        return random.std[list(self.world.encoder_dims)]

    def _sac(
        self, config: SACFields, rate: float, conditions: int, columns: dict[str, tuple[int, ...]], seed: int
    ) -> SACLearner:
        """SAC for a policy that is conditioned on latents or exploration skills."""
        made = SACLearner(
            config,
            hidden=self.config.hidden,
            layer_norm=self.config.layer_norm,
            learning_rate=rate,
            inputs=self.world.state_dim + conditions,
            actions=self.world.action_dim,
            features=1,
            columns=columns,
            transitions_per_epoch=self.config.episodes_per_epoch * self.world.horizon,
            seed=seed,
            policy_type=BetaPolicy,
            epoch_minibatches=True,
        )
        assert isinstance(made.policy, BetaPolicy)
        policy = initialized(made.policy, self.world.state_dim, self.config)
        made.networks = eqx.tree_at(lambda networks: networks.policy, made.networks, policy)
        return made

    def create_prior(self) -> Prior:
        """N(0, I), or discrete skills."""
        count = self.config.discrete_latents
        return discrete_prior(count) if count else super().create_prior()

    @property
    def skill_policy(self) -> sac.Policy:
        """The skill policy as it is now."""
        return self.learner.policy

    # The stages.

    def run_epoch(self, epoch: int) -> Epoch:
        """An epoch of exploring, with the discovery at the end of the last one, or of learning."""
        exploring, count = epoch < self.explore_epochs, self.config.episodes_per_epoch
        rng = generator(self.seed, "latents", epoch)
        if exploring:
            latents = OneHot(self.config.explore_skills).draw(rng, count)
        elif self.config.sibling_rivalry:
            latents = np.repeat(self.prior.draw(rng, count // 2), 2, axis=0)
        else:
            latents = self.prior.draw(rng, count)
        trajectories = self._collect(self.explorer.policy if exploring else self.skill_policy, latents, epoch)
        metrics = {"episode_length": float(trajectories.lengths.mean())}
        metrics |= (self.learn_to_explore if exploring else self.learn)(trajectories, latents, epoch)
        if exploring and self.config.normalizer == "ema":  # fixed from now on
            self.follow_states(trajectories.states, trajectories.lengths)
        if epoch == self.explore_epochs - 1:
            metrics |= self.discover(epoch)
        return Epoch(trajectories.num_steps * self.world.macro_length, metrics)

    def stage(self, epoch: int) -> str:
        """Exploring, also discovering in its last epoch, or learning."""
        if epoch >= self.explore_epochs:
            return "learn"
        return "explore" if epoch + 1 < self.explore_epochs else "explore and discover"

    def learn_to_explore(self, trajectories: Trajectories, skills: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """Reward the steps by the models as they are, then gradient steps of models and SAC on replayed ones."""
        key, another = jax.random.split(jax.random.key(derive(self.seed, "models", epoch)))
        weights = in_units(self.normalizer.std[list(self.world.encoder_dims)], self.unit)
        transitions = self._transitions(trajectories, np.zeros((len(skills), self.prior.dim), np.float32), skills)
        rewards, info = smm.reward(self.models, self._visited(transitions), weights, self.config.novelty_weight, key)
        self.learner.store({**transitions, "rewards": np.asarray(rewards)})
        sampled = self.learner.sample(generator(self.seed, "minibatches", epoch), self.config.gradient_steps)
        self.models, more = smm.update(self.models, self._visited(sampled), weights, self.config, another)
        batches = self._batches(sampled, sampled["skills"], sampled["rewards"])
        return {**_numbers({**info, **more}), **self.explorer.update(batches, epoch, 1.0)}

    def discover(self, epoch: int) -> dict[str, float]:
        """Train the VAE on all states that steps of the exploration led to; what is learned of them, if anything."""
        config, replay, dims = self.config, self.learner.replay, len(self.world.encoder_dims)
        assert replay is not None
        visited = replay.column("next_states")[:, list(self.world.encoder_dims)]
        start = state_vae.create(dims, self.prior.dim, config, jax.random.key(derive(self.seed, "vae")))
        self.found, info = state_vae.fit(start, visited, self.unit, config, self.seed)
        if not config.reuse_exploration or config.sibling_rivalry:
            replay.clear()
            return _numbers(info)
        return {**_numbers(info), **self._learn_from_replay(epoch)}

    def learn(self, trajectories: Trajectories, latents: NDArray[np.float32], epoch: int) -> dict[str, float]:
        """Gradient steps of the skill policy."""
        transitions = self._transitions(
            trajectories, latents, np.zeros((len(latents), self.config.explore_skills), np.float32)
        )
        ends = jnp.asarray(trajectories.states[:, -1][:, list(self.world.encoder_dims)])
        to_goal = np.asarray(distance(self.found, ends, jnp.asarray(latents)))
        rewards = self._reward(transitions, transitions["latents"])
        if self.config.sibling_rivalry:
            rewards, kept = self._rivalry(trajectories, ends, to_goal)
            transitions["dones"] = trajectories.ends(time_limits=True)[trajectories.mask].astype(np.float32)
            transitions = {name: values[kept] for name, values in transitions.items()}
            rewards = rewards[kept]
        self.learner.store({**transitions, "rewards": rewards})
        info = {"learn/distance": float(to_goal.mean()), "learn/reward": float(rewards.mean())}
        return {**info, **self._learn_from_replay(epoch)}

    def evaluate(self, epoch: int) -> dict[str, float]:
        """As for all methods, once there are skills."""
        return super().evaluate(epoch) if epoch >= self.explore_epochs - 1 else {}

    # What they share.

    def _collect(self, policy: sac.Policy, latents: NDArray[np.float32], epoch: int) -> Trajectories:
        """One episode of a policy for each latent or exploration skill."""
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def act(states: NDArray[np.float32], step: int) -> Array:
            return sac.sample_actions(policy, self.inputs(states, latents), key, step)

        return collect(self.world.env, act, seed=derive(self.seed, "episodes", epoch))

    def _transitions(
        self, trajectories: Trajectories, latents: NDArray[np.float32], skills: NDArray[np.float32]
    ) -> Columns:
        """The steps that were taken, one row each, with raw states."""
        mask = trajectories.mask
        episodes = np.nonzero(mask)[0]
        ends = trajectories.ends(time_limits=not self.config.bootstrap_at_time_limit)
        return {
            "states": trajectories.states[:, :-1][mask],
            "next_states": trajectories.states[:, 1:][mask],
            "latents": latents[episodes],
            "skills": skills[episodes],
            "actions": trajectories.actions[mask],
            "dones": ends[mask].astype(np.float32),
        }

    def _visited(self, columns: Columns) -> smm.Visited:
        states = self.normalizer(columns["next_states"])[..., list(self.world.encoder_dims)]
        return smm.Visited(jnp.asarray(states), jnp.asarray(columns["skills"]))

    def _reward(self, columns: Columns, latents: NDArray[np.float32]) -> NDArray[np.float32]:
        dims = list(self.world.encoder_dims)
        before, after = (jnp.asarray(columns[name][..., dims]) for name in ("states", "next_states"))
        return np.asarray(reward(self.found, before, after, jnp.asarray(latents), self.config))

    def _rivalry(
        self, trajectories: Trajectories, ends: Array, to_goal: NDArray[np.floating]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The rewards of all steps, and which of them are learned from."""
        pairs = np.asarray((ends - self.found.mean) / self.found.std * self.found.weights).reshape(-1, 2, ends.shape[1])
        apart = np.linalg.norm(pairs[:, 0] - pairs[:, 1], axis=-1)
        given, kept = sibling_rewards(to_goal.reshape(-1, 2), apart, self.config.sibling_distance)
        mask = trajectories.mask
        rewards = np.where(trajectories.ends(time_limits=True), given.reshape(-1, 1), 0.0)[mask]
        return rewards.astype(np.float32), np.broadcast_to(kept.reshape(-1, 1), mask.shape)[mask]

    def _learn_from_replay(self, epoch: int) -> dict[str, float]:
        """SAC's gradient steps for the skill policy; the learning rate decays from the first epoch of learning."""
        rng = generator(self.seed, "skill minibatches", epoch)
        sampled = self.learner.sample(rng, self.config.gradient_steps)
        latents, rewards = sampled["latents"], sampled["rewards"]
        if not self.config.sibling_rivalry:  # whose rewards are those at collection
            chosen = sampled["skills"].any(axis=-1) | (rng.random(rewards.shape) < self.config.relabel)
            drawn = self.prior.draw(rng, rewards.size).reshape(latents.shape)
            latents = np.where(chosen[..., None], drawn, latents)
            rewards = self._reward(sampled, latents)
        first = self.explore_epochs - 1
        decay = linear_decay(self.config.final_learning_rate, epoch - first, self.epochs - first)
        return self.learner.update(self._batches(sampled, latents, rewards), epoch, decay)

    def _batches(self, columns: Columns, latents: NDArray[np.float32], rewards: NDArray[np.float32]) -> sac.Transitions:
        return sac.Transitions(
            inputs=jnp.asarray(self.inputs(columns["states"], latents)),
            actions=jnp.asarray(columns["actions"]),
            rewards=jnp.asarray(rewards)[..., None],
            next_inputs=jnp.asarray(self.inputs(columns["next_states"], latents)),
            dones=jnp.asarray(columns["dones"]),
            weights=jnp.ones((*rewards.shape, 1)),
        )

    def learned(self) -> Arrays:
        """The networks of all stages and the replay buffer by name."""
        explorer = {f"explorer/{name}": value for name, value in self.explorer.state().items()}
        models = checkpoint.flatten({"models": self.models, "found": self.found})
        return {**self.learner.state(), **explorer, **models}

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.learner.restore(arrays)
        prefix = "explorer/"
        self.explorer.restore({name.removeprefix(prefix): v for name, v in arrays.items() if name.startswith(prefix)})
        trees = checkpoint.unflatten({"models": self.models, "found": self.found}, arrays)
        self.models, self.found = trees["models"], trees["found"]

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.learner.growth()


def _numbers(info: dict[str, Array]) -> dict[str, float]:
    return {name: float(value) for name, value in info.items()}


METHOD = discovery_method(EDLConfig, EDLTrainer)
