"""What final locations say of skills: can they be distinguished, how far do they go, is any direction left out?"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def nearest_centroid_accuracy(ends: Floats) -> float:
    """How often an end of (K skills, R episodes, d) lies nearest to its own skill's centroid, leaving itself out."""
    skills, repeats, _ = ends.shape
    centroids = ends.mean(axis=1)
    distances = np.linalg.norm(ends[:, :, None] - centroids, axis=-1)  # (K, R, K)
    # A skill's centroid without the episode itself lies further from it by the factor R / (R - 1).
    own = np.arange(skills)
    distances[own, :, own] *= repeats / (repeats - 1)
    return float((distances.argmin(axis=2) == own[:, None]).mean())


def smallest_sector(ends: Floats, sectors: int = 12) -> float:
    """The share of ends (N, 2) in the emptiest of equal angular sectors around the origin."""
    turn = np.arctan2(ends[:, 1], ends[:, 0]) / (2 * np.pi) % 1.0
    counts = np.bincount(np.minimum((turn * sectors).astype(int), sectors - 1), minlength=sectors)
    return float(counts.min() / len(ends))


def mean_distance(starts: Floats, ends: Floats) -> float:
    """Mean distance from where episodes start to where they end, both (N, d)."""
    return float(np.linalg.norm(ends - starts, axis=1).mean())


def location_spread(ends: Floats) -> float:
    """Root mean square distance of where episodes end, (N, d), from their mean."""
    return float(np.sqrt(((ends - ends.mean(axis=0)) ** 2).sum(axis=1).mean()))
