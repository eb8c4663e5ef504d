"""How different outcomes are: the returns of one set of skills, and a number over several runs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ibol import memory
from ibol.bounds import array, whole_number
from ibol.errors import IbolError


def return_diversity(returns: NDArray[np.floating]) -> tuple[float, float]:
    """Standard deviation and range of the environment's own returns (N,) over skills."""
    returns = array("returns", returns, "N")
    return float(np.std(returns)), float(np.ptp(returns))


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """A percentile bootstrap interval of the mean of values, such as one number from each of several runs."""
    numbers = array("values", values, "N", dtype=np.float64)
    if not (isinstance(level, float | int) and 0 < level < 1):
        raise IbolError(f"level is {level}, but a fraction between 0 and 1 is needed")
    resamples, seed = whole_number("resamples", resamples), whole_number("seed", seed, 0)
    memory.check(8 * resamples * len(numbers), f"{resamples} resamples", "ask for fewer")
    drawn = np.random.default_rng(seed).choice(numbers, (resamples, len(numbers))).mean(axis=1)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
