"""Learning curves for the page: the few numbers of metrics.jsonl that tell whether a run learns."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

CURVES = {
    "objective": "objective",
    "intrinsic_reward": "intrinsic reward",
    "decoder": "decoder's log-likelihood of the latent",
    "reward": "linearizer's reward",
    "return": "return while exploring",
    "evaluation/information": "information of the latent about the end (nats, corrected)",
    "evaluation/spread": "spread of the ends (m)",
    "evaluation/coverage": "visited cells",
    "evaluation/distance": "distance for goals of full length (m)",
    "evaluation/direction_error": "angle between goal and way (degrees)",
    "evaluation/return": "return of the mode",
    "evaluation/goal_distance": "distance to the goal (m)",
}
"""Metrics that are drawn if a run has them, and how they are called."""
_POINTS = 200


def curves(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """By metric: environment steps and values, as means over pieces of the run if it is long."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        for name in CURVES:
            value = row.get(name)
            if value is not None and np.isfinite(value):
                found.setdefault(name, []).append((row.get("env_steps", row["epoch"]), value))
    return {name: _fewer(np.array(points, float)) for name, points in found.items()}


def _fewer(points: np.ndarray) -> list[list[float]]:
    pieces = np.array_split(points, min(_POINTS, len(points)))
    steps, values = np.array([piece.mean(axis=0) for piece in pieces]).T
    return [[round(step) for step in steps], [float(f"{value:.5g}") for value in values]]
