"""What locations say of skills: can they be distinguished, how far do they go, is any direction or goal left out?"""

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import array, whole_number
from ibol.errors import IbolError

Floats = NDArray[np.floating]


def nearest_centroid_accuracy(ends: Floats) -> float:
    """How often an end of (K skills, R episodes, d) lies nearest to its own skill's centroid, leaving itself out."""
    ends = array("ends", ends, "skills", "episodes", "dimensions")
    skills, repeats, _ = ends.shape
    if repeats < 2:
        raise IbolError("each skill has 1 episode, but at least 2 are needed to leave one out")
    centroids = ends.mean(axis=1)
    distances = np.linalg.norm(ends[:, :, None] - centroids, axis=-1)  # (K, R, K)
    # A skill's centroid without the episode itself lies further from it by the factor R / (R - 1).
    own = np.arange(skills)
    distances[own, :, own] *= repeats / (repeats - 1)
    return float((distances.argmin(axis=2) == own[:, None]).mean())


def smallest_sector(ends: Floats, sectors: int = 12) -> float:
    """The share of ends (N, 2) in the emptiest of equal angular sectors around the origin."""
    ends, sectors = array("ends", ends, "N", 2), whole_number("sectors", sectors)
    turn = np.arctan2(ends[:, 1], ends[:, 0]) / (2 * np.pi) % 1.0
    counts = np.bincount(np.minimum((turn * sectors).astype(int), sectors - 1), minlength=sectors)
    return float(counts.min() / len(ends))


def mean_distance(starts: Floats, ends: Floats) -> float:
    """Mean distance from where episodes start to where they end, both (N, d)."""
    starts = array("starts", starts, "N", "dimensions")
    return float(np.linalg.norm(array("ends", ends, *starts.shape) - starts, axis=1).mean())


def location_spread(ends: Floats) -> float:
    """Root mean square distance of where episodes end, (N, d), from their mean."""
    ends = array("ends", ends, "N", "dimensions")
    return float(np.sqrt(((ends - ends.mean(axis=0)) ** 2).sum(axis=1).mean()))


def goal_shares(paths: Floats, goals: Floats, radius: float) -> tuple[float, float, float]:
    """Of paths (N, T + 1, d) to goals (N, d): shares that come within `radius` metres, that end, and of steps there."""
    paths = array("paths", paths, "N", "steps", "dimensions")
    goals = array("goals", goals, len(paths), paths.shape[2])
    near = np.linalg.norm(paths - goals[:, None], axis=2) <= radius  # (N, T + 1)
    return float(near.any(axis=1).mean()), float(near[:, -1].mean()), float(near[:, 1:].mean())
