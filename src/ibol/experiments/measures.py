"""Numbers that only some of the paper's claims need: how far skills get in y, and in how many ways they turn."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ibol.evaluation.loading import load_run
from ibol.evaluation.plots.skills import ROTATION
from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.rows import Row
from ibol.figures.orientation import torso_axis
from ibol.seeding import derive

LINE = 32  # latents along the first dimension, and goals of the linearizer


def turning(place: Path, *, seed: int = 0) -> Row:
    """Circular variances of where the torso points in the end: over latents, and over the linearizer's goals alone.

    0 is one direction for all, 1 all directions alike.
    """
    run = load_run(place)
    robot = run.skills.env_settings.robot(run.skills.env)
    if robot is None or robot.rotation not in ROTATION:
        return {}
    dims = ROTATION[robot.rotation]
    line = skill_rollouts(run, which="line", trajectories=LINE, seed=seed, state_dims=dims)
    found = {"heading_variance": circular_variance(torso_axis(line.locations[:, -1]))}
    if run.skills.linearizer is not None:
        goals = np.zeros((LINE, run.skills.linearizer.goal_dim), np.float32)
        goals[:, dims[-1]] = np.linspace(-1, 1, LINE)
        states = run.skills.linearizer.rollout(goals, seed=derive(seed, "orientation")).states
        found["linearizer_heading_variance"] = circular_variance(torso_axis(states[:, -1, list(dims)]))
    return found


def circular_variance(axes: NDArray[np.floating]) -> float:
    """1 minus the length of the mean of unit vectors (N, 2)."""
    lengths = np.maximum(np.linalg.norm(axes, axis=-1, keepdims=True), 1e-9)
    return float(1 - np.linalg.norm((axes / lengths).mean(axis=0)))


def vertical_reach(place: Path, *, trajectories: int, seed: int = 0) -> Row:
    """The root mean square of the final y of random skills, in metres; nothing for those that move on a line."""
    ends = skill_rollouts(place, trajectories=trajectories, seed=seed).ends
    return {"vertical_reach": float(np.sqrt(np.mean(ends[:, 1] ** 2)))} if ends.shape[1] > 1 else {}


def further(claims: Sequence[str], place: Path, *, trajectories: int, seed: int = 0) -> Row:
    """What an entry's claims need of a run beyond its row."""
    found: Row = {}
    if "C8" in claims:
        found |= turning(place, seed=seed)
    if "C9" in claims:
        found |= vertical_reach(place, trajectories=trajectories, seed=seed)
    return found
