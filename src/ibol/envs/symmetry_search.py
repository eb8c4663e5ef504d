"""Finds the symmetries of an own robot and checks them: by exchanging limbs and stepping the physics.

A candidate is a mirror or a turn of the whole robot in its rest pose. It renames each joint to the one that stands
where the mirror or turn puts it, with a change of sign where the axis points the other way. What the geometry suggests
counts only if the physics agrees: from exchanged states, exchanged controls must lead to exchanged states.
"""

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError
from ibol.robots.model import quiet_mujoco
from ibol.robots.robot import Blocks, Robot

_NEAR = 2e-3  # metres between the joints of a pair, relative to the robot's size where it is large
_TRIALS, _STEPS = 6, 10
_AGREES, _REFUTES = 1e-3, 2e-2
"""How far exchanged states may be apart after some steps, in proportion to how far they moved: contacts are solved to
a tolerance, and text has six digits. A robot whose limbs differ a little is told by `_REFUTES`."""

# What a mirror or turn does to x, y and z, and what that means for the rotation of a free body.
_MOVES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((-2, 1, 3), (-2, 1, 3)),  # a quarter turn
    ((-1, -2, 3), (-1, -2, 3)),  # half a turn
    ((1, -2, 3), (-1, 2, -3)),  # left and right
    ((-1, 2, 3), (1, -2, -3)),  # front and back
)

Floats = NDArray[np.float64]


def find_symmetries(robot: Robot, model: Any) -> tuple[Blocks, ...]:
    """Generators of the symmetries that geometry suggests and physics confirms."""
    if not _one_joint_each(model):
        return ()
    found: list[Blocks] = []
    for position, rotation in _MOVES:
        blocks = _candidate(robot, model, position, rotation)
        if blocks is None or _is_made(robot, model, tuple(found), blocks):
            continue
        if error(replace(robot, symmetry_generators=(blocks,)), model) < _AGREES:
            found.append(blocks)
    return tuple(found)


def check_symmetries(robot: Robot, where: str) -> None:
    """Refuse symmetries that a description declares and the physics does not have."""
    if not robot.symmetry_generators:
        return
    model = mujoco.MjModel.from_xml_string(robot.model)
    if not _one_joint_each(model):
        raise IbolError(f"{where}: symmetries need actuators that drive one joint each, and no joint twice")
    for number, blocks in enumerate(robot.symmetry_generators, start=1):
        apart = error(replace(robot, symmetry_generators=(blocks,)), model)
        if not apart < _REFUTES:
            raise IbolError(
                f"{where}: symmetry {number} does not hold: exchanged states are {100 * apart:.2g} % of their movement "
                f"apart after {_STEPS} steps, but at most {100 * _REFUTES:g} % is allowed"
            )


def error(robot: Robot, model: Any, seed: int = 0) -> float:
    """How much worse exchanging before is than exchanging after some random steps, relative to the movement."""
    if set(np.abs(robot.symmetry_generators[0][2])) != set(range(1, len(robot.symmetry_generators[0][2]) + 1)):
        return np.inf
    try:
        group = symmetries(robot, model)
    except KeyError:  # an actuated joint for one that is not
        return np.inf
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(_TRIALS):
        state = _random_state(robot, model, rng)
        actions = rng.uniform(-1, 1, (_STEPS, model.nu))
        end, travelled = _run(robot, model, state, actions)
        for index, sign, swap, flip in zip(
            group.state_index[1:2], group.state_sign[1:2], group.action_index[1:2], group.action_sign[1:2], strict=True
        ):
            other, _ = _run(robot, model, sign * state[index], flip * actions[:, swap])
            apart = np.abs(_one_sign(robot, other) - _one_sign(robot, sign * end[index])).max()
            worst = max(worst, float(apart / max(travelled, 1e-6)))
    return worst if np.isfinite(worst) else np.inf


def _one_joint_each(model: Any) -> bool:
    kinds = (mujoco.mjtTrn.mjTRN_JOINT.value, mujoco.mjtTrn.mjTRN_JOINTINPARENT.value)
    on_joints = all(model.actuator_trntype[i] in kinds for i in range(model.nu))
    hinges = (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value)
    joints = model.actuator_trnid[:, 0]
    return bool(on_joints and len(set(joints)) == model.nu and all(model.jnt_type[j] in hinges for j in joints))


