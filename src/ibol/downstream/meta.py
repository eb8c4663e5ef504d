"""The meta-controller: SAC whose actions are latents of skills (or, without skills, the robot's own actions).

An epoch is whole episodes by the current policy, then gradient steps, on the epoch's own decisions as in the paper or
from a replay buffer. With one decision in an episode this is a contextual bandit.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ibol.downstream.hierarchy import EVALUATION_SEED, Choose, DownstreamConfig, Hierarchy
from ibol.envs import TaskEnv
from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer, epoch_weight
from ibol.learners.rollout import Trajectories, collect
from ibol.learners.sac_learner import SACLearner, plain_batch, transition_widths, transitions
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.seeding import derive


class MetaController:
    """A policy over decisions with all that it needs to act."""

    kind = "controller"

    def __init__(self, hierarchy: Hierarchy, network: sac.Policy, normalizer: Normalizer) -> None:
        self.hierarchy, self.network, self.normalizer = hierarchy, network, normalizer
        self.env, self.env_settings = hierarchy.task.name, hierarchy.env_settings

    def choose(self, observations: NDArray[np.floating], decision: int = 0) -> NDArray[np.float32]:
        """The most likely decisions in [-1, 1]^d for raw observations (N, n) of the task."""
        return np.asarray(sac.mode_actions(self.network, self.normalizer(self.hierarchy.seen(observations))))

    def rollout(self, episodes: int = 16, *, seed: int = 0) -> Trajectories:
        """Whole episodes of the task, step by step."""
        return collect(self.make_env(episodes), self.hierarchy.controller(self.choose), seed=seed)

    def make_env(self, num_envs: int) -> TaskEnv:
        """A batch of the task."""
        return self.hierarchy.make_env(num_envs)


class MetaTrainer:
    """Collects and learns; see `DownstreamConfig`."""

    headline = ("return", "evaluation/return", "evaluation/goal_distance")

    def __init__(self, task: str, env_settings: EnvSettings, config: DownstreamConfig, seed: int) -> None:
        self.config, self.seed, self.epochs = config, seed, config.epochs
        self.hierarchy = Hierarchy(task, env_settings, config)
        self.env = self.hierarchy.make_env(config.episodes_per_epoch)
        self.evaluation_env = self.hierarchy.make_env(config.evaluation_episodes) if config.evaluate_every else None
        inputs, decision_dim = self.hierarchy.state_dim, self.hierarchy.decision_dim
        self.learner = SACLearner(
            config,
            inputs=inputs,
            actions=decision_dim,
            features=1,
            columns=transition_widths(inputs, decision_dim),
            transitions_per_epoch=config.episodes_per_epoch * self.hierarchy.decisions,
            seed=seed,
        )
        self.normalizer = self.hierarchy.normalizer()
        self.env_steps = 0

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """Collect episodes, then learn; the first epoch also measures the controller before it has learned anything."""
        config = self.config
        metrics = {f"untrained/{name}": value for name, value in self.evaluate().items()} if epoch == 0 else {}
        steps, chosen = self.hierarchy.rollout(self.env, self._explore(epoch), derive(self.seed, "episodes", epoch))
        episodes = self.hierarchy.by_decision(steps, chosen)
        seen = self.hierarchy.seen(episodes.states)
        taken = transitions(episodes, self.normalizer(seen), time_limits=not config.bootstrap_at_time_limit)
        taken["rewards"] = taken["rewards"] * np.float32(config.reward_scale)
        info = self.learner.learn(taken, epoch, plain_batch)
        if config.normalizer == "ema":
            visited = seen[np.arange(seen.shape[1]) <= episodes.lengths[:, None]]
            self.normalizer.update(visited, epoch_weight(len(visited)))
        self.env_steps += steps.num_steps
        metrics |= {
            "env_steps": self.env_steps,
            "return": float(steps.returns.mean()),
            "goal_distance": float(self.env.distance(steps.returns).mean()),
            **info,
            "epoch_env_steps": steps.num_steps,
        }
        if epoch + 1 == self.epochs or (config.evaluate_every and (epoch + 1) % config.evaluate_every == 0):
            metrics |= {f"evaluation/{name}": value for name, value in self.evaluate().items()}
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Return and distance of the controller's mode, for the same goals in every run."""
        env = self.evaluation_env
        if env is None:
            return {}
        controller = MetaController(self.hierarchy, self.learner.policy, self.normalizer)
        returns = collect(env, self.hierarchy.controller(controller.choose), seed=EVALUATION_SEED).returns
        return {"return": float(returns.mean()), "goal_distance": float(env.distance(returns).mean())}

    def _explore(self, epoch: int) -> Choose:
        key = jax.random.key(derive(self.seed, "exploration", epoch))

        def choose(observations: NDArray[np.float32], decision: int) -> jax.Array:
            inputs = self.normalizer(self.hierarchy.seen(observations))
            return sac.sample_actions(self.learner.policy, inputs, key, decision)

        return choose

    def keep(self, directory: Path) -> None:
        """Put skills and imitation set into the run."""
        self.hierarchy.keep(directory)

    def describe(self) -> dict[str, Any]:
        """The sizes of the policy."""
        return {"state_dim": self.hierarchy.state_dim, "decision_dim": self.hierarchy.decision_dim}

    def state(self) -> Arrays:
        """Networks, optimisers, replay buffer, normaliser and counters."""
        return {**self.learner.state(), **self.normalizer.state(), "env_steps": np.array(self.env_steps)}

    def restore(self, arrays: Arrays) -> None:
        """Continue from a saved state."""
        self.learner.restore(arrays)
        self.normalizer = Normalizer.from_state(arrays)
        self.env_steps = int(arrays["env_steps"])

    def checkpoint_bytes(self) -> int:
        """Networks and a full replay buffer."""
        return self.learner.num_bytes()


def controller_of(hierarchy: Hierarchy, arrays: Arrays) -> MetaController:
    """The meta-controller of a checkpoint."""
    config = hierarchy.config
    template = sac.TanhGaussianPolicy(
        hierarchy.state_dim, hierarchy.decision_dim, config.hidden, jax.random.key(0), config.layer_norm
    )
    network = checkpoint.unflatten(template, arrays, "learner/policy/")
    return MetaController(hierarchy, network, Normalizer.from_state(arrays))
