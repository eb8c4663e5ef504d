"""Where states differ most: the principal directions of final states, for skills without a location."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import array

Floats = NDArray[np.floating]
COUNT = 2
AXES = ("principal direction 1 (std)", "principal direction 2 (std)")
"""What the two directions are called; their unit is the standard deviation of a normalised state dimension."""
_CONSTANT = 1e-9  # relative to the dimension's size


@dataclass(frozen=True)
class Directions:
    """Maps states (..., n) to their coordinates (..., k) along the principal directions."""

    mean: Floats  # (n,)
    weights: Floats  # (n, k), of states minus their mean
    explained: float
    """The share of the variance of the normalised final states that these directions have."""

    def __call__(self, states: Floats) -> NDArray[np.float32]:
        """Coordinates (..., k) of raw states (..., n)."""
        return ((states - self.mean) @ self.weights).astype(np.float32)


def principal_directions(ends: Floats) -> Directions:
    """The first two principal components of final states (N, n), each dimension of which is normalised first.

    Normalised: minus its mean over the N states, divided by its standard deviation; a dimension that never changes
    counts nothing. Of the two signs of a direction that is taken which makes its largest weight positive.
    """
    ends = array("ends", ends, "N", "dimensions", dtype=np.float64)
    mean, std = ends.mean(axis=0), ends.std(axis=0)
    varies = std > _CONSTANT * (1 + np.abs(mean))
    scale = np.where(varies, 1 / np.where(varies, std, 1.0), 0.0)
    normalised = (ends - mean) * scale
    variances, axes = np.linalg.eigh(normalised.T @ normalised / len(ends))
    axes = axes[:, ::-1][:, :COUNT]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    total = float(variances.sum())
    explained = float(variances[::-1][:COUNT].sum() / total) if total > 0 else 0.0
    return Directions(mean, scale[:, None] * axes, explained)