def _candidate(robot: Robot, model: Any, position: tuple[int, ...], rotation: tuple[int, ...]) -> Blocks | None:
    """The exchange of joints that a mirror or turn of the rest pose makes, if there is one."""
    planar = robot.rotation == "yaw"
    data = mujoco.MjData(model)
    if robot.start is not None:
        data.qpos[:] = robot.start
    root = 3 if planar else 7
    if not planar:
        data.qpos[3:7] = 1, 0, 0, 0
    else:
        data.qpos[2] = 0
    # Joints where they are without being bent, seen from the root; their axes are those of the bent pose otherwise.
    data.qpos[root:] = model.qpos0[root:]
    mujoco.mj_kinematics(model, data)
    sign = np.sign(position)
    move = np.zeros((3, 3))
    move[np.arange(3), np.abs(position) - 1] = sign
    turned = np.linalg.det(move)
    joints = np.flatnonzero(model.jnt_qposadr >= root)
    if any(
        model.jnt_type[j] not in (mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value) for j in joints
    ):
        return None
    base = data.xpos[model.jnt_bodyid[0]]
    anchors, axes = data.xanchor[joints] - base, data.xaxis[joints]
    size = max(1.0, float(np.abs(anchors).max(initial=0.0)))
    sources = []
    for number, joint in enumerate(joints):
        hinge = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE
        where, axis = move @ anchors[number], move @ axes[number] * (turned if hinge else 1.0)
        near = np.linalg.norm(anchors - where, axis=1) < _NEAR * size
        along = axes @ axis
        fits = np.flatnonzero(near & (np.abs(along) > 0.99) & (model.jnt_type[joints] == model.jnt_type[joint]))
        if len(fits) != 1:
            return None
        sources.append((int(fits[0]), 1 if along[fits[0]] > 0 else -1))
    # Joint i is put where joint `to` stands: the exchanged state's value `to` is that of joint i.
    exchanged = [0] * len(joints)
    for i, (to, flip) in enumerate(sources):
        exchanged[to] = flip * (i + 1)
    if planar:
        return (position[0], position[1]), (1 if rotation[2] > 0 else -1,), tuple(exchanged)
    return tuple(position), tuple(rotation), tuple(exchanged)


def _is_made(robot: Robot, model: Any, found: tuple[Blocks, ...], blocks: Blocks) -> bool:
    """Whether the symmetries that were found make this one, too."""
    if not found:
        return False
    try:
        before = len(symmetries(replace(robot, symmetry_generators=found), model))
        return before == len(symmetries(replace(robot, symmetry_generators=(*found, blocks)), model))
    except KeyError:
        return False


def _random_state(robot: Robot, model: Any, rng: np.random.Generator) -> Floats:
    """A state around the start: turned, bent a little and moving."""
    qpos = np.array(model.qpos0 if robot.start is None else robot.start)
    root = 3 if robot.rotation == "yaw" else 7
    bent = rng.uniform(-0.2, 0.2, model.nq - root)
    qpos[root:] += bent
    if robot.rotation == "quaternion":
        qpos[:3] += rng.uniform(-0.05, 0.05, 3)
        turn = np.append(1.0, rng.uniform(-0.3, 0.3, 3))
        qpos[3:7] = turn / np.linalg.norm(turn)
    else:
        qpos[:3] += rng.uniform(-0.3, 0.3, 3)
    return np.concatenate([qpos, rng.uniform(-0.5, 0.5, model.nv)])


def _run(robot: Robot, model: Any, state: Floats, actions: Floats) -> tuple[Floats, float]:
    """The state after some actions, and how far its largest value moved."""
    low, high = np.array(robot.control_range or model.actuator_ctrlrange).T
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state[: model.nq], state[model.nq :]
    with quiet_mujoco():
        for action in actions:
            data.ctrl[:] = action * (high - low) / 2 + (high + low) / 2
            mujoco.mj_step(model, data, nstep=robot.frame_skip)
    end = np.concatenate([data.qpos, data.qvel])
    return end, float(np.abs(end - state).max())


def _one_sign(robot: Robot, state: Floats) -> Floats:
    """A state whose quaternion has a positive first value."""
    if robot.rotation == "quaternion" and state[3] < 0:
        state = state.copy()
        state[3:7] *= -1
    return state
