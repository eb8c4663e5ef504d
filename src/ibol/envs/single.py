"""Our batched environments as ordinary single Gymnasium environments, registered as `ibol/...`."""

import copy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from ibol.bounds import whole_number
from ibol.envs.base import Floats
from ibol.envs.registry import ENVS, check_options
from ibol.envs.rendering import RENDER_MODES, Image, Renderer
from ibol.errors import IbolError


class SingleEnv(gymnasium.Env[Floats, Any]):
    """One simulation of a batched environment behind Gymnasium's single-environment interface.

    A copy (`copy.deepcopy`, `pickle`) goes on exactly as the original does.

    Args:
        env_name: a name of `ibol.envs.ENVS`.
        horizon: episode length in steps (None: the environment's own).
        render_mode: "rgb_array" for pictures, None for none.
        width: of a picture, in pixels.
        height: of a picture, in pixels.
        options: those of the environment (see `ibol.make`).
    """

    metadata = {"render_modes": RENDER_MODES}  # noqa: RUF012 (Gymnasium's own declaration)
    _spec: EnvSpec | None = None

    def __init__(
        self,
        env_name: str,
        *,
        horizon: int | None = None,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 360,
        **options: Any,
    ) -> None:
        entry = ENVS[env_name]
        check_options(env_name, options, [*entry.options, "horizon", "render_mode", "width", "height"])
        self._batched = entry.build(
            num_envs=1, num_threads=1, horizon=horizon, autoreset=AutoresetMode.DISABLED, **options
        )
        self.observation_space = self._batched.single_observation_space
        self.action_space = self._batched.single_action_space
        self.render_mode = render_mode
        self._renderer = Renderer(self._batched, render_mode, width, height)
        self.metadata = self._renderer.metadata()

    @property
    def spec(self) -> EnvSpec | None:
        """How Gymnasium made it, with the episode length: the environment itself ends its episodes."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = copy.copy(spec)
        if self._spec is not None:
            self._spec.max_episode_steps = self._batched.horizon

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Start a new episode; until the first seed is given, one that nobody can foresee."""
        super().reset(seed=None if seed is None else whole_number("seed", seed, 0))
        self._batched._rngs = [self.np_random]
        obs, info = self._batched.reset()
        return obs[0], info

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Advance by one step."""
        obs, reward, terminated, truncated, info = self._batched.step([action])
        infos = {key: value[0] for key, value in info.items()}
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), infos

    def render(self) -> Image | None:
        """A picture (height, width, 3) of the present state; None without a render mode."""
        if not self._batched._was_reset:
            raise IbolError("call reset() before render()")
        return self._renderer.picture()

    def close(self) -> None:
        """Close what pictures were made with."""
        self._renderer.close()


def register_envs() -> None:
    """Register all our environments with Gymnasium, whose own time limit none of them needs."""
    for name, entry in ENVS.items():
        if entry.gym_id not in gymnasium.registry:
            gymnasium.register(entry.gym_id, entry_point="ibol.envs.single:SingleEnv", kwargs={"env_name": name})
