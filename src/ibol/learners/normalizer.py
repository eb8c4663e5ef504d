"""Observation normalisers: fixed statistics of random actions, and the moving average of skill discovery.

Fixed, as in the paper: uniform random actions from a fresh episode, 50 steps, termination ignored, all states pooled.
The values for our environments ship as data (`envs/normalizers.json`, written by `ibol normalize ENV --update`).

Moving average: the authors update their statistics with every single state, in 8 workers that are independent of each
other. One shared normaliser, updated once in an epoch with the weight w = 1 - (1 - rate)^n, where n is the number of
states that one worker sees in an epoch, follows the same average.
"""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import whole_number
from ibol.envs import find_robot, make
from ibol.envs.settings import EnvSettings
from ibol.runs.checkpoint import BadCheckpoint, check_like
from ibol.runs.progress import WorkProgress
from ibol.seeding import generator

PAPER_TRAJECTORIES = 10_000
PAPER_STEPS = 50
WORKERS = 8
RATE = 1e-3
_EPSILON = 1e-8
_DATA = Path(str(resources.files("ibol.envs") / "normalizers.json"))


class Normalizer:
    """Maps a state s to (s - mean) / (std + 1e-8); starts at mean 0 and variance 1."""

    def __init__(self, dim: int) -> None:
        self.mean: NDArray[np.float64] = np.zeros(dim)
        self.var: NDArray[np.float64] = np.ones(dim)

    @classmethod
    def of(cls, mean: NDArray[np.float64], std: NDArray[np.float64]) -> "Normalizer":
        """A normaliser with given statistics."""
        made = cls(len(mean))
        made.mean, made.var = np.asarray(mean, np.float64), np.asarray(std, np.float64) ** 2
        return made

    def state(self) -> dict[str, NDArray[np.float64]]:
        """The statistics by name, for a checkpoint."""
        return {"normalizer/mean": self.mean, "normalizer/var": self.var}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], dim: int) -> "Normalizer":
        """The normaliser of a checkpoint, for states of `dim` dimensions."""
        made = cls(dim)
        check_like(made.state(), arrays)
        made.mean, made.var = arrays["normalizer/mean"], arrays["normalizer/var"]
        if (made.var < 0).any():
            raise BadCheckpoint("a variance of the normaliser in the checkpoint is negative")
        return made

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each dimension."""
        return np.sqrt(self.var)

    def __call__(self, states: NDArray[np.floating]) -> NDArray[np.float32]:
        """Normalise states (..., n)."""
        return ((states - self.mean) / (self.std + _EPSILON)).astype(np.float32)

    def update(self, states: NDArray[np.floating], weight: float) -> None:
        """Mix the states (N, n) of one epoch into the moving average."""
        mean, var = states.mean(axis=0, dtype=np.float64), states.var(axis=0, dtype=np.float64)
        self.var = (1 - weight) * (self.var + weight * (mean - self.mean) ** 2) + weight * var
        self.mean = (1 - weight) * self.mean + weight * mean


def omit(states: NDArray[np.float32], dims: tuple[int, ...]) -> NDArray[np.float32]:
    """Normalised states (..., n) with some dimensions set to 0, so that a network does not see them."""
    hidden = states.copy()
    hidden[..., list(dims)] = 0.0
    return hidden


def epoch_weight(states_per_epoch: int, *, rate: float = RATE, workers: int = WORKERS) -> float:
    """The weight of one epoch's states in the moving average."""
    return float(1.0 - (1.0 - rate) ** (states_per_epoch / workers))


def compute_normalizer(
    env: str,
    *,
    trajectories: int = PAPER_TRAJECTORIES,
    steps: int = PAPER_STEPS,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    quiet: bool = True,
) -> Normalizer:
    """Mean and standard deviation of the states that uniform random actions visit; the same for the same seed.

    `options` are further arguments of `ibol.make`. Unless `quiet`, progress is shown.
    """
    trajectories, steps = whole_number("trajectories", trajectories), whole_number("steps", steps)
    given = dict(options or {})
    robot = find_robot(env)
    if robot is not None and not robot.terminates_when_fallen and given.get("location_dims") is None:
        given["terminate"] = False
    batch = min(trajectories, 500)
    # An own environment cannot be made to ignore termination: it starts anew, and its states count all the same. So
    # does D'Kitty: the authors' numbers are those of upright robots.
    envs = make(env, batch, **given)
    rng = generator(seed, "normalizer")
    count, mean, spread = 0, np.zeros(1), np.zeros(1)
    with WorkProgress(trajectories * steps, "steps", quiet) as progress:
        for start in range(0, trajectories, batch):
            obs, _ = envs.reset(seed=int(rng.integers(2**31 - batch)))
            rows = min(batch, trajectories - start)
            for _ in range(steps):
                # Pooled moments of the states so far and of this batch, so that no state needs to be kept.
                states = np.asarray(obs, np.float64)[:rows]
                delta, total = states.mean(axis=0) - mean, count + rows
                spread = spread + states.var(axis=0) * rows + delta**2 * (count * rows / total)
                mean = mean + delta * (rows / total)
                count = total
                obs, *_ = envs.step(rng.uniform(-1.0, 1.0, envs.action_space.shape))
                progress.advance(rows)
    envs.close()
    return Normalizer.of(mean, np.sqrt(spread / count))


def load_normalizer(env: str) -> Normalizer | None:
    """The statistics that ship for one of our environments, None for any other."""
    entry = _shipped().get(env)
    return None if entry is None else Normalizer.of(np.array(entry["mean"]), np.array(entry["std"]))


def find_normalizer(env: str, settings: EnvSettings, trajectories: int, seed: int) -> Normalizer:
    """The shipped statistics, or for an own environment those of some trajectories."""
    shipped = load_normalizer(env)
    if shipped is not None:
        return shipped
    own = {"horizon": settings.horizon, "location_dims": settings.location_dims, "env_kwargs": settings.arguments}
    return compute_normalizer(env, trajectories=trajectories, seed=seed, options=own)


def save_normalizer(env: str, normalizer: Normalizer, provenance: dict[str, Any]) -> Path:
    """Make these the statistics that ship for an environment; returns the data file."""
    rounded = {"mean": normalizer.mean.round(6).tolist(), "std": normalizer.std.round(6).tolist()}
    content = {**_shipped(), env: {**provenance, **rounded}}
    _DATA.write_text(json.dumps(dict(sorted(content.items())), indent=1) + "\n")
    return _DATA


def _shipped() -> dict[str, Any]:
    return dict(json.loads(_DATA.read_text())) if _DATA.is_file() else {}
