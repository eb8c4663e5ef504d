"""Comparisons of runs: a difference with its 95 % interval over runs, and what follows from it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Word = Literal["supported", "contradicted", "undecided"]
LEVEL = 0.95
LEAST = 3  # runs on each side that a comparison is decided with
RULE = (
    "the 95 % interval of the difference of means lies above 0 (below 0: contradicted; else, or with fewer than "
    f"{LEAST} runs on a side: undecided); Welch's t interval over runs, of means within each linearizer where both "
    "sides have at least 2 runs on each of the same linearizers"
)


@dataclass(frozen=True)
class Run:
    """One number of one run, and what it stands on."""

    value: float
    linearizer: str = ""


@dataclass(frozen=True)
class Comparison:
    """How two sets of runs differ in one number."""

    what: str
    difference: float | None
    interval: tuple[float, float] | None
    runs: tuple[int, int]
    paired: bool
    verdict: Word

    def row(self) -> dict[str, Any]:
        """As JSON."""
        interval = None if self.interval is None else [_short(end) for end in self.interval]
        difference = None if self.difference is None else _short(self.difference)
        return {
            "what": self.what, "difference": difference, "interval_95": interval, "runs": list(self.runs),
            "paired_by_linearizer": self.paired, "verdict": self.verdict,
        }  # fmt: skip


def compare(what: str, ours: Sequence[Run], others: Sequence[Run]) -> Comparison:
    """Whether ours have more than the others."""
    counts = len(ours), len(others)
    if not all(counts):
        return Comparison(f"{what} (runs are missing)", None, None, counts, False, "undecided")
    strata = _strata(ours, others)
    difference = float(np.mean([np.mean(a) - np.mean(b) for a, b in strata]))
    interval = welch(strata)
    if interval is None or min(counts) < LEAST:
        return Comparison(what, difference, interval, counts, len(strata) > 1, "undecided")
    return Comparison(what, difference, interval, counts, len(strata) > 1, decided(interval))


def above(what: str, runs: Sequence[Run], limit: float) -> Comparison:
    """Whether the mean of runs is more than a number."""
    values = [run.value - limit for run in runs]
    if not values:
        return Comparison(f"{what} (runs are missing)", None, None, (0, 0), False, "undecided")
    interval = None
    if len(values) > 1:
        half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
        interval = float(np.mean(values) - half), float(np.mean(values) + half)
    enough = interval is not None and len(values) >= LEAST
    word = decided(interval) if enough and interval is not None else "undecided"
    return Comparison(what, float(np.mean(values)), interval, (len(values), 0), False, word)


def welch(strata: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, float] | None:
    """The t interval of the mean over strata of differences of means; the degrees of freedom are Satterthwaite's."""
    sides = [side for pair in strata for side in pair]
    if any(len(side) < 2 for side in sides):
        return None
    parts = [float(np.var(side, ddof=1)) / len(side) / len(strata) ** 2 for side in sides]
    difference, variance = float(np.mean([np.mean(a) - np.mean(b) for a, b in strata])), sum(parts)
    if variance == 0:
        return difference, difference
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    half = float(stats.t.ppf((1 + LEVEL) / 2, freedom)) * math.sqrt(variance)
    return difference - half, difference + half


def bootstrap(
    groups: Mapping[str, NDArray[np.float64]],
    statistic: Callable[[Mapping[str, NDArray[np.float64]]], NDArray[np.float64]],
) -> tuple[float, float]:
    """A percentile interval of a statistic of several groups of runs, whose rows are drawn again 2000 times.

    Groups are (runs, numbers); the statistic makes (B,) of arrays (B, runs, numbers).
    """
    rng = np.random.default_rng(0)
    drawn = {name: values[rng.integers(0, len(values), (2000, len(values)))] for name, values in groups.items()}
    low, high = np.quantile(statistic(drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def decided(interval: tuple[float, float]) -> Word:
    """What an interval of a difference says."""
    return "supported" if interval[0] > 0 else "contradicted" if interval[1] < 0 else "undecided"


def together(words: Sequence[Word]) -> Word:
    """A claim of several parts is supported if all are, and contradicted if one is."""
    if "contradicted" in words:
        return "contradicted"
    return "supported" if words and all(word == "supported" for word in words) else "undecided"


def _strata(ours: Sequence[Run], others: Sequence[Run]) -> list[tuple[list[float], list[float]]]:
    """Pairs of numbers on the same linearizer; all in one if they do not stand on the same ones."""

    def by_linearizer(runs: Sequence[Run]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for run in runs:
            found.setdefault(run.linearizer, []).append(run.value)
        return found

    a, b = by_linearizer(ours), by_linearizer(others)
    if set(a) == set(b) and all(len(side) > 1 for side in (*a.values(), *b.values())):
        return [(a[name], b[name]) for name in a]
    return [([run.value for run in ours], [run.value for run in others])]


def _short(value: float) -> float:
    return float(f"{value:.5g}")
