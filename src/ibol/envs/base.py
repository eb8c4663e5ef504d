"""The batched environment that everything else stands on: a Gymnasium `VectorEnv` with whole-batch stepping.

`BatchedEnv` keeps the books that every batch of simulations needs (seeds, episode ends, automatic resets, the final
observation); a subclass says how its simulations are reset and advanced.
"""

import warnings
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from ibol.bounds import whole_number
from ibol.envs.checks import action_array, autoreset_mode, check_copies, reset_mask, seed_list
from ibol.envs.robots import Robot
from ibol.errors import IbolError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_COPY_BYTES = 2048  # of a simulation's generator and all else that is not its state
NOMINAL_DT = 0.05  # seconds in a step of an environment without a clock


class BatchedEnv(VectorEnv[Floats, Floats, NDArray[Any]]):
    """Many copies of one environment, stepped together; actions are in [-1, 1]^m.

    Environment `i` after `reset(seed=s)` behaves exactly as a single environment after `reset(seed=s + i)`, in later
    episodes too, whatever `num_envs` and the number of threads. A copy (`copy.deepcopy`, `pickle`) goes on exactly as
    the original does.

    With `autoreset=AutoresetMode.SAME_STEP` (the default) an ended episode starts anew within the same `step`, whose
    `info` holds the last observation in `final_obs` where `_final_obs` is true; with `NEXT_STEP` it starts anew at the
    following `step`, which ignores that environment's action; with `DISABLED` the environment rests where it ended
    (costing nothing) until `reset(options={"reset_mask": mask})`. A mode's name or value, such as "SameStep", does too.
    """

    name: str
    horizon: int
    action_dim: int
    location_dims: tuple[int, ...]
    robot: Robot | None = None
    """What is simulated, if it is a robot."""
    dt: float = NOMINAL_DT
    """Seconds in a step."""

    def __init__(
        self,
        name: str,
        *,
        num_envs: int,
        state_dim: int,
        action_dim: int,
        horizon: int,
        location_dims: tuple[int, ...],
        seed: int,
        autoreset: AutoresetMode | str,
    ) -> None:
        self.name = name
        self.num_envs = num_envs = whole_number("num_envs", num_envs)
        check_copies(name, num_envs, _COPY_BYTES + 64 * state_dim)
        self.horizon = whole_number("horizon", horizon)
        self.location_dims = location_dims
        self.action_dim = action_dim
        self.autoreset = autoreset_mode(autoreset)
        self.metadata = {"autoreset_mode": self.autoreset, "render_modes": []}
        self.single_observation_space = Box(-np.inf, np.inf, (state_dim,), np.float64)
        self.single_action_space = Box(-1.0, 1.0, (action_dim,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.divergences = np.zeros(num_envs, np.int64)
        self._rngs = [np.random.default_rng(one) for one in seed_list(seed, num_envs)]
        self._obs = np.zeros((num_envs, state_dim))
        self._elapsed = np.zeros(num_envs, np.int64)
        self._terminated = np.zeros(num_envs, bool)
        self._truncated = np.zeros(num_envs, bool)
        self._was_reset = False

    # What a subclass provides.

    def _reset(self, ids: Ints) -> Floats:
        """Put the simulations `ids` into fresh initial states drawn from `self._rngs`; return their observations."""
        raise AssertionError("a subclass says how it is reset")

    def _advance(self, actions: Floats, ids: Ints | None) -> tuple[Floats, Floats, Bools, Bools]:
        """Advance the simulations `ids` (None: all) by one step.

        Returns observations (N, n) in a new array, rewards (N,), terminated (N,) and diverged (N,); rows that are
        not in `ids` are ignored.
        """
        raise AssertionError("a subclass says how it moves")

    def _forfeit(self, ids: Ints) -> Floats:
        """Rewards (len(ids),) for the rest of the episodes of `ids`, which are cut because they diverged."""
        return np.zeros(len(ids))

    def shown(self) -> tuple[Floats, Floats | None]:
        """What a picture of the first environment shows: its state (n,), and where it should be (k,), if anywhere."""
        return self._obs[0], None

    # Gymnasium's interface.

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Start new episodes in all environments, or in those of `options["reset_mask"]`.

        A seed is for these environments only: environment `i` gets `seed + i`, or the entry `i` of a list, where None
        lets its generator go on.
        """
        mask = reset_mask(options, self.num_envs)
        if mask is not None and not self._was_reset:
            raise IbolError("reset all environments once before resetting some of them with reset_mask")
        ids = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        seeds = [None] * self.num_envs if seed is None else seed_list(seed, self.num_envs)
        for i in ids:
            if seeds[i] is not None:
                self._rngs[i] = np.random.default_rng(seeds[i])
        self._restart(ids)
        self._was_reset = True
        return self._obs.copy(), {}

    def step(self, actions: ArrayLike) -> tuple[Floats, Floats, Bools, Bools, dict[str, Any]]:
        """Advance every environment whose episode has not ended by one step."""
        if not self._was_reset:
            raise IbolError("call reset() before step()")
        acts = action_array(self, actions)
        ended_before = self._terminated | self._truncated
        resting = bool(ended_before.any())
        ids = np.flatnonzero(~ended_before) if resting else None
        before = self._obs
        obs, reward, terminated, diverged = self._advance(acts, ids)
        self._elapsed += 1
        truncated = self._elapsed >= self.horizon
        if resting:
            obs[ended_before] = before[ended_before]
            reward[ended_before] = 0.0
            diverged &= ~ended_before
            terminated = np.where(ended_before, self._terminated, terminated)
            truncated = np.where(ended_before, self._truncated, truncated)
        if diverged.any():
            self._note_divergence(diverged)
            obs[diverged] = before[diverged]
            reward[diverged] = self._forfeit(np.flatnonzero(diverged))
            terminated = terminated & ~diverged
            truncated = truncated | diverged
        info: dict[str, Any] = {"divergences": self.divergences.copy()}
        self._obs, self._terminated, self._truncated = obs, terminated, truncated
        ended = terminated | truncated
        if self.autoreset == AutoresetMode.SAME_STEP and ended.any():
            info["final_obs"], info["_final_obs"] = obs.copy(), ended
            self._restart(np.flatnonzero(ended))
        elif self.autoreset == AutoresetMode.NEXT_STEP and resting:
            self._restart(np.flatnonzero(ended_before))
            terminated, truncated = self._terminated, self._truncated
        return self._obs.copy(), reward, terminated.copy(), truncated.copy(), info

    def _restart(self, ids: Ints) -> None:
        """Begin new episodes in `ids`."""
        if not len(ids):
            return
        self._obs = self._obs.copy()
        self._terminated, self._truncated = self._terminated.copy(), self._truncated.copy()
        self._obs[ids] = self._reset(ids)
        self._elapsed[ids] = 0
        self._terminated[ids] = False
        self._truncated[ids] = False

    def _note_divergence(self, diverged: Bools) -> None:
        self.divergences += diverged
        ids = np.flatnonzero(diverged)
        warnings.warn(
            f"the simulation of {self.name} diverged in environment {', '.join(map(str, ids[:5]))}"
            f"{' and others' if len(ids) > 5 else ''}: its episode was cut there "
            f"({int(self.divergences.sum())} so far)",
            RuntimeWarning,
            stacklevel=3,
        )
