"""Our batched environments as ordinary single Gymnasium environments, registered as `ibol/...`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from ibol.envs.base import BatchedEnv, Floats


class SingleEnv(gymnasium.Env[Floats, Any]):
    """One simulation of a batched environment behind Gymnasium's single-environment interface."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, env_name: str, **options: Any) -> None:
        from ibol.envs import make

        batched = make(env_name, num_envs=1, num_threads=1, autoreset=AutoresetMode.DISABLED, **options)
        assert isinstance(batched, BatchedEnv)
        self._batched = batched
        self.observation_space = batched.single_observation_space
        self.action_space = batched.single_action_space

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


def register_envs(names: list[str]) -> None:
    """Register each named environment as `ibol/CamelCase-v0`."""
    for name in names:
        env_id = "ibol/" + "".join(part.capitalize() for part in name.split("_")) + "-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point="ibol.envs.single:SingleEnv", kwargs={"env_name": name})
