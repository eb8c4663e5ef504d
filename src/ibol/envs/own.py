"""Own robots: from a description and a model file to a robot that is known by its name."""

import dataclasses
from pathlib import Path
from typing import Any

import mujoco

from ibol import bounds
from ibol.envs.symmetry_search import check_symmetries, find_symmetries
from ibol.errors import IbolError
from ibol.robots import kept
from ibol.robots.model import MOST_TEXT, check_text, quiet_mujoco, read_spec, self_contained
from ibol.robots.own import OwnRobot, check, joint_name, read_description, robot_of
from ibol.robots.robot import Robot

ENDING = ".toml"
_MOTOR_DEFAULT = "give it one in the model (actuatorfrcrange, in URDF effort), or actuators of its own"
_LARGEST_ANGLE = 3.14159


def is_description(env: Any) -> bool:
    """Whether the name of an environment is the path of an own robot's description."""
    return isinstance(env, str) and env.endswith(ENDING)


def load_robot(path: str | Path) -> Robot:
    """The own robot that a TOML file describes, known from now on by the `name` of the result."""
    file = bounds.path("env", path)
    if not file.is_file():
        raise IbolError(f"there is no robot {file}: an own robot is a TOML file that names its model")
    if file.stat().st_size > MOST_TEXT:
        raise IbolError(f"{file} is too large for the description of a robot")
    try:
        content = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise IbolError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    return robot_from(read_description(file, content), str(file), file.parent)


def robot_from(own: OwnRobot, where: str = "the robot", folder: Path | None = None) -> Robot:
    """The own robot of a description, whose model is relative to a folder, known from now on."""
    if not own.name:
        own = dataclasses.replace(own, name=Path(str(own.model)).stem)
    check(own, where)
    path = (folder or Path()) / own.model
    text, start = _model_of(own, path)
    robot = robot_of(own, text, where, start, find_symmetries)
    check_symmetries(robot, where)
    return kept.named(robot)


def _model_of(own: OwnRobot, path: Path) -> tuple[str, tuple[float, ...] | None]:
    """The model's text, without any other file, and the qpos that episodes start from."""
    spec = read_spec(path)
    _add_parts(own, spec, str(path))
    with quiet_mujoco():
        try:
            model = spec.compile()
        except (ValueError, mujoco.FatalError) as error:
            raise IbolError(f"MuJoCo cannot read the model {path}: {' '.join(str(error).split())[:300]}") from None
    start = _start_of(own, model, path)
    if not (own.floating or own.floor or own.actuators != "model"):
        text = path.read_text(errors="replace")
        try:
            check_text(text, str(path))
            return text, start  # it needs no other file as it is
        except IbolError:
            pass
    return self_contained(spec, str(path)), start


def _start_of(own: OwnRobot, model: Any, path: Path) -> tuple[float, ...] | None:
    if isinstance(own.start, tuple):
        if len(own.start) != model.nq:
            raise IbolError(f"start has {len(own.start)} values, but qpos of the model {path} has {model.nq}")
        return tuple(float(value) for value in own.start)
    if not own.start:
        return None
    key = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, own.start)
    if key < 0:
        names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_KEY, i) or "" for i in range(model.nkey)]
        listed = ", ".join(filter(None, names)) or "none"
        raise IbolError(f"start is {own.start!r}, but the keyframes of the model {path} are {listed}")
    return tuple(float(value) for value in model.key_qpos[key])


def _add_parts(own: OwnRobot, spec: Any, source: str) -> None:
    """What a description adds to a model: a free joint, a floor and actuators."""
    root = spec.worldbody.first_body()
    if root is None:
        raise IbolError(f"the model {source} has no bodies, so that nothing moves")
    if own.floating:
        if root.joints:
            raise IbolError(f"floating adds a free joint, but the root of the model {source} has joints already")
        root.add_freejoint()
    if own.height is not None:
        root.pos = [*root.pos[:2], own.height]
    if own.floor:
        spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    if own.actuators != "model":
        _add_actuators(own, spec, source)


def _add_actuators(own: OwnRobot, spec: Any, source: str) -> None:
    if spec.actuators:
        raise IbolError(f"the model {source} has actuators, so that actuators = {own.actuators!r} cannot add some")
    moved = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    with quiet_mujoco():
        model = spec.copy().compile()
    for number, joint in enumerate(spec.joints):
        if joint.type not in moved:
            continue
        if not joint.name:
            joint.name = joint_name(model, number).replace(" ", "_")
        added = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if own.actuators == "motors":
            limit = float(max(abs(model.jnt_actfrcrange[number])))
            if not model.jnt_actfrclimited[number] or limit <= 0:
                raise IbolError(f"the joint {joint.name} of the model {source} has no force limit: {_MOTOR_DEFAULT}")
            added.set_to_motor()
            added.gear[0], ends = limit, (-1.0, 1.0)
        else:
            added.set_to_position(kp=own.stiffness, dampratio=1.0)
            ends = tuple(model.jnt_range[number]) if model.jnt_limited[number] else (-_LARGEST_ANGLE, _LARGEST_ANGLE)
        added.ctrllimited, added.ctrlrange = mujoco.mjtLimited.mjLIMITED_TRUE, ends
