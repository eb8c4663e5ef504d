"""The description of an own robot, as users write it in TOML or Python, and the robot that it and its model make."""

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from ibol import bounds
from ibol.bounds import Count, NonNegative, Positive
from ibol.errors import IbolError, unknown
from ibol.robots.model import compiled, quiet_mujoco
from ibol.robots.robot import Blocks, Fallen, Robot, Rotation

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")
_BLOCKS = ("position", "rotation", "joints")
_ALONG = 0.999  # cosine between an axis and the one that it is taken for
_SECONDS = 1.0  # for which a robot is watched before it is believed


@dataclass(frozen=True)
class OwnRobot:
    """A robot of your own: its model and what episodes with it are; the keys of its TOML file."""

    model: str
    """An MJCF or URDF file; in TOML relative to that file."""
    name: str = ""
    """What it is called (default: as its file)."""
    summary: str = "an own robot"
    frame_skip: Count = 5
    """Physics steps in a step of the environment."""
    horizon: Count = 200
    """Steps in an episode."""
    start: str | tuple[float, ...] = ""
    """The pose that episodes begin from: a keyframe of the model or all values of qpos (default: the model's own)."""
    qpos_noise: NonNegative = 0.01
    """Initial positions are those plus uniform noise up to this."""
    qvel_noise: NonNegative = 0.01
    """Initial velocities: half-width of the uniform noise, or scale of the normal one."""
    qvel_noise_is_normal: bool = False
    control_range: tuple[float | tuple[float, ...], ...] = ()
    """What actions -1 and 1 stand for: a pair of controls for all actuators or one for each (default: the model's)."""
    location: tuple[int | str, ...] | None = None
    """Where it is: names of slide joints, or numbers of state dimensions (default: found at the model's root)."""
    fallen: Literal["auto", "upside_down", "lying", "never"] = "auto"
    """How it ends up unable to move on: rolled over (needs a free joint), or pitched by more than a radian."""
    terminates_when_fallen: bool = False
    """Whether episodes end there."""
    healthy: tuple[tuple[float, ...], ...] = ()
    """Episodes end when a value of qpos and qvel leaves its range: [number, low, high] for each."""
    hidden: tuple[int, ...] = ()
    """Numbers of the values of qpos and qvel that the state leaves out."""
    symmetries: str | tuple[dict[str, Any], ...] = "auto"
    """Exchanges of limbs that the physics does not notice: auto, none, or tables of position, rotation and joints."""
    control_cost: NonNegative = 0.0
    """Of the external reward: times |ctrl|^2."""
    alive_reward: float = 0.0
    """Of the external reward, for each step."""
    forward_weight: float = 1.0
    """Of the external reward: times the velocity along the first location dimension."""
    velocity_clip: Positive | None = None
    """The state's velocities are cut at this size."""
    goal_range: Positive = 5.0
    """Metres around the origin in which the task of reaching a location has its goals."""
    camera: tuple[float, ...] = ()
    """Azimuth and elevation (degrees) and distance (metres) of pictures and films (default: so that it fits)."""
    square: Positive | None = None
    """Side of a square of the floor in pictures (metres)."""
    floating: bool = False
    """Give the root a free joint, which URDF files do not have."""
    height: float | None = None
    """Metres that a floating root starts above the ground (default: where the model has it)."""
    floor: bool = False
    """Add a floor."""
    actuators: Literal["model", "motors", "servos"] = "model"
    """Those of the model, or one for each hinge and slide: a motor up to the joint's force limit, or a servo."""
    stiffness: Positive = 50.0
    """Of servos (N m/rad)."""


Symmetric = Callable[[Robot, Any], tuple[Blocks, ...]]


def read_description(path: Path, content: str) -> OwnRobot:
    """The description in the text of a TOML file."""
    try:
        table = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise IbolError(f"{path} is not a valid TOML file: {error}") from None
    return described(table, str(path), path.stem)


def described(table: Mapping[str, Any], where: str, name: str) -> OwnRobot:
    """The description that a table holds; keys and values are checked."""
    known = [field.name for field in dataclasses.fields(OwnRobot)]
    for key in table:
        if key not in known:
            raise unknown("key", key, known, f" (in {where})")
    if not isinstance(table.get("model"), str) or not table["model"]:
        raise IbolError(f"{where} names no model: add model = 'FILE', the path of an MJCF or URDF file beside it")
    made = OwnRobot(**{"name": name, **{key: _frozen(value) for key, value in table.items()}})
    check(made, where)
    return made


