"""A model without what its physics has no use for: the same numbers, to the last bit, in less time."""

from typing import Any

import mujoco
import numpy as np

from ibol.envs.robots import load_model
from ibol.robots.robot import Robot

_FORCES = {
    mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS.value: ("dof_frictionloss", "tendon_frictionloss"),
    mujoco.mjtDisableBit.mjDSBL_SPRING.value: (
        "jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly",
    ),
}  # fmt: skip
"""Forces that need not be computed where all of these are zero."""
_NOT_PLAIN = ("biastype", "dyntype", "forcelimited", "damping", "armature")


def lean_model(robot: Robot, model: Any) -> Any:
    """The robot's model for its simulation alone, not for pictures or whatever else reads a model.

    If it has no motors, forces are to be applied instead: control times gear, at each motor's joint.
    """
    motors = has_plain_motors(model)
    model = load_model(robot, lambda spec: _make_lean(spec, motors))
    for flag, fields in _FORCES.items():
        if not (model.nflex or any(getattr(model, field).any() for field in fields)):
            model.opt.disableflags |= flag
    return model


def has_plain_motors(model: Any) -> bool:
    """Whether its actuators are a motor each for some joints, whose forces are control times gear."""
    joints = model.actuator_trnid[:, 0]
    return bool(
        (model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT.value).all()
        and len(set(joints)) == len(joints)
        and (model.jnt_type[joints] >= mujoco.mjtJoint.mjJNT_SLIDE.value).all()
        and not model.jnt_actfrclimited[joints].any()
        and (model.actuator_gaintype == mujoco.mjtGain.mjGAIN_FIXED.value).all()
        and (model.actuator_gainprm[:, 0] == 1).all()
        and not any(getattr(model, f"actuator_{field}").any() for field in _NOT_PLAIN)
    )


def _make_lean(spec: Any, motors: bool) -> None:
    """Leave out what only pictures need, motors if asked to, and the search for geoms that could touch each other."""
    for unused in [*spec.lights, *spec.cameras, *(spec.actuators if motors else ())]:
        spec.delete(unused)
    pairs = _pairs(spec)
    if pairs is None:
        return
    for number, geom in enumerate(spec.geoms):
        geom.name = geom.name or f"unnamed {number}"
        geom.contype = geom.conaffinity = 0  # else MuJoCo looks for pairs in each step
    for one, other in pairs:
        spec.add_pair(
            geomname1=one.name,
            geomname2=other.name,
            condim=max(one.condim, other.condim),
            friction=np.maximum(one.friction, other.friction)[[0, 0, 1, 2, 2]],
            solref=one.solref,
            solimp=one.solimp,
            margin=one.margin + other.margin,
            gap=one.gap + other.gap,
            adhesion=one.adhesion + other.adhesion,
        )


def _pairs(spec: Any) -> list[tuple[Any, Any]] | None:
    """The pairs of geoms that could touch each other, of which one is the world's; None where that is not so simple."""
    world = [geom for geom in spec.geoms if geom.parent == spec.worldbody]
    moving = [geom for geom in spec.geoms if geom.parent != spec.worldbody]
    if any(_collide(one, other) for one in moving for other in moving if one.parent != other.parent):
        return None
    pairs = [(one, other) for one in world for other in moving if _collide(one, other)]
    if spec.pairs or not all(_alike(one, other) and _moves(other.parent) for one, other in pairs):
        return None
    return pairs


def _collide(one: Any, other: Any) -> bool:
    return bool(one.contype & other.conaffinity or other.contype & one.conaffinity)


def _alike(one: Any, other: Any) -> bool:
    """Whether both have the same say in how they touch, and say the same: a pair needs no average then."""
    solvers = ((geom.priority, geom.solmix, *geom.solref, *geom.solimp) for geom in (one, other))
    return len(set(solvers)) == 1


def _moves(body: Any) -> bool:
    """Whether there is a joint between a body and the world."""
    return body.name != "world" and (bool(body.joints) or _moves(body.parent))
