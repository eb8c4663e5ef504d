"""The linearized environment: an environment whose action is the goal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ibol.bounds import array
from ibol.envs import Env
from ibol.envs.checks import action_array, dimensions
from ibol.errors import IbolError
from ibol.linearizer.policy import Distortion, Linearizer


class LinearizedEnv(VectorEnv[Any, Any, Any]):
    """One step holds a goal for `l` steps of the linearizer's mode.

    The observation is the raw state after them, the reward the sum of theirs. An episode that ends within them ends the
    step there; it then rests until the next reset. `info["states"]` has the states after each of them, (N, l, n).

    Args:
        env: a batch of the linearizer's environment with automatic resets disabled (`linearizer.make_env(N)`).
        linearizer: what turns goals into actions.
        goal_dims: the goal dimensions that the action sets (None: all); the others are 0.
        distortion: maps goals (N, goal_dim) to the goals that the linearizer really gets.
    """

    def __init__(
        self,
        env: Env,
        linearizer: Linearizer,
        *,
        goal_dims: Sequence[int] | None = None,
        distortion: Distortion | None = None,
    ) -> None:
        if env.name != linearizer.env:
            raise IbolError(f"the linearizer was trained in {linearizer.env}, but the environment is {env.name}")
        if env.autoreset != AutoresetMode.DISABLED:
            raise IbolError("LinearizedEnv needs an environment without automatic resets: use linearizer.make_env(N)")
        every = range(linearizer.goal_dim)
        chosen = list(dimensions("goal_dims", every if goal_dims is None else goal_dims, linearizer.goal_dim))
        if not chosen:
            raise IbolError(f"goal_dims is empty, but at least one dimension from 0 to {every[-1]} is needed")
        self.env, self.linearizer = env, linearizer
        self._obs: NDArray[np.float64] | None = None
        self.goal_dims, self.distortion = chosen, distortion
        self.name = env.name
        self.num_envs = env.num_envs
        self.autoreset = env.autoreset
        self.location_dims = env.location_dims
        self.macro_length = linearizer.macro_length
        self.horizon = -(-env.horizon // self.macro_length)
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED, "render_modes": []}
        self.single_observation_space = env.single_observation_space
        self.observation_space = env.observation_space
        self.single_action_space = Box(-1.0, 1.0, (len(chosen),), np.float32)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._obs = obs
        return obs, info

    def step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Hold the goals for one macro step."""
        if self._obs is None:
            raise IbolError("call reset() before step()")
        goals = np.zeros((self.num_envs, self.linearizer.goal_dim), np.float32)
        goals[:, self.goal_dims] = action_array(self, actions)
        act = self.linearizer.act_on(lambda obs, step: goals, self.distortion)
        reward = np.zeros(self.num_envs)
        states = np.empty((self.num_envs, self.macro_length, self._obs.shape[1]))
        info: dict[str, Any] = {}
        for i in range(self.macro_length):
            # A resting environment answers with its last state, no reward, and its end again.
            self._obs, step_reward, terminated, truncated, info = self.env.step(act(self._obs, i))
            reward += step_reward
            states[:, i] = self._obs
            if (terminated | truncated).all():
                states[:, i + 1 :] = self._obs[:, None]
                break
        return self._obs, reward, terminated, truncated, {**info, "states": states}

    def close(self, **kwargs: Any) -> None:
        """Close the environment below."""
        self.env.close(**kwargs)


def squeeze_y(goals: NDArray[np.float32], *, factor: float = 0.2) -> NDArray[np.float32]:
    """Our distortion of the goal's x-y plane: the length stays, but only goals nearly along y still go there.

    (g_x, g_y) becomes r (g_x, k g_y) / |(g_x, k g_y)| with r = |(g_x, g_y)|. The paper shows its own map only as a
    figure.
    """
    goals = array("goals", goals, "N", "n", dtype=np.float32)
    squeezed = goals[:, :2] * np.array([1.0, factor], np.float32)
    length, radius = np.linalg.norm(squeezed, axis=1), np.linalg.norm(goals[:, :2], axis=1)
    scale = np.divide(radius, length, out=np.zeros_like(length), where=length > 0)
    return np.concatenate([squeezed * scale[:, None], goals[:, 2:]], axis=1)
