"""The meta-controller: SAC whose actions are latents of skills (or, without skills, the robot's own actions).

An epoch is whole episodes by the current policy, then gradient steps, on the epoch's own decisions as in the paper or
from a replay buffer. With one decision in an episode this is a contextual bandit.
"""

from pathlib import Path
from typing import Any, Final

import jax
import numpy as np
from numpy.typing import NDArray

from ibol.bounds import array
from ibol.downstream.hierarchy import EVALUATION_SEED, Choose, DownstreamConfig, Hierarchy
from ibol.envs import TaskEnv
from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACLearner, plain_batch, transition_widths, transitions
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive
from ibol.training.trainer import Epoch, Trainer


class MetaController:
    """A policy over decisions with all that it needs to act."""

    kind: Final = "controller"

    def __init__(self, hierarchy: Hierarchy, network: sac.Policy, normalizer: Normalizer) -> None:
        self.hierarchy, self.network, self.normalizer = hierarchy, network, normalizer
        self.env, self.env_settings = hierarchy.task.name, hierarchy.env_settings

    def choose(self, observations: NDArray[np.floating], decision: int = 0) -> NDArray[np.float32]:
        """The most likely decisions in [-1, 1]^d for raw observations (N, n) of the task."""
        states = array("observations", observations, "N", self.hierarchy.state_dim)
        return np.asarray(sac.mode_actions(self.network, self.normalizer(self.hierarchy.seen(states))))

    def rollout(self, episodes: int = 16, *, seed: int = 0) -> Trajectories:
        """Whole episodes of the task, step by step; `seed` decides goals and initial states."""
        act = self.hierarchy.controller(self.choose)
        return collect(self.make_env(episodes), act, seed=derive(seed, "episodes"))

    def make_env(self, num_envs: int) -> TaskEnv:
        """A batch of the task."""
        return self.hierarchy.make_env(num_envs)


class MetaTrainer(Trainer):
    """Collects and learns; see `DownstreamConfig`."""

    headline = ("return", "evaluation/return", "evaluation/goal_distance")
    config: DownstreamConfig
    normalizer: Normalizer

    def __init__(self, task: str, env_settings: EnvSettings, config: DownstreamConfig, seed: int) -> None:
        super().__init__(config, seed)
        self.hierarchy = Hierarchy(task, env_settings, config)
        self.env = self.hierarchy.make_env(config.episodes_per_epoch)
        self.evaluation_env = self.hierarchy.make_env(config.evaluation_episodes) if config.evaluate_every else None
        inputs, decision_dim = self.hierarchy.state_dim, self.hierarchy.decision_dim
        self.learner = SACLearner(
            config,
            hidden=config.hidden,
            layer_norm=config.layer_norm,
            learning_rate=config.learning_rate,
            inputs=inputs,
            actions=decision_dim,
            features=1,
            columns=transition_widths(inputs, decision_dim),
            transitions_per_epoch=config.episodes_per_epoch * self.hierarchy.decisions,
            seed=seed,
        )
        self.normalizer = self.hierarchy.normalizer()

    def run_epoch(self, epoch: int) -> Epoch:
        """Collect episodes, then learn; the first epoch also measures the controller before it has learned anything."""
        config = self.config
        initial = {f"untrained/{name}": value for name, value in self.evaluate(epoch).items()} if epoch == 0 else {}
        steps, chosen = self.hierarchy.rollout(self.env, self._explore(epoch), derive(self.seed, "episodes", epoch))
        episodes = self.hierarchy.by_decision(steps, chosen)
        seen = self.hierarchy.seen(episodes.states)
        taken = transitions(episodes, self.normalizer(seen), time_limits=not config.bootstrap_at_time_limit)
        taken["rewards"] = taken["rewards"] * np.float32(config.reward_scale)
        info = self.learner.learn(taken, epoch, self.decay(epoch), plain_batch)
        if config.normalizer == "ema":
            self.follow_states(seen, episodes.lengths)
        metrics = {
            "return": float(steps.returns.mean()),
            "goal_distance": float(self.env.distance(steps.returns).mean()),
            **info,
        }
        return Epoch(steps.num_steps, {**initial, **metrics})

    def evaluate(self, epoch: int) -> dict[str, float]:
        """Return and distance of the controller's mode, for the same goals in every run and epoch."""
        env = self.evaluation_env
        if env is None:
            return {}
        returns = collect(env, self.hierarchy.controller(self.agent().choose), seed=EVALUATION_SEED).returns
        return {"return": float(returns.mean()), "goal_distance": float(env.distance(returns).mean())}

    def _explore(self, epoch: int) -> Choose:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def choose(observations: NDArray[np.float32], decision: int) -> jax.Array:
            inputs = self.normalizer(self.hierarchy.seen(observations))
            return sac.sample_actions(self.learner.policy, inputs, key, decision)

        return choose

    def agent(self) -> MetaController:
        """The controller as it is now."""
        return MetaController(self.hierarchy, self.learner.policy, self.normalizer)

    def prepare(self, directory: Path) -> None:
        """Put skills and imitation set into the run."""
        self.hierarchy.keep_sources(directory)

    def describe(self) -> dict[str, Any]:
        """The sizes of the policy."""
        return {"state_dim": self.hierarchy.state_dim, "decision_dim": self.hierarchy.decision_dim}

    def learned(self) -> Arrays:
        """Networks, optimisers and replay buffer."""
        return self.learner.state()

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.learner.restore(arrays)

    def growth(self) -> int:
        """That of the replay buffer."""
        return self.learner.growth()


def controller_of(hierarchy: Hierarchy, arrays: Arrays) -> MetaController:
    """The meta-controller of a checkpoint."""
    config = hierarchy.config
    template = sac.TanhGaussianPolicy(
        hierarchy.state_dim, hierarchy.decision_dim, config.hidden, jax.random.key(0), config.layer_norm
    )
    network = checkpoint.unflatten(template, arrays, "learner/policy/")
    return MetaController(hierarchy, network, Normalizer.from_state(arrays, hierarchy.state_dim))
