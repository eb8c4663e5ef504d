"""Rows of numbers: one for each run, and one for the mean of several."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ibol.metrics.spread import bootstrap_interval

Row = dict[str, Any]


def mean_rows(members: Sequence[Row]) -> list[Row]:
    """A row with the means over several runs and the bootstrap intervals of these; none for one run."""
    if len(members) < 2:
        return []
    numbers = [name for name, value in members[0].items() if isinstance(value, int | float) and name != "bins"]
    values = {name: [float(member[name]) for member in members] for name in numbers}
    means = {name: float(np.mean(values[name])) for name in numbers}
    intervals = {name: bootstrap_interval(values[name]) for name in numbers}
    return [{**members[0], "run": f"mean of {len(members)} runs", **means, "intervals": intervals}]


def cell(row: Mapping[str, Any], name: str) -> str:
    """A number of a row as text, with its interval over runs if there is one."""
    value = row[name]
    if name in row.get("intervals", {}):
        low, high = row["intervals"][name]
        return f"{value:.3g} [{low:.3g}, {high:.3g}]"
    return f"{round(value, 9) + 0.0:.4g}" if isinstance(value, float) else str(value)
