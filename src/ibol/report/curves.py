"""Learning curves for the page: the numbers of metrics.jsonl that show whether a run learns."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ibol.metrics.catalogue import CATALOGUE

CURVES = {
    name: f"{metric.explanation} ({metric.unit})" if metric.unit else metric.explanation
    for name, metric in CATALOGUE.items()
    if metric.kind == "training"
}
"""Metrics that are drawn if a run has them, and their titles."""
_POINTS = 200


def curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """By metric: environment steps and values, as means over pieces of the run if it is long."""
    logged: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name in CURVES:
            value = row.get(name)
            if value is not None and np.isfinite(value):
                logged.setdefault(name, []).append((row.get("env_steps", row["epoch"]), value))
    return {name: _fewer(np.array(points, float)) for name, points in logged.items()}


def _fewer(points: np.ndarray) -> list[list[float]]:
    pieces = np.array_split(points, min(_POINTS, len(points)))
    steps, values = np.array([piece.mean(axis=0) for piece in pieces]).T
    return [[round(step) for step in steps], [float(f"{value:.5g}") for value in values]]
