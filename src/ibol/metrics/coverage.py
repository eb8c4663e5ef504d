"""How much of the space is visited."""

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import array

CELLS = 32
COVERING = 48  # skills of METRA's coverage


def state_coverage(paths: NDArray[np.float32], limits: NDArray[np.float32] | None = None) -> int:
    """How many of 32 (1-D) or 1024 (2-D) equal cells within `limits` (2, d) the paths (N, T + 1, d) visit."""
    points = array("paths", paths, "N", "steps", "dimensions").reshape(-1, np.shape(paths)[-1])
    if limits is None:
        limits = np.stack([points.min(axis=0), points.max(axis=0)])
    low, high = array("limits", limits, 2, points.shape[1])
    cells = np.clip((points - low) / np.maximum(high - low, 1e-12) * CELLS, 0, CELLS - 1).astype(np.int64)
    return len(np.unique(cells, axis=0))


def unit_coverage(paths: NDArray[np.float32]) -> int:
    """How many cells of 1 m the paths (N, T + 1, d) visit, with the origin at a corner: METRA's coverage."""
    points = array("paths", paths, "N", "steps", "dimensions").reshape(-1, np.shape(paths)[-1])
    return len(np.unique(np.floor(points).astype(np.int64), axis=0))
