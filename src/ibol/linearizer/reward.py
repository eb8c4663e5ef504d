"""The linearizer's goals and its macro-step rewards (paper, "Linearization of Environments").

An episode is cut into chunks of `l` steps. All steps of a chunk get the same reward, known once the chunk is over: how
far the state moved along the goal, (1/l) (1/sqrt n) <s_end - s_start, g>, on normalised states.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
RewardKind = Literal["inner_product", "euclidean"]


def chunk_differences(states: Floats, lengths: NDArray[np.int64], macro_length: int) -> Floats:
    """s_end - s_start of the chunk that each step belongs to.

    `states` are (N, T + 1, n), with the last state repeated after an episode's end; an episode that ends within a chunk
    ends that chunk. The result is (N, T, n).
    """
    steps = np.arange(states.shape[1] - 1)
    start = steps // macro_length * macro_length  # (T,)
    end = np.minimum(start + macro_length, lengths[:, None])  # (N, T)
    rows = np.arange(len(states))[:, None]
    return np.asarray(states[rows, end] - states[:, start], np.float32)


def inner_product_features(differences: Floats, macro_length: int) -> Floats:
    """What is dotted with the goal to give the reward: differences / (l sqrt n)."""
    return differences / (macro_length * np.sqrt(differences.shape[-1], dtype=np.float32))


def euclidean_reward(raw_differences: Floats, goals: Floats, ranges: tuple[float, ...]) -> Floats:
    """HIRO's reward, -|(s_end - s_start)[positions] - range * g|_2 in raw units; goals (..., k) have k `ranges`."""
    asked = np.array(ranges, np.float32) * goals
    return -np.linalg.norm(raw_differences[..., : len(ranges)] - asked, axis=-1).astype(np.float32)


def discounted_sums(values: Floats, mask: NDArray[np.bool_], steps: int, discount: float) -> Floats:
    """For each step the sum of `steps` values from there on, values (N, T, ...) of the valid steps, discounted."""
    valid = values * mask.reshape(*mask.shape, *[1] * (values.ndim - 2))
    total = valid.copy()
    for later in range(1, min(steps, values.shape[1])):
        total[:, :-later] += discount**later * valid[:, later:]
    return np.asarray(total, np.float32)


def sample_goals(
    rng: np.random.Generator,
    count: int,
    dim: int,
    *,
    beta: float,
    sparse_fraction: float = 0.0,
    location_fraction: float = 0.0,
    location_dims: tuple[int, ...] = (),
) -> Floats:
    """Goals in [-1, 1]^dim, each component 2 Beta(b, b) - 1.

    A `location_fraction` of them is 0 except in the location; a `sparse_fraction` except in one to four dimensions at
    random, in half of the cases with the location. Such goals ask for one thing at a time.
    """
    goals = _components(rng, (count, dim), beta)
    if sparse_fraction + location_fraction:
        here = [i for i in location_dims if i < dim]
        case = rng.random(count)
        active = rng.random((count, dim)).argsort(axis=1) < rng.integers(1, 5, (count, 1))
        active[:, here] |= rng.random((count, 1)) < 0.5
        alone = case < location_fraction
        active[alone] = np.isin(np.arange(dim), here)
        few = case < location_fraction + sparse_fraction
        goals[few] = _components(rng, (int(few.sum()), dim), beta) * active[few]
    return goals.astype(np.float32)


def _components(rng: np.random.Generator, shape: tuple[int, int], beta: float) -> NDArray[np.float64]:
    return rng.uniform(-1, 1, shape) if beta == 1 else 2 * rng.beta(beta, beta, shape) - 1
