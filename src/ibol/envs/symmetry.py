"""The symmetries of a robot: exchanges of its limbs that its physics does not notice.

If an action leads from one state to another, then the exchanged action leads from the exchanged state to the exchanged
next one. Each symmetry is an exchange of state dimensions and of actions with changes of sign, so that one recorded
step tells of as many steps as there are symmetries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.envs.robots import Robot


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
    actuated = model.jnt_qposadr[model.actuator_trnid[:, 0]]  # the position that each action drives
    n = model.nq + model.nv
    identity = np.stack([np.arange(n), np.ones(n, int)])
    found = [identity]
    generators = [_state_exchange(model.nq, g) for g in robot.symmetry_generators]
    for exchange in found:  # grows while it is walked through
        for index, sign in generators:
            made = np.stack([exchange[0][index], sign * exchange[1][index]])
            if not any(np.array_equal(made, other) for other in found):
                found.append(made)
    state = np.stack(found)
    place = {int(position): action for action, position in enumerate(actuated)}
    sources = state[:, 0][:, actuated]
    return Symmetries(
        state_index=state[:, 0],
        state_sign=state[:, 1].astype(np.float32),
        action_index=np.vectorize(lambda source: place[int(source)])(sources),
        action_sign=state[:, 1][:, actuated].astype(np.float32),
    )


def _state_exchange(
    nq: int, generator: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index and sign for a free-floating robot: x, y, z, a quaternion and joints, then their velocities."""
    position, rotation, joints = (np.array(block) for block in generator)
    values = [position, [4], np.sign(rotation) * (np.abs(rotation) + 4), np.sign(joints) * (np.abs(joints) + 7)]
    values += [np.sign(v) * (np.abs(v) + start) for v, start in ((position, nq), (rotation, nq + 3), (joints, nq + 6))]
    signed = np.concatenate(values)
    return np.abs(signed) - 1, np.sign(signed)
