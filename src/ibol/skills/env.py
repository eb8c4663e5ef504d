"""Skills as an environment: the action is the latent of the skill to use next."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.bounds import whole_number
from ibol.envs.rendering import RENDER_MODES, Image, Renderer
from ibol.errors import IbolError
from ibol.skills.policy import Skills, load_skills


class SkillEnv(gymnasium.Env[NDArray[np.float64], Any]):
    """A Gymnasium environment on top of skills, for any reinforcement-learning library.

    One step holds a latent in [-2, 2]^d, or the number of a discrete skill, for `hold` macro steps of the skill policy
    (its mode); the reward is the sum of the environment's own rewards meanwhile, the observation the raw state.

    Args:
        skills: skills, or the run directory that holds them.
        hold: macro steps for which a latent is held, the paper's l_m.
        render_mode: "rgb_array" for pictures of one of our own environments, None for none.
    """

    metadata = {"render_modes": RENDER_MODES}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, skills: Skills | str | Path, hold: int = 1, render_mode: str | None = None) -> None:
        self.hold = whole_number("hold", hold)
        self.skills = load_skills(skills) if isinstance(skills, str | Path) else skills
        if not isinstance(self.skills, Skills):
            raise IbolError(f"skills are {skills!r}, but skills or the directory of a run are needed")
        self.env = self.skills.make_env(1)
        self.observation_space = self.env.single_observation_space
        self.action_space = self.skills.prior.action_space()
        self.render_mode = render_mode
        self._renderer = Renderer(self.env, render_mode)
        self.metadata = self._renderer.metadata(self.hold * self.skills.macro_length)
        self._obs: NDArray[np.float64] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=None if seed is None else whole_number("seed", seed, 0))
        self._obs, _ = self.env.reset(seed=seed)
        return self._obs[0], {}

    def step(self, action: ArrayLike) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Use the skill of one latent."""
        if self._obs is None:
            raise IbolError("call reset() before step()")
        act = self.skills.controller(self.skills.prior.from_action(action)[None], deterministic=True)
        total, terminated, truncated = 0.0, False, False
        for step in range(self.hold * self.skills.macro_length):
            self._obs, reward, ended, cut, _ = self.env.step(act(self._obs.astype(np.float32), step))
            total, terminated, truncated = total + float(reward[0]), bool(ended[0]), bool(cut[0])
            if terminated or truncated:
                break
        return self._obs[0], total, terminated, truncated, {}

    def render(self) -> Image | None:
        """A picture (height, width, 3) of the present state; None without a render mode."""
        if self._obs is None:
            raise IbolError("call reset() before render()")
        return self._renderer.picture()

    def close(self) -> None:
        """Close the environment below."""
        self._renderer.close()
        self.env.close()
