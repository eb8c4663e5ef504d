"""What each latent dimension says of the final location on its own: SEPIN@k and WSEPIN, as the paper measures them.

The published ones are plug-in estimates on histograms, in nats, with the bias that `ibol.metrics.information` explains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ibol.bounds import whole_number
from ibol.errors import IbolError
from ibol.metrics.information import (
    Cells,
    Floats,
    Limits,
    both,
    counted_entropy,
    neighbour_information,
    number_cells,
    paired_rows,
    quantize,
)

Part = tuple[int, ...]  # some dimensions of Z


@dataclass(frozen=True)
class Separability:
    """Three measures of one set of skills."""

    information: float
    """I(Z; S)."""
    sepin: float
    """SEPIN@k: the mean of the k largest I(S; Z_i | other dimensions of Z)."""
    wsepin: float
    """WSEPIN: the mean of all of them, weighted by I(S; Z_i)."""


def separability(
    latents: Floats, ends: Floats, *, bins: int = 32, limits: Limits = (None, None), k: int = 1
) -> Separability:
    """The published measures of latents (N, d) and final locations (N, j).

    `limits` are the ranges (2, d) and (2, j) that the bins divide; the paper takes those over all compared runs
    (`pooled_limits`).
    """
    return _on_histograms(latents, ends, bins, limits, k)(np.arange(len(latents)))


def corrected_separability(
    latents: Floats,
    ends: Floats,
    *,
    bins: int = 32,
    limits: Limits = (None, None),
    k: int = 1,
    shuffles: int = 10,
    seed: int = 0,
) -> Separability:
    """The same minus their means over shuffled pairs: 0 on average for skills that ignore the latent."""
    measure = _on_histograms(latents, ends, bins, limits, k)
    rng, shuffles = np.random.default_rng(whole_number("seed", seed, 0)), whole_number("shuffles", shuffles)
    published = measure(np.arange(len(latents)))
    chance = [measure(rng.permutation(len(latents))) for _ in range(shuffles)]
    return Separability(
        published.information - float(np.mean([c.information for c in chance])),
        published.sepin - float(np.mean([c.sepin for c in chance])),
        published.wsepin - float(np.mean([c.wsepin for c in chance])),
    )


def neighbour_separability(latents: Floats, ends: Floats, *, k: int = 1, neighbours: int = 4) -> Separability:
    """The same measures made of `neighbour_information`, without bins and nearly without bias."""
    latents, ends = paired_rows(latents, ends)
    return _combine(
        latents.shape[1], k, lambda part: neighbour_information(latents[:, list(part)], ends, neighbours=neighbours)
    )


def _on_histograms(latents: Floats, ends: Floats, bins: int, limits: Limits, k: int) -> Callable[[Cells], Separability]:
    """The measures as a function of the order (N,) in which the latents are paired with the ends."""
    latents, ends = paired_rows(latents, ends)
    count = len(latents)
    of_z, of_s = both(limits)
    z, s = quantize(latents, bins, of_z), _numbers(quantize(ends, bins, of_s))
    numbers: dict[Part, Cells] = {}
    h_s = counted_entropy(s)
    h_z: dict[Part, float] = {}

    def information(part: Part, order: Cells) -> float:
        """I(S; Z_part) = H(S) + H(Z_part) - H(S, Z_part)."""
        if part not in numbers:
            numbers[part] = _numbers(z[:, list(part)])
            h_z[part] = counted_entropy(numbers[part])
        return h_s + h_z[part] - counted_entropy(s * count + numbers[part][order])

    return lambda order: _combine(z.shape[1], k, lambda part: information(part, order))


def _combine(dims: int, k: int, information: Callable[[Part], float]) -> Separability:
    """The measures from I(S; Z_part) as a function of the part."""
    if not 1 <= whole_number("k", k, 0) <= dims:
        raise IbolError(f"SEPIN@{k} was asked for of {dims} latent dimensions: choose k (--sepin-k) from 1 to {dims}")
    every = tuple(range(dims))
    parts = {every, *((i,) for i in every), *(_without(i, dims) for i in every)} - {()}
    of_part = {(): 0.0, **{part: information(part) for part in sorted(parts)}}
    separate = np.array([of_part[every] - of_part[_without(i, dims)] for i in every])
    alone = np.maximum([of_part[(i,)] for i in every], 0.0)  # an estimate from neighbours may fall below 0
    weights = alone / alone.sum() if alone.sum() > 0 else alone
    return Separability(of_part[every], float(np.sort(separate)[-k:].mean()), float((weights * separate).sum()))


def _without(i: int, dims: int) -> Part:
    return tuple(j for j in range(dims) if j != i)


def _numbers(cells: Cells) -> Cells:
    """Numbers (N,) below N for the rows of (N, k), so that two of them make one."""
    return np.unique(number_cells(cells), return_inverse=True)[1].astype(np.int64)
