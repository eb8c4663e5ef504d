"""PointEnv: a point in the plane that moves by its action; the paper's toy for ablations."""

import numpy as np
from gymnasium.vector import AutoresetMode

from ibol.envs.base import BatchedEnv, Bools, Floats, Ints
from ibol.envs.checks import thread_count

STEP_SIZE = 0.1
START_RANGE = 0.05
HORIZON = 50


class PointEnv(BatchedEnv):
    """s in R^2, s' = s + 0.1 a, s_0 ~ U[-0.05, 0.05]^2, 50 steps; external reward: the distance along x.

    It needs no threads, however many are given.
    """

    def __init__(
        self,
        *,
        num_envs: int = 1,
        num_threads: int | None = None,
        seed: int = 0,
        horizon: int | None = None,
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        thread_count(num_threads)
        super().__init__(
            "point",
            num_envs=num_envs,
            state_dim=2,
            action_dim=2,
            horizon=HORIZON if horizon is None else horizon,
            location_dims=(0, 1),
            seed=seed,
            autoreset=autoreset,
        )

    def _reset(self, ids: Ints) -> Floats:
        return np.stack([self._rngs[i].uniform(-START_RANGE, START_RANGE, 2) for i in ids])

    def _advance(self, actions: Floats, ids: Ints | None) -> tuple[Floats, Floats, Bools, Bools]:
        never = np.zeros(self.num_envs, bool)
        return self._obs + STEP_SIZE * actions, STEP_SIZE * actions[:, 0], never, never.copy()