def check(own: OwnRobot, where: str) -> None:
    """Refuse a description with values that no robot has."""
    try:
        bounds.check(own)
    except IbolError as error:
        raise IbolError(f"{where}: {error}") from None
    if not _NAME.fullmatch(own.name):
        raise IbolError(f"{where}: name is {own.name!r:.80}, but a letter and then letters, digits, - and _ are needed")
    if own.camera and len(own.camera) != 3:
        raise IbolError(f"{where}: camera is {list(own.camera)}, but azimuth, elevation and distance are needed")
    if isinstance(own.symmetries, str) and own.symmetries not in ("auto", "none"):
        raise IbolError(f"{where}: symmetries are {own.symmetries!r:.80}, but auto, none or a list of tables is needed")


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _frozen(one) for name, one in value.items()}
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


def robot_of(own: OwnRobot, text: str, where: str, start: tuple[float, ...] | None, find: Symmetric | None) -> Robot:
    """The robot of a description and the text of its model; `find` finds its symmetries if they are to be found."""
    model = compiled(text, where)
    _check_joints(own, model, where)
    location, rotation = _location(own, model, where)
    values = int(model.nq + model.nv)
    hidden = _numbers("hidden", own.hidden, values, where)
    if hidden:
        rotation = "none"
    fallen = _fallen(own, model, rotation, hidden, where)
    distance, square = _view(model, start)
    plain = Robot(
        name=own.name,
        summary=own.summary,
        model_file="",
        num_positions=int(model.nq),
        frame_skip=own.frame_skip,
        horizon=own.horizon,
        qpos_noise=float(own.qpos_noise),
        qvel_noise=float(own.qvel_noise),
        qvel_noise_is_normal=own.qvel_noise_is_normal,
        location_dims=location,
        control_cost=float(own.control_cost),
        rotation=rotation,
        fallen=fallen,
        terminates_when_fallen=own.terminates_when_fallen,
        alive_reward=float(own.alive_reward),
        forward_weight=float(own.forward_weight),
        velocity_clip=None if own.velocity_clip is None else float(own.velocity_clip),
        healthy=_healthy(own, values, where),
        camera=_three(own.camera) if own.camera else (90.0, -12.0 if len(location) < 2 else -30.0, distance),
        square=square if own.square is None else float(own.square),
        goal_range=float(own.goal_range),
        model=text,
        start=start,
        control_range=_control_range(own, model, where),
        hidden=hidden,
    )
    _check_calm(plain, model, where)
    generators = _declared(own, plain, model, where)
    if own.symmetries == "auto" and find is not None and rotation in ("quaternion", "yaw"):
        generators = find(plain, model)
    return dataclasses.replace(plain, symmetry_generators=generators)


def own_of(robot: Robot) -> OwnRobot:
    """The description of a robot with everything that was found out about it."""
    names = {field.name for field in dataclasses.fields(OwnRobot)} & {field.name for field in dataclasses.fields(Robot)}
    same = {name: getattr(robot, name) for name in names - {"start", "control_range"}}
    return OwnRobot(
        **{
            **same,
            "model": "model.xml",
            "name": robot.name.partition("@")[0],
            "start": robot.start or "",
            "control_range": robot.control_range or (),
            "location": robot.location_dims,
            "symmetries": tuple(dict(zip(_BLOCKS, blocks, strict=True)) for blocks in robot.symmetry_generators)
            or "none",
        }
    )


def _three(values: tuple[float, ...]) -> tuple[float, float, float]:
    a, b, c = values
    return float(a), float(b), float(c)


def _check_joints(own: OwnRobot, model: Any, where: str) -> None:
    if not model.nu:
        raise IbolError(
            f"the model of {where} has no actuators: add some to it, or set actuators = 'motors' or 'servos' to have "
            "one for each joint"
        )
    if not model.nv:
        raise IbolError(f"the model of {where} has no joints, so that nothing moves")


def _control_range(own: OwnRobot, model: Any, where: str) -> tuple[tuple[float, float], ...] | None:
    given = own.control_range
    if not given:
        free = [actuator_name(model, i) for i in range(model.nu) if not model.actuator_ctrllimited[i]]
        if free:
            raise IbolError(
                f"the controls of {', '.join(free[:5])} in the model of {where} have no limits: give the actuators a "
                "ctrlrange, or set control_range = [low, high]"
            )
        return None
    plain: list[Any] = [given] * model.nu if all(not isinstance(one, tuple) for one in given) else list(given)
    if len(plain) != model.nu or not all(_is_range(pair) for pair in plain):
        raise IbolError(
            f"{where}: control_range is {list(given)!r:.80}, but [low, high] or one such pair for each of the "
            f"{model.nu} actuators is needed"
        )
    return tuple((float(low), float(high)) for low, high in plain)


