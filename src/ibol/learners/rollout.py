"""Whole trajectories from a batched environment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.envs import VectorizedEnv, sizes

Act = Callable[[NDArray[Any], int], Any]


class Agent(Protocol):
    """What can act, whatever it is: skills, a linearizer, a policy, or a controller of a task."""

    @property
    def kind(self) -> Literal["skills", "linearizer", "policy", "controller"]:
        """What `rollout` asks for first: latents (N, d), goals (N, n), or for the last two a number of episodes."""
        ...

    @property
    def env(self) -> str:
        """The environment that it was made for, or the task."""
        ...

    def make_env(self, num_envs: int) -> Any:
        """A batch of that environment for whole episodes."""
        ...

    def rollout(self, asked: Any, /, *, seed: int = 0) -> "Trajectories":
        """One whole episode each; `seed` decides initial states and all else that is random."""
        ...


@dataclass(frozen=True)
class Trajectories:
    """N whole episodes, padded to the horizon T: after its end an episode's last state is repeated, the rest is 0."""

    states: NDArray[np.float32]  # (N, T + 1, n), raw
    actions: NDArray[np.float32]  # (N, T, m)
    rewards: NDArray[np.float32]  # (N, T), external
    lengths: NDArray[np.int64]  # (N,), steps taken
    terminated: NDArray[np.bool_]  # (N,), ended by the environment rather than by the time limit

    @property
    def mask(self) -> NDArray[np.bool_]:
        """(N, T), true for the steps that were taken."""
        return np.arange(self.actions.shape[1]) < self.lengths[:, None]

    def ends(self, *, time_limits: bool) -> NDArray[np.bool_]:
        """(N, T), true for the last step of an episode that terminated, or that ended at all with `time_limits`."""
        last = np.arange(self.actions.shape[1]) == self.lengths[:, None] - 1
        return last & (self.terminated | time_limits)[:, None]

    @property
    def returns(self) -> NDArray[np.float32]:
        """(N,), the undiscounted sum of external rewards."""
        return self.rewards.sum(axis=1)

    @property
    def num_steps(self) -> int:
        """Environment steps in all episodes together."""
        return int(self.lengths.sum())


def check_episodes(env: VectorizedEnv, episodes: int, advice: str) -> None:
    """Refuse more whole episodes at once than fit into memory; `advice` says what to do."""
    steps = episodes * (env.horizon + 1)
    memory.check(4 * steps * (sum(sizes(env)) + 1), f"{episodes} episodes of {env.horizon} steps", advice)


def collect(env: VectorizedEnv, act: Act, *, seed: int | list[int | None]) -> Trajectories:
    """One episode of each of the environment's copies, from a reset with `seed` (or a seed for each).

    `act(states, t)` maps the whole batch of current states (N, n) to actions (N, m); make it one jitted call. What it
    answers for copies that have ended already is ignored.
    """
    count, horizon = env.num_envs, env.horizon
    check_episodes(env, count, "ask for fewer or shorter ones")
    obs, _ = env.reset(seed=seed)
    state_dim, action_dim = obs.shape[1], env.single_action_space.shape[0]
    # Time first while collecting: each step then writes one contiguous block.
    states = np.zeros((horizon + 1, count, state_dim), np.float32)
    actions = np.zeros((horizon, count, action_dim), np.float32)
    rewards = np.zeros((horizon, count), np.float32)
    lengths = np.zeros(count, np.int64)
    terminated = np.zeros(count, bool)
    running = np.ones(count, bool)
    states[0] = obs
    for step in range(horizon):
        action = np.asarray(act(np.asarray(obs, np.float32), step))
        obs, reward, ended, cut, info = env.step(action)
        reached = obs
        if "final_obs" in info:  # the environment starts anew by itself
            reached = obs.copy()
            reached[info["_final_obs"]] = np.stack(info["final_obs"][info["_final_obs"]])
        states[step + 1] = np.where(running[:, None], reached, states[step])
        actions[step] = np.where(running[:, None], action, 0.0)
        rewards[step] = np.where(running, reward, 0.0)
        lengths += running
        terminated |= running & ended
        running &= ~(ended | cut)
        if not running.any():
            states[step + 2 :] = states[step + 1]
            break
    return Trajectories(states.swapaxes(0, 1), actions.swapaxes(0, 1), rewards.swapaxes(0, 1), lengths, terminated)
