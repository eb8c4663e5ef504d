"""The loading of a robot's model, and when it has fallen; the robots themselves are in `registry.py`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

from ibol.robots.model import quiet_mujoco, untimed_mujoco
from ibol.robots.robot import Robot

__all__ = ["Robot", "has_fallen", "load_model", "model_path", "model_text", "quiet_mujoco", "untimed_mujoco"]

_MODELS = Path(__file__).parent / "models"


def has_fallen(robot: Robot, states: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which of the robot's states (..., n) it cannot move on from."""
    if robot.fallen == "upside_down":
        return np.asarray(states[..., 4] ** 2 + states[..., 5] ** 2 > 0.5)  # its own upward axis points down
    if robot.fallen == "lying":
        return np.asarray(np.abs(states[..., 2]) > 1.0)  # pitched by more than a radian
    if robot.fallen == "tipped":
        return np.asarray(states[..., -1] < 0.95)  # the cosine between its own upward axis and the world's
    return np.zeros(states.shape[:-1], bool)


def model_path(robot: Robot) -> Path:
    """The robot's file: our own, or Gymnasium's."""
    own = _MODELS / robot.model_file
    return own if own.is_file() else Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / robot.model_file


def model_text(robot: Robot) -> str:
    """The robot's model as the text of an MJCF file."""
    return robot.model or model_path(robot).read_text()


def load_model(robot: Robot, change: Callable[[Any], None] = lambda spec: None) -> Any:
    """The robot's `mujoco.MjModel`, read from its file; `change` may alter its `MjSpec`."""
    with quiet_mujoco():
        path = str(model_path(robot))
        spec = mujoco.MjSpec.from_string(robot.model) if robot.model else mujoco.MjSpec.from_file(path)
        change(spec)
        if robot.total_mass is not None:
            spec.compiler.settotalmass = -1
        model = spec.compile()
        if robot.total_mass is not None:
            mujoco.mj_setTotalmass(model, robot.total_mass)
            mujoco.mj_setConst(model, mujoco.MjData(model))
    # A single robot is one constraint island: a search for islands costs 5 % and changes no bit of the result.
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    return model
