"""What the page simulates: a robot's model and all that makes its observations and episodes, as plain values."""

import dataclasses
from typing import Any

import mujoco
import numpy as np

from ibol.envs import DKittyEnv, PointEnv, RobotEnv
from ibol.envs.dkitty import RANGES
from ibol.envs.point import START_RANGE, STEP_SIZE
from ibol.envs.robots import model_text
from ibol.errors import IbolError

_FIELDS = (
    "body_mass", "body_inertia", "dof_damping", "dof_frictionloss", "actuator_gainprm", "actuator_biasprm",
    "geom_friction",
)  # fmt: skip
"""Arrays of a model that may differ from what its file says (a total mass); the page sets them as they are here."""


def body_of(env: Any) -> tuple[dict[str, Any], list[str]]:
    """The body of one of our environments, and what the page leaves out of it, in sentences."""
    if isinstance(env, PointEnv):
        return {"kind": "point", "step_size": STEP_SIZE, "start_range": START_RANGE, "dt": env.dt}, []
    if not isinstance(env, RobotEnv):
        raise IbolError(
            f"the page cannot simulate {env.name}: it shows skills and linearizers of our own robots and the point; "
            "draw others with 'ibol plot'"
        )
    robot, notes = env.robot, list[str]()
    ranges = dataclasses.asdict(RANGES) if isinstance(env, DKittyEnv) and env.randomize else None
    if ranges is not None:
        notes.append("Dynamics and rough ground are drawn anew at every reset; beyond 4.5 m the ground is flat.")
    low, high = env.control_range()
    body = {
        "kind": "robot",
        "xml": model_text(robot),
        "fields": {name: np.asarray(getattr(env.model, name), np.float64).ravel() for name in _FIELDS},
        "ranges": ranges,
        "frame_skip": robot.frame_skip,
        "dt": env.dt,
        "num_positions": robot.num_positions,
        "qpos_noise": robot.qpos_noise,
        "qvel_noise": robot.qvel_noise,
        "qvel_noise_is_normal": robot.qvel_noise_is_normal,
        "velocity_clip": robot.velocity_clip,
        "ctrl_scale": ((high - low) / 2).tolist(),
        "ctrl_offset": ((high + low) / 2).tolist(),
        "max_lead": env.max_lead,
        "fallen": robot.fallen,
        "healthy_height": robot.healthy_height,
        "healthy": [[value, *(None if abs(end) == np.inf else end for end in ends)] for value, *ends in robot.healthy],
        "start": None if robot.start is None else list(robot.start),
        "shown": list(robot.shown(env.model.nq + env.model.nv)) if robot.hidden else None,
        "camera": robot.camera,
        "square": robot.square,
    }
    if env.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4.value:
        notes.append("It is integrated by RK4, in which the two versions of MuJoCo differ slightly.")
    return body, notes
