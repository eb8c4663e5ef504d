"""Skills in Gymnasium's own robots: how its observations and actions map to those of ibol.

pip install ibol 'gymnasium[mujoco]'
python examples/skills_in_gymnasium.py ant 1.5 0     # bundled skills or a run, and a latent
"""

import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import ibol

# What makes Gymnasium's observation ours, qpos followed by qvel, and keeps its episodes from ending early.
ONLY_STATE = {f"include_{part}_in_observation": False for part in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")}
ROBOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ant": ("Ant-v5", {"include_cfrc_ext_in_observation": False, "terminate_when_unhealthy": False}),
    "half_cheetah": ("HalfCheetah-v5", {}),
    "hopper": ("Hopper-v5", {"terminate_when_unhealthy": False}),
    "humanoid": ("Humanoid-v5", ONLY_STATE),  # ours ends, too, when its height leaves [1, 2]
}


def make(robot: str, horizon: int, **options: Any) -> gymnasium.Env:
    """Gymnasium's environment of a robot, with our observation and the horizon that skills are trained for."""
    name, needed = ROBOTS[robot]
    return gymnasium.make(
        name, max_episode_steps=horizon, exclude_current_positions_from_observation=False, **needed, **options
    )


def drive(env: gymnasium.Env, act: Callable[[Any, int], Any], seed: int = 0) -> np.ndarray:
    """The states of an episode, (steps + 1, n); `act` is a controller of ibol for one environment."""
    states, step, ended = [env.reset(seed=seed)[0]], 0, False
    while not ended:
        action = act(states[-1][None].astype(np.float32), step)[0]  # in [-1, 1], joints in Gymnasium's order
        state, _, terminated, truncated, _ = env.step(action * env.action_space.high)
        states.append(state)
        step, ended = step + 1, terminated or truncated
    return np.array(states)


if __name__ == "__main__":
    skills = ibol.load_skills(sys.argv[1])
    latent = np.array([[float(value) for value in sys.argv[2:]]])
    env = make(skills.env, horizon=skills.make_env(1).horizon)
    states = drive(env, skills.controller(latent, deterministic=True))
    print(f"after {len(states) - 1} steps at {states[-1, list(skills.location_dims)].round(2)} m")
