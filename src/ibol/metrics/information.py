"""How much the latent says about where the skill ends: the plug-in mutual information on histograms, in nats.

The published estimator is biased upwards: with few samples in many cells even independent variables seem to tell of
each other. `corrected_information` subtracts what is left of it after the latents have been shuffled.
"""

import numpy as np
from numpy.typing import NDArray

from ibol.errors import IbolError

Floats = NDArray[np.floating]
Cells = NDArray[np.int64]
Limits = tuple[Floats | None, Floats | None]


def quantize(values: Floats, bins: int, limits: Floats | None = None) -> Cells:
    """The bin of each value of (N, k): equal bins in each dimension between `limits` (2, k), or over the own range."""
    low, high = (values.min(axis=0), values.max(axis=0)) if limits is None else np.asarray(limits)
    width = np.where(high > low, high - low, 1.0)
    return np.clip(np.floor((values - low) / width * bins), 0, bins - 1).astype(np.int64)


def entropy(cells: Cells) -> float:
    """Plug-in entropy of the rows of (N, k)."""
    # One number for each cell sorts much faster than whole rows.
    numbers = np.ravel_multi_index(tuple(cells.T), tuple(cells.max(axis=0) + 1))
    _, counts = np.unique(numbers, return_counts=True)
    p = counts / counts.sum()
    return float(-(p * np.log(p)).sum())


def mutual_information(a: Floats, b: Floats, *, bins: int = 32, limits: Limits = (None, None)) -> float:
    """I(A; B) of paired samples (N, j) and (N, k) on histograms: H(A) + H(B) - H(A, B).

    `limits` are the ranges (2, j) and (2, k) that the bins divide; None is the samples' own.
    """
    return _information(quantize(_rows(a), bins, limits[0]), quantize(_rows(b), bins, limits[1]))


def corrected_information(
    a: Floats, b: Floats, *, bins: int = 32, limits: Limits = (None, None), shuffles: int = 10, seed: int = 0
) -> float:
    """I(A; B) minus its mean over shuffled pairs: 0 on average for independent variables."""
    cells_a, cells_b = quantize(_rows(a), bins, limits[0]), quantize(_rows(b), bins, limits[1])
    rng = np.random.default_rng(seed)
    chance = [_information(rng.permutation(cells_a), cells_b) for _ in range(shuffles)]
    return _information(cells_a, cells_b) - float(np.mean(chance))


def _information(a: Cells, b: Cells) -> float:
    return entropy(a) + entropy(b) - entropy(np.concatenate([a, b], axis=1))


def _rows(values: Floats) -> Floats:
    rows = np.asarray(values)
    if rows.ndim != 2 or not len(rows):
        raise IbolError(f"samples have shape {rows.shape}, but (N, dimensions) with at least one sample is needed")
    return rows
