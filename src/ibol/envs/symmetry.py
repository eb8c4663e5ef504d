"""The symmetries of a robot: exchanges of its limbs that its physics does not notice.

If an action leads from one state to another, then the exchanged action leads from the exchanged state to the exchanged
next one. Each symmetry is an exchange of state dimensions and of actions with changes of sign, so that one recorded
step stands for as many steps as there are symmetries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.robots.robot import Blocks, Robot


@dataclass(frozen=True)
class Symmetries:
    """G exchanges, the identity first: value `i` of the result is `sign[g, i]` times value `index[g, i]`."""

    state_index: NDArray[np.int64]  # (G, n)
    state_sign: NDArray[np.float32]
    action_index: NDArray[np.int64]  # (G, m)
    action_sign: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.state_index)


def symmetries(robot: Robot, model: Any) -> Symmetries:
    """All symmetries that the robot's generators make together; without generators only the identity.

    A generator names, for each of a few blocks of the state (position, rotation, joints), where each value comes from:
    counted from 1, negative if its sign changes. Velocities go as their positions do, actions as their joints.
    """
    exchange_of = _EXCHANGES[robot.rotation]
    generators = [exchange_of(robot.num_positions, g) for g in robot.symmetry_generators]
    n = len(generators[0][0]) if generators else robot.num_positions + model.nv
    identity = np.stack([np.arange(n), np.ones(n, int)])
    exchanges = [identity]
    for exchange in exchanges:  # the list grows within the loop
        for index, sign in generators:
            made = np.stack([exchange[0][index], sign * exchange[1][index]])
            if not any(np.array_equal(made, other) for other in exchanges):
                exchanges.append(made)
    state = np.stack(exchanges)
    if not generators:
        same = np.arange(model.nu)[None]
        return Symmetries(state[:, 0], state[:, 1].astype(np.float32), same, np.ones_like(same, np.float32))
    actuated = model.jnt_qposadr[model.actuator_trnid[:, 0]]  # the position that each action drives
    place = {int(position): action for action, position in enumerate(actuated)}
    sources = state[:, 0][:, actuated]
    return Symmetries(
        state_index=state[:, 0],
        state_sign=state[:, 1].astype(np.float32),
        action_index=np.vectorize(lambda source: place[int(source)])(sources),
        action_sign=state[:, 1][:, actuated].astype(np.float32),
    )


def _floating_exchange(nq: int, generator: Blocks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and sign for a free-floating robot: x, y, z, a quaternion and joints, then their velocities."""
    position, rotation, joints = generator
    return _signed(
        (position, 0), ((4,), 0), (rotation, 4), (joints, 7), (position, nq), (rotation, nq + 3), (joints, nq + 6)
    )


def _planar_exchange(nq: int, generator: Blocks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and sign for a robot in the horizontal plane: x, y, an angle and joints, then their velocities."""
    position, rotation, joints = generator
    return _signed(*((block, start) for at in (0, nq) for block, start in
                     ((position, at), (rotation, at + 2), (joints, at + 3))))  # fmt: skip


def _servo_exchange(nq: int, generator: Blocks) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and sign for D'Kitty: x, y, z, angles and joints, the joints' velocities and actions, uprightness."""
    position, rotation, joints = generator
    count = len(joints)
    return _signed(
        (position, 0), (rotation, 3), (joints, 6), (joints, nq), (joints, nq + count), ((1,), nq + 2 * count)
    )


def _signed(*blocks: tuple[tuple[int, ...], int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and sign of blocks of values and where each block begins."""
    signed = np.concatenate([np.sign(values) * (np.abs(values) + start) for values, start in blocks])
    return np.abs(signed) - 1, np.sign(signed)


_EXCHANGES = {
    "pitch": _floating_exchange,
    "none": _floating_exchange,
    "quaternion": _floating_exchange,
    "yaw": _planar_exchange,
    "angles": _servo_exchange,
}