def _is_range(pair: Any) -> bool:
    """Whether this is a pair of numbers, the lower one first."""
    numbers = isinstance(pair, tuple) and len(pair) == 2 and not any(isinstance(one, tuple) for one in pair)
    return numbers and pair[0] < pair[1]


def actuator_name(model: Any, i: int) -> str:
    """The name of an actuator, or its number."""
    return mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_ACTUATOR, i) or f"actuator {i}"


def joint_name(model: Any, i: int) -> str:
    """The name of a joint, or its number."""
    return mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, i) or f"joint {i}"


def _location(own: OwnRobot, model: Any, where: str) -> tuple[tuple[int, ...], Rotation]:
    """The state dimensions of the location, and how the torso turns."""
    found, rotation = _found_location(model)
    if own.location is None:
        if not found:
            _check_nothing_travels(model, where)
        return _shown(found, own, model), rotation
    given = tuple(_dimension(one, model, where) for one in own.location)
    shown = int(model.nq + model.nv) - len(own.hidden)
    named = any(isinstance(one, str) for one in own.location)
    dims = _shown(given, own, model) if named else given
    dims = _numbers("location", dims, shown, where)
    if any(dim >= model.nq - sum(value < model.nq for value in own.hidden) for dim in dims):
        raise IbolError(f"{where}: location is {list(dims)}, but a velocity is not a place: name positions")
    return dims, rotation if dims == found else "none"


def _shown(values: tuple[int, ...], own: OwnRobot, model: Any) -> tuple[int, ...]:
    """State dimensions of values of qpos, where some values are hidden."""
    kept = [i for i in range(model.nq + model.nv) if i not in own.hidden]
    return tuple(kept.index(value) for value in values if value in kept)


def _found_location(model: Any) -> tuple[tuple[int, ...], Rotation]:
    """The values of qpos that are the location, from a free joint or horizontal slides at the root."""
    if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:
        return (0, 1), "quaternion"
    along: dict[int, int] = {}
    turning: int | None = None
    for joint in map(int, np.flatnonzero(model.jnt_bodyid == model.jnt_bodyid[0])):
        axis = _axis(model, joint)
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
            for which in (0, 1):
                if axis[which] > _ALONG:
                    along.setdefault(which, int(model.jnt_qposadr[joint]))
        elif model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE and axis[2] > _ALONG:
            turning = int(model.jnt_qposadr[joint])
    dims = tuple(along[which] for which in sorted(along))
    if len(dims) == 1:
        return dims, "pitch"
    return dims, "yaw" if dims == (0, 1) and turning == 2 else "none"


