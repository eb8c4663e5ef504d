"""A planner over latents: what the skills allow, found by trying latents in the simulator itself.

The cross-entropy method, for each evaluation episode by itself: plans are drawn around a mean, simulated from the very
initial state of the episode, and the best of them make the next mean and spread. Nothing is learned, and the planner
knows in the simulator what a controller cannot know before (initial velocities, later goals): an upper reference.
"""

import dataclasses
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import whole_number
from ibol.downstream.hierarchy import EVALUATION_SEED, DownstreamConfig, Hierarchy
from ibol.envs import TaskEnv
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners.rollout import Trajectories, collect
from ibol.runs.checkpoint import Arrays, check_like
from ibol.seeding import generator
from ibol.training.trainer import Epoch, Trainer

_LEAST_STD = 0.02  # of the next plans, in units of the latents' range


class PlanTrainer(Trainer):
    """An iteration of the search is an epoch of the run."""

    headline = ("evaluation/return", "evaluation/goal_distance")
    config: DownstreamConfig

    def __init__(self, task: str, env_settings: EnvSettings, config: DownstreamConfig, seed: int) -> None:
        if not 1 < config.elites <= config.candidates:
            raise IbolError(
                f"elites is {config.elites}, but from 2 to all {config.candidates} candidates can be the best: "
                "choose another --elites or more --candidates"
            )
        super().__init__(config, seed, epochs=config.iterations)
        self.hierarchy = Hierarchy(task, env_settings, config)
        if self.hierarchy.skills is None:
            raise IbolError("a planner chooses among skills: name their run with --skills")
        episodes, shape = config.evaluation_episodes, (self.hierarchy.decisions, self.hierarchy.decision_dim)
        self.env = self.hierarchy.make_env(episodes * config.candidates)
        self.replay_env = self.hierarchy.make_env(episodes)
        self.mean = np.zeros((episodes, *shape), np.float32)
        self.std = np.ones((episodes, *shape), np.float32)
        self.best = np.zeros((episodes, *shape), np.float32)
        self.best_returns = np.full(episodes, -np.inf, np.float32)

    def run_epoch(self, epoch: int) -> Epoch:
        """Try candidates in every episode."""
        plans = self._candidates(epoch)  # (E, C, decisions, d)
        episodes, count = plans.shape[:2]
        flat = plans.reshape(episodes * count, *plans.shape[2:])
        seeds = [EVALUATION_SEED + episode for episode in range(episodes) for _ in range(count)]
        steps, _ = self.hierarchy.rollout(self.env, lambda observations, decision: flat[:, decision], [*seeds])
        returns = steps.returns.reshape(episodes, count)
        order, rows = np.argsort(-returns, axis=1), np.arange(episodes)
        metrics = {}
        if epoch == 0:
            metrics["untrained/return"] = float(returns.mean())
            metrics["untrained/goal_distance"] = float(self.env.distance(steps.returns).mean())
        # Each candidate that looks best is tried again among the others, as `Plans` will: in a batch of another size
        # the policies round differently, contacts amplify that, and the best of many would be the luckiest.
        found = plans[rows, order[:, 0]]
        replayed = replay(self.hierarchy, self.replay_env, found).returns
        better = replayed > self.best_returns
        self.best[better] = found[better]
        self.best_returns = np.maximum(self.best_returns, replayed)
        elites = np.take_along_axis(plans, order[:, : self.config.elites, None, None], axis=1)
        self.mean, self.std = elites.mean(axis=1), np.maximum(elites.std(axis=1), _LEAST_STD)
        metrics |= {
            "return": float(returns.mean()),
            "evaluation/return": float(self.best_returns.mean()),
            "evaluation/goal_distance": float(self.env.distance(self.best_returns).mean()),
        }
        return Epoch(steps.num_steps, metrics)

    def _candidates(self, epoch: int) -> NDArray[np.float32]:
        """Uniform at first, then normal around the elites."""
        rng = generator(self.seed, "candidates", epoch)
        shape = (len(self.mean), self.config.candidates, *self.mean.shape[1:])
        if epoch == 0:
            return rng.uniform(-1, 1, shape).astype(np.float32)
        drawn = self.mean[:, None] + self.std[:, None] * rng.standard_normal(shape)
        return np.clip(drawn, -1, 1).astype(np.float32)

    def agent(self) -> "Plans":
        """The best plans so far."""
        return Plans(self.hierarchy, self.best)

    def prepare(self, directory: Path) -> None:
        """Put skills and imitation set into the run."""
        self.hierarchy.keep_sources(directory)

    def learned(self) -> Arrays:
        """The search as it stands; `plans/` is what `Plans` needs."""
        best = {"plans/latents": self.best, "plans/returns": np.nan_to_num(self.best_returns)}
        return {**best, "mean": self.mean, "std": self.std}

    def restore_learned(self, arrays: Arrays) -> None:
        """Undo `learned`."""
        self.best, self.best_returns = arrays["plans/latents"], arrays["plans/returns"]
        self.mean, self.std = arrays["mean"], arrays["std"]


def replay(hierarchy: Hierarchy, env: TaskEnv, plans: NDArray[np.float32]) -> Trajectories:
    """The evaluation episodes with a plan (decisions, d) for each."""
    act = hierarchy.controller(lambda observations, decision: plans[:, decision])
    return collect(env, act, seed=EVALUATION_SEED)


class Plans:
    """The best plan for each of the evaluation episodes."""

    kind: Final = "controller"

    def __init__(self, hierarchy: Hierarchy, plans: NDArray[np.float32]) -> None:
        self.hierarchy, self.plans = hierarchy, plans
        self.env, self.env_settings = hierarchy.task.name, hierarchy.env_settings

    def rollout(self, episodes: int = 16, *, seed: int = EVALUATION_SEED) -> Trajectories:
        """The first evaluation episodes, at most those that were planned, whatever the seed: a plan is for its own."""
        episodes = whole_number("episodes", episodes)
        found = replay(self.hierarchy, self.make_env(len(self.plans)), self.plans)
        first = {field.name: getattr(found, field.name)[:episodes] for field in dataclasses.fields(found)}
        return Trajectories(**first)

    def make_env(self, num_envs: int) -> TaskEnv:
        """A batch of the task."""
        return self.hierarchy.make_env(num_envs)


def plans_of(hierarchy: Hierarchy, arrays: Arrays) -> Plans:
    """The plans of a checkpoint."""
    shape = (hierarchy.config.evaluation_episodes, hierarchy.decisions, hierarchy.decision_dim)
    check_like({"plans/latents": np.zeros(shape, np.float32)}, arrays)
    return Plans(hierarchy, arrays["plans/latents"])
