"""How much of the space is visited."""

import numpy as np
from numpy.typing import NDArray

CELLS = 32


def state_coverage(paths: NDArray[np.float32], limits: NDArray[np.float32] | None = None) -> int:
    """How many of 32 (1-D) or 1024 (2-D) equal cells within `limits` (2, d) the paths (N, T + 1, d) visit."""
    points = paths.reshape(-1, paths.shape[-1])
    low, high = (points.min(axis=0), points.max(axis=0)) if limits is None else limits
    cells = np.clip((points - low) / np.maximum(high - low, 1e-12) * CELLS, 0, CELLS - 1).astype(np.int64)
    return len(np.unique(cells, axis=0))