def _axis(model: Any, joint: int) -> NDArray[np.float64]:
    """A joint's axis in the world, where its body is not turned by other joints."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return np.array(data.xaxis[joint])


def _check_nothing_travels(model: Any, where: str) -> None:
    kinds = {mujoco.mjtJoint.mjJNT_FREE.value: "a free joint", mujoco.mjtJoint.mjJNT_SLIDE.value: "a slide"}
    for joint in range(model.njnt):
        kind = kinds.get(int(model.jnt_type[joint]))
        if kind is not None and not (kind == "a slide" and abs(_axis(model, joint)[2]) > _ALONG):
            raise IbolError(
                f"the model of {where} has {kind}, {joint_name(model, joint)}, that is not at its root: say where the "
                "robot is with location = ['NAME', ...] or numbers of state dimensions, or location = [] for nowhere"
            )


def _dimension(one: int | str, model: Any, where: str) -> int:
    if not isinstance(one, str):
        return one
    joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, one)
    if joint < 0:
        names = [joint_name(model, i) for i in range(model.njnt)]
        raise unknown("joint", one, names, f" (location in {where})")
    return int(model.jnt_qposadr[joint])


def _numbers(name: str, given: tuple[int, ...], count: int, where: str) -> tuple[int, ...]:
    if any(not 0 <= one < count for one in given) or len(set(given)) < len(given):
        raise IbolError(f"{where}: {name} is {list(given)}, but different numbers from 0 to {count - 1} are needed")
    return tuple(given)


def _fallen(own: OwnRobot, model: Any, rotation: Rotation, hidden: tuple[int, ...], where: str) -> Fallen:
    free = model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE and not any(i < 7 for i in hidden)
    hinges = model.jnt_qposadr[model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE]
    pitches = model.nq > 2 and 2 in hinges and not any(i < 3 for i in hidden)
    if own.fallen == "auto":
        fallen: Fallen = "upside_down" if free else "never"
    else:
        fallen = own.fallen
    if (fallen == "upside_down" and not free) or (fallen == "lying" and not pitches):
        needs = "a free joint as the first one" if fallen == "upside_down" else "a hinge as the third value of qpos"
        raise IbolError(f"{where}: fallen is {fallen!r}, but that needs {needs}, and none of it hidden")
    if own.terminates_when_fallen and fallen == "never":
        raise IbolError(f"{where}: terminates_when_fallen needs a robot that falls: say how with fallen")
    return fallen


def _healthy(own: OwnRobot, values: int, where: str) -> tuple[tuple[int, float, float], ...]:
    for entry in own.healthy:
        whole = len(entry) == 3 and float(entry[0]).is_integer() and 0 <= entry[0] < values and entry[1] < entry[2]
        if not whole:
            raise IbolError(
                f"{where}: healthy has {list(entry)}, but [number, low, high] with a number from 0 to {values - 1} is "
                "needed"
            )
    return tuple((int(entry[0]), float(entry[1]), float(entry[2])) for entry in own.healthy)


def _declared(own: OwnRobot, robot: Robot, model: Any, where: str) -> tuple[Blocks, ...]:
    """The symmetries that a description names, each an exchange of blocks that the robot has."""
    if isinstance(own.symmetries, str):
        return ()
    if own.symmetries and robot.rotation not in ("quaternion", "yaw"):
        raise IbolError(
            f"{where}: symmetries need a free joint, or slides along x and y and a hinge about z, as the first joints, "
            "and nothing hidden"
        )
    root = (3, 3) if robot.rotation == "quaternion" else (2, 1)
    sizes = (*root, int(model.nq) - (7 if robot.rotation == "quaternion" else 3))
    made: list[Blocks] = []
    for table in own.symmetries:
        blocks = [table.get(name) for name in _BLOCKS]
        for block, size in zip(blocks, sizes, strict=True):
            whole = isinstance(block, tuple) and all(type(one) is int for one in block)
            if set(table) != set(_BLOCKS) or not whole or sorted(map(abs, block or ())) != list(range(1, size + 1)):
                raise IbolError(
                    f"{where}: a symmetry is {table!r:.120}, but position, rotation and joints are needed, which name "
                    f"each of their {sizes[0]}, {sizes[1]} and {sizes[2]} values once, counted from 1 and negative "
                    "where the sign changes"
                )
        position, rotation, joints = (tuple(block or ()) for block in blocks)
        made.append((position, rotation, joints))
    return tuple(made)


def _view(model: Any, start: tuple[float, ...] | None) -> tuple[float, float]:
    """How far a camera is from which the robot can be seen, and a fitting side of the floor's squares."""
    data = mujoco.MjData(model)
    if start is not None and len(start) == model.nq:
        data.qpos[:] = start
    mujoco.mj_forward(model, data)
    moves = [i for i in range(model.ngeom) if model.body_weldid[model.geom_bodyid[i]] != 0]
    if not moves:
        return 3.8, 2.0
    places, radii = data.geom_xpos[moves], model.geom_rbound[moves]
    size = float(max((np.linalg.norm(places - places.mean(axis=0), axis=1) + radii).max(), 1e-2))
    return round(4.2 * size, 3), round(1.5 * size, 3)


def _check_calm(robot: Robot, model: Any, where: str) -> None:
    """Refuse a start that does not fit the model, and a model that explodes when nothing is done."""
    data = mujoco.MjData(model)
    if robot.start is not None:
        if len(robot.start) != model.nq:
            raise IbolError(f"{where}: start has {len(robot.start)} values, but qpos has {model.nq}")
        data.qpos[:] = robot.start
    low, high = np.array(robot.control_range or model.actuator_ctrlrange).T
    data.ctrl[:] = np.clip(0.0, low, high)
    with quiet_mujoco():
        for _ in range(min(int(_SECONDS / model.opt.timestep) + 1, 5000)):
            mujoco.mj_step(model, data)
    bad = [mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC]
    if any(data.warning[int(kind)].number for kind in bad) or not np.isfinite(data.qpos).all():
        raise IbolError(
            f"the simulation of {where} diverges within a second from its start although nothing is done: look for "
            "parts that are inside of each other, or choose a smaller timestep"
        )
