"""Which steps of long trajectories are looked at, where all of them would cost too much.

A trajectory of a linearizer has 20 macro steps, one without it up to a thousand that differ little.
"""

import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]


def evenly_spaced(lengths: Steps, horizon: int, count: int) -> tuple[Steps, Steps]:
    """Which states (B, N) of 0 ... T - 1 an encoder sees of trajectories with valid lengths, and how many of them.

    The first and the last state are among them; a trajectory with no more than N states is seen whole, and with N = 0
    all are.
    """
    if not count or count >= horizon:
        return np.broadcast_to(np.arange(horizon), (len(lengths), horizon)), lengths
    spaced = np.round(np.linspace(0, 1, count) * (lengths[:, None] - 1)).astype(int)
    short = lengths[:, None] <= count
    whole = np.minimum(np.arange(count), lengths[:, None] - 1)
    return np.where(short, whole, spaced), np.minimum(lengths, count)


def one_of_each_part(lengths: Steps, count: int, rng: np.random.Generator) -> Steps:
    """Steps (B, N): one at random from each of N equal parts of a trajectory, so that means over them are unbiased."""
    place = (np.arange(count) + rng.random((len(lengths), count))) / count
    return np.minimum((place * lengths[:, None]).astype(int), lengths[:, None] - 1)


def taken(values: NDArray[np.float32], steps: Steps) -> NDArray[np.float32]:
    """The values (..., T, k) at steps (..., N)."""
    return np.take_along_axis(values, steps[..., None], axis=-2)
