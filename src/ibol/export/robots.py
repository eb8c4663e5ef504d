"""What drives a robot besides its networks: names and order of what it sees and does, clock and ends, and its model."""

from collections.abc import Iterable
from typing import Any

import mujoco

from ibol.envs import Env, RobotEnv, sizes

MODEL_FILE = "robot.xml"
_AXES = "xyz"


def describe_env(env: Env) -> dict[str, Any]:
    """The environment's entries of `skills.json`; names are MuJoCo's where it is a robot."""
    if isinstance(env, RobotEnv):
        return _describe_robot(env)
    states, actions = sizes(env)
    return {
        "clock": None,
        "episode": {"steps": env.horizon, "ends_outside": []},
        "observation": [{"name": f"observation {i}", "from": "observation", "index": i} for i in range(states)],
        "action": [{"name": f"action {i}"} for i in range(actions)],
        "model": None,
    }


def model_files(env: Env) -> dict[str, bytes]:
    """The robot's model as a file; its total mass, where one is asked for, is an entry of `skills.json` instead."""
    if not isinstance(env, RobotEnv):
        return {}
    return {MODEL_FILE: env.model_file()[0].encode()}


def _describe_robot(env: RobotEnv) -> dict[str, Any]:
    model, robot = env.model, env.robot
    timestep = float(model.opt.timestep)
    clip = robot.velocity_clip
    ends: list[list[Any]] = [] if robot.healthy_height is None else [[2, *robot.healthy_height]]
    shown = robot.shown(model.nq + model.nv)
    ends += [[shown.index(value), *bounded(ends)] for value, *ends in robot.healthy if value in shown]
    if robot.terminates_when_fallen:
        ends.append([len(env.layout()) - 1, 0.95, 1.0])
    return {
        "clock": {
            "physics_timestep": timestep,
            "frame_skip": robot.frame_skip,
            "control_timestep": robot.frame_skip * timestep,
        },
        "episode": {"steps": env.horizon, "ends_outside": ends if env.terminate else []},
        "observation": [
            {**_value(model, source, index), **({"clip": clip} if clip is not None and source == "qvel" else {})}
            for source, index in env.layout()
        ],
        "action": _actions(env),
        "model": {"file": MODEL_FILE, "total_mass": env.model_file()[1]},
    }


def bounded(ends: Iterable[float]) -> list[float | None]:
    """The ends of a range; none where it has no end."""
    return [None if abs(end) == float("inf") else end for end in ends]


def _value(model: Any, source: str, index: int) -> dict[str, Any]:
    """One value of a state: its name, unit and place."""
    if source in ("qpos", "qvel"):
        name, unit = (_position if source == "qpos" else _velocity)(model, index)
    elif source == "action":
        name, unit = f"last action of {_actuator(model, index)}", ""
    else:
        name, unit = "cosine between the upward axes of the torso and the world", ""
    return {"name": name, "unit": unit, "from": source, "index": index}


def _position(model: Any, index: int) -> tuple[str, str]:
    joint = next(i for i in reversed(range(model.njnt)) if model.jnt_qposadr[i] <= index)
    name, within = _joint(model, joint), index - int(model.jnt_qposadr[joint])
    if model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
        return f"{name} position", _unit(model, joint)
    return (f"{name} {_AXES[within]}", "m") if within < 3 else (f"{name} quaternion {'wxyz'[within - 3]}", "")


def _velocity(model: Any, index: int) -> tuple[str, str]:
    joint = int(model.dof_jntid[index])
    name, within = _joint(model, joint), index - int(model.jnt_dofadr[joint])
    if model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE:
        return f"{name} velocity", f"{_unit(model, joint)}/s"
    if within < 3:
        return f"{name} velocity {_AXES[within]}", "m/s"
    return f"{name} angular velocity {_AXES[within - 3]}", "rad/s"


def _joint(model: Any, joint: int) -> str:
    return mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, joint) or f"joint {joint}"


def _unit(model: Any, joint: int) -> str:
    return "m" if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE else "rad"


def _actuator(model: Any, index: int) -> str:
    """The actuator's name, or that of its joint."""
    named = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, index)
    return named or _joint(model, int(model.actuator_trnid[index, 0]))


def _actions(env: RobotEnv) -> list[dict[str, Any]]:
    """The actuators in the order of actions, and the controls that -1 and 1 stand for."""
    model, (low, high) = env.model, env.control_range()
    entries = []
    for index in range(model.nu):
        joint = int(model.actuator_trnid[index, 0])
        entry: dict[str, Any] = {
            "name": _actuator(model, index),
            "joint": _joint(model, joint),
            "qpos": int(model.jnt_qposadr[joint]),
            "control": [float(low[index]), float(high[index])],
            "max_lead": env.max_lead,
        }
        entries.append(entry)
    return entries
