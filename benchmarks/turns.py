"""Contestants that step in turn for a short while, many rounds, so that a noisy machine hits all alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Step = Callable[[int], object]


def rates_in_turn(contestants: Mapping[str, tuple[int, Step]], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Steps of single environments in a second, in each round; a contestant is how many it steps at once, and how."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _, step in contestants.values():
        for t in range(20):
            step(t)
    for _ in range(rounds):
        for name, (copies, step) in contestants.items():
            count, began = 0, time.perf_counter()
            while time.perf_counter() - began < seconds:
                step(count % 1000)
                count += 1
            rates[name].append(count * copies / (time.perf_counter() - began))
    return rates


def compared(rates: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """The median rate of each, and how many times of it ours is: median, lowest and highest of the rounds."""
    result = {}
    for name, values in rates.items():
        ratios = [ours / theirs for ours, theirs in zip(rates["ours"], values, strict=True)]
        result[name] = {
            "steps_per_second": statistics.median(values),
            "ours_over_it": statistics.median(ratios),
            "lowest_ratio": min(ratios),
            "highest_ratio": max(ratios),
        }
    return result
