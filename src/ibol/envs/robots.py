"""What describes a robot, and the loading of its model; the robots themselves are in `registry.py`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium
import mujoco
import numpy as np
from numpy.typing import NDArray

_MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Robot:
    """One robot: its model, its state, its episode and its external reward.

    The state is `qpos` followed by `qvel` (D'Kitty has more: see `dkitty.py`). The external reward of a step is
    `forward_weight * (x' - x) / dt + alive_reward - control_cost * |ctrl|^2` with `ctrl` in actuator units.
    """

    name: str
    summary: str
    model_file: str
    num_positions: int
    """Values of the state before the velocities: the size of `qpos`."""
    frame_skip: int
    horizon: int
    qpos_noise: float
    """Initial positions are the model's plus U(-qpos_noise, qpos_noise)."""
    qvel_noise: float
    """Initial velocities: scale of the normal or half-width of the uniform noise."""
    qvel_noise_is_normal: bool
    location_dims: tuple[int, ...]
    """Where the robot is: the dimensions that the linearizer does not see and the metrics are about."""
    control_cost: float
    rotation: Literal["pitch", "quaternion", "angles"] = "pitch"
    """How the torso turns: in a plane, or in space, with a quaternion or angles about x, y and z after its position."""
    fallen: Literal["upside_down", "lying", "tipped", "never"] = "never"
    """How it can end up unable to move on: rolled over, pitched by more than a radian (in a plane), or tilted."""
    terminates_when_fallen: bool = False
    alive_reward: float = 0.0
    forward_weight: float = 1.0
    velocity_clip: float | None = None
    healthy_height: tuple[float, float] | None = None
    """The episode terminates when the torso's height leaves this range."""
    total_mass: float | None = None
    """What the model file asks for through the deprecated `settotalmass`."""
    camera: tuple[float, float, float] = (90.0, -12.0, 3.8)
    """Where the camera of pictures and films is: azimuth, elevation (degrees) and distance (metres)."""
    square: float = 2.0
    """Side of a square of the floor in pictures and films (metres)."""
    goal_ranges: tuple[float, ...] = ()
    """HIRO's ranges of relative goals for its positions, in raw units (paper, appendix: choices of the reward)."""
    symmetry_generators: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = ()
    """Exchanges of position, rotation and joints that leave the physics as it is (see `symmetry.py`)."""


def has_fallen(robot: Robot, states: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Which of the robot's states (..., n) it cannot move on from."""
    if robot.fallen == "upside_down":
        return np.asarray(states[..., 4] ** 2 + states[..., 5] ** 2 > 0.5)  # its own upward axis points down
    if robot.fallen == "lying":
        return np.asarray(np.abs(states[..., 2]) > 1.0)
    if robot.fallen == "tipped":
        return np.asarray(states[..., -1] < 0.95)  # the cosine between its own upward axis and the world's
    return np.zeros(states.shape[:-1], bool)


def model_path(robot: Robot) -> Path:
    """The robot's file: our own, or Gymnasium's."""
    own = _MODELS / robot.model_file
    return own if own.is_file() else Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / robot.model_file


def load_model(robot: Robot, change: Callable[[Any], None] = lambda spec: None) -> Any:
    """The robot's `mujoco.MjModel`, read from its file; `change` may alter its `MjSpec`."""
    with quiet_mujoco():
        spec = mujoco.MjSpec.from_file(str(model_path(robot)))
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


@contextmanager
def quiet_mujoco() -> Iterator[None]:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT and to the terminal: we report what goes wrong ourselves."""
    before, silent = mujoco.MjLogConfig.get(), mujoco.MjLogConfig.get()
    silent.logto_file = False
    silent.logto_console = False
    silent.set()
    try:
        yield
    finally:
        before.set()
