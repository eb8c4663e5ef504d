"""How different outcomes are: the returns of one set of skills, and a number over several runs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol.errors import IbolError


def return_diversity(returns: NDArray[np.floating]) -> tuple[float, float]:
    """Standard deviation and range of the environment's own returns (N,) over skills."""
    return float(np.std(returns)), float(np.ptp(returns))


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """A percentile bootstrap interval of the mean of values, such as one number from each of several runs."""
    numbers = np.asarray(values, np.float64)
    if numbers.ndim != 1 or not len(numbers):
        raise IbolError(f"values have shape {numbers.shape}, but a list with at least one is needed")
    drawn = np.random.default_rng(seed).choice(numbers, (resamples, len(numbers))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
