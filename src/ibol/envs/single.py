"""Our batched environments as ordinary single Gymnasium environments, registered as `ibol/...`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from ibol.envs.base import Floats
from ibol.envs.registry import ENVS, check_options


class SingleEnv(gymnasium.Env[Floats, Any]):
    """One simulation of a batched environment behind Gymnasium's single-environment interface."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, env_name: str, *, horizon: int | None = None, **options: Any) -> None:
        entry = ENVS[env_name]
        check_options(env_name, options, [*entry.options, "horizon"])
        self._batched = entry.build(
            num_envs=1, num_threads=1, horizon=horizon, autoreset=AutoresetMode.DISABLED, **options
        )
        self.observation_space = self._batched.single_observation_space
        self.action_space = self._batched.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start a new episode, without a seed one that nobody can foresee."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        obs, info = self._batched.reset(seed=seed)
        return obs[0], info

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Advance by one step."""
        obs, reward, terminated, truncated, info = self._batched.step(np.asarray(action)[None])
        infos = {key: value[0] for key, value in info.items()}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), infos


def register_envs() -> None:
    """Register all our environments with Gymnasium."""
    for name, entry in ENVS.items():
        if entry.gym_id not in gymnasium.registry:
            gymnasium.register(entry.gym_id, entry_point="ibol.envs.single:SingleEnv", kwargs={"env_name": name})
