"""How much the latent says about where the skill ends, in nats: on histograms as published, and from neighbours.

The published estimator is biased upwards: with few samples in many cells even independent variables seem to depend on
each other. `corrected_information` subtracts what is left of it after the latents have been shuffled;
`neighbour_information` needs no cells.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import digamma

from ibol.bounds import BINS, array, whole_number
from ibol.errors import IbolError

Floats = NDArray[np.floating]
Cells = NDArray[np.int64]
Limits = tuple[Floats | None, Floats | None]
_LARGEST = 2**62


def quantize(values: Floats, bins: int, limits: Floats | None = None) -> Cells:
    """The bin of each value of (N, k): equal bins in each dimension between `limits` (2, k), or over the own range."""
    bins, values = whole_number("bins", bins, *BINS), array("samples", values, "N", "dimensions")
    low, high = pooled_limits([values]) if limits is None else array("limits", limits, 2, values.shape[1])
    if (low > high).any():
        raise IbolError(f"limits are {low} to {high}, but the low ones come first")
    width = np.where(high > low, high - low, 1.0)
    return np.clip(np.floor((values - low) / width * bins), 0, bins - 1).astype(np.int64)


def both(limits: Limits) -> Limits:
    """The limits of two samples, each of them or None."""
    if not isinstance(limits, tuple) or len(limits) != 2:
        raise IbolError("limits are those of both samples, or None for each: two are needed")
    return limits


def pooled_limits(samples: Sequence[Floats]) -> Floats:
    """The lowest and highest value (2, k) in all of the samples (..., k), such as those of all runs."""
    flat = [array("samples", values, ..., "dimensions") for values in samples]
    flat = [rows.reshape(-1, rows.shape[-1]) for rows in flat]
    if not flat or not all(len(rows) for rows in flat) or len({rows.shape[1] for rows in flat}) > 1:
        raise IbolError("limits need samples, all of the same dimensions")
    low, high = np.min([rows.min(axis=0) for rows in flat], axis=0), np.max([rows.max(axis=0) for rows in flat], axis=0)
    return np.stack([low, high])


def number_cells(cells: Cells) -> Cells:
    """One number (N,) for each different row of (N, k): numbers are counted much faster than rows."""
    cells = array("cells", cells, "N", "dimensions")
    numbers, size = np.zeros(len(cells), np.int64), 1
    for column in cells.T:
        width = int(column.max()) + 1
        if size > _LARGEST // width:  # so many dimensions that only the rows which occur can be numbered
            distinct, numbers = np.unique(numbers, return_inverse=True)
            size = len(distinct)
        numbers, size = numbers * width + column, size * width
    return numbers


def entropy(cells: Cells) -> float:
    """Plug-in entropy of the rows of (N, k)."""
    return counted_entropy(number_cells(cells))


def counted_entropy(numbers: Cells) -> float:
    """Plug-in entropy of numbered cells (N,)."""
    ordered = np.sort(array("numbers of cells", numbers, "N"))
    ends = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    p = np.diff(ends, prepend=0, append=len(ordered)) / len(ordered)
    return float(-(p * np.log(p)).sum())


def mutual_information(a: Floats, b: Floats, *, bins: int = 32, limits: Limits = (None, None)) -> float:
    """I(A; B) of paired samples (N, j) and (N, k) on histograms: H(A) + H(B) - H(A, B).

    `limits` are the ranges (2, j) and (2, k) that the bins divide; None is the samples' own.
    """
    a, b = paired_rows(a, b)
    of_a, of_b = both(limits)
    return _information(quantize(a, bins, of_a), quantize(b, bins, of_b))


def corrected_information(
    a: Floats, b: Floats, *, bins: int = 32, limits: Limits = (None, None), shuffles: int = 10, seed: int = 0
) -> float:
    """I(A; B) minus its mean over shuffled pairs: 0 on average for independent variables."""
    a, b = paired_rows(a, b)
    of_a, of_b = both(limits)
    cells_a, cells_b = quantize(a, bins, of_a), quantize(b, bins, of_b)
    rng, shuffles = np.random.default_rng(whole_number("seed", seed, 0)), whole_number("shuffles", shuffles)
    chance = [_information(rng.permutation(cells_a), cells_b) for _ in range(shuffles)]
    return _information(cells_a, cells_b) - float(np.mean(chance))


def neighbour_information(a: Floats, b: Floats, *, neighbours: int = 4) -> float:
    """I(A; B) of paired samples (N, j) and (N, k) by the first estimator of Kraskov, Stögbauer and Grassberger (2004).

    Each side is standardised first, which does not change I. Samples of (nearly) noiseless functions have unbounded I,
    of which any such estimate sees only about log N.
    """
    a, b = (_standardized(side) for side in paired_rows(a, b))
    count = len(a)
    if not 0 < whole_number("neighbours", neighbours, 0) < count:
        raise IbolError(f"{neighbours} neighbours were asked for, but {count} samples have 1 to {count - 1}")
    joint = np.concatenate([a, b], axis=1)
    distance = KDTree(joint).query(joint, k=[neighbours + 1], p=np.inf)[0][:, 0]
    radius = np.nextafter(distance, 0)  # neighbours on one side are counted if they are strictly nearer
    marginal = 0.0
    for side in (a, b):
        nearer = KDTree(side).query_ball_point(side, radius, p=np.inf, return_length=True)  # itself is one of them
        marginal += float(np.mean(digamma(np.maximum(nearer, 1))))
    return float(digamma(neighbours) + digamma(count) - marginal)


def paired_rows(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Both samples, if they are (N, j) and (N, k) with the same N."""
    a, b = (array("samples", rows, "N", "dimensions") for rows in (a, b))
    if len(a) != len(b):
        raise IbolError(f"there are {len(a)} samples of one variable and {len(b)} of the other, but pairs are needed")
    return a, b


def _information(a: Cells, b: Cells) -> float:
    return entropy(a) + entropy(b) - entropy(np.concatenate([a, b], axis=1))


def _standardized(rows: Floats) -> Floats:
    spread = rows.std(axis=0)
    return np.asarray((rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0), np.float64)
