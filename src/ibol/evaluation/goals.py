"""Where a linearizer gets for random goals, simulated once and kept in its run directory.

RUN/evaluation/goals-N-seedS.safetensors: the locations of N episodes, and a JSON header with everything that decides
them. What does not fit the run any more, or was damaged, is simulated again.
"""

import contextlib
import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.errors import IbolError
from ibol.evaluation.loading import LoadedRun
from ibol.linearizer.evaluation import random_goal_paths
from ibol.linearizer.policy import Linearizer
from ibol.runs import checkpoint, files
from ibol.runs.directory import versions

_VERSION = 1
_ENGINES = ("mujoco", "jax", "numpy")


def goal_paths(run: LoadedRun | Linearizer, *, trajectories: int, seed: int) -> NDArray[np.float32]:
    """Locations (N, T + 1, d) under random location goals; those of a run come from its cache if they are there."""
    if isinstance(run, Linearizer):
        return random_goal_paths(run, trajectories=trajectories, seed=seed)
    file = run.path / "evaluation" / file_name(trajectories, seed)
    key = {
        "version": _VERSION, "trajectories": trajectories, "seed": seed, "linearizer": fingerprint(run.agent),
        "versions": {name: versions()[name] for name in _ENGINES},
    }  # fmt: skip
    kept = _load(file, key)
    if kept is not None:
        return kept
    paths = random_goal_paths(run.agent, trajectories=trajectories, seed=seed)
    with contextlib.suppress(OSError, IbolError):  # a run that cannot be written is as good as any other
        files.folder(run.path, file.parent.name)
        checkpoint.save(file, {"locations": paths}, key)
    return paths


def file_name(trajectories: int, seed: int) -> str:
    """What the cache of a run is called."""
    return f"goals-{trajectories}-seed{seed}.safetensors"


def fingerprint(linearizer: Linearizer) -> str:
    """A SHA-256 of all that decides what a linearizer does."""
    digest = hashlib.sha256(json.dumps(dataclasses.asdict(linearizer.description), sort_keys=True).encode())
    for name, value in sorted(linearizer.arrays().items()):
        digest.update(f"{name}{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


def _load(file: Path, key: dict[str, Any]) -> NDArray[np.float32] | None:
    try:
        arrays, kept_key = checkpoint.load(file)
    except IbolError:
        return None
    paths = arrays.get("locations")
    return paths if kept_key == key and paths is not None and paths.shape[:1] == (key["trajectories"],) else None
