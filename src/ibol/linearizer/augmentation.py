"""Symmetry augmentation: a robot's symmetries turn each recorded transition of Ant into 8 that it could have made."""

import numpy as np
from numpy.typing import NDArray

from ibol.envs import Env, RobotEnv
from ibol.envs.symmetry import Symmetries, symmetries
from ibol.errors import IbolError
from ibol.learners.normalizer import Normalizer
from ibol.learners.replay import Columns


class SymmetryAugmentation:
    """A robot's symmetries for normalised transitions."""

    def __init__(self, symmetries: Symmetries, normalizer: Normalizer) -> None:
        self.symmetries = symmetries
        mean, std = normalizer.mean, normalizer.std
        index, sign = symmetries.state_index, symmetries.state_sign
        self.scale = (sign * std[index] / std).astype(np.float32)
        self.shift = ((sign * mean[index] - mean) / std).astype(np.float32)

    def __len__(self) -> int:
        return len(self.symmetries)

    def __call__(self, columns: Columns, which: NDArray[np.int64]) -> Columns:
        """Exchange each transition by the symmetry that `which`, of the columns' leading shape, gives."""
        index, scale, shift = self.symmetries.state_index[which], self.scale[which], self.shift[which]
        states = {
            name: np.take_along_axis(columns[name], index, -1) * scale + shift for name in ("states", "next_states")
        }
        width = columns["features"].shape[-1]
        features = np.take_along_axis(columns["features"], index[..., :width], -1) * scale[..., :width]
        actions = np.take_along_axis(columns["actions"], self.symmetries.action_index[which], -1)
        return {**columns, **states, "features": features, "actions": actions * self.symmetries.action_sign[which]}


def symmetry_augmentation(env: str, batch: Env, normalizer: Normalizer) -> SymmetryAugmentation:
    """The symmetries of the robot in `batch`."""
    if not isinstance(batch, RobotEnv) or not batch.robot.symmetry_generators:
        raise IbolError(f"symmetric needs a robot with symmetries, and {env} has none")
    return SymmetryAugmentation(symmetries(batch.robot, batch.model), normalizer)
