"""The imitation set: paths of random skills of several runs, one file for everybody who is to follow them.

FILE.safetensors: `locations` (M, K + 1, k), where each episode was at every tenth step from its start on, and `run`
(M,), the number of the run that it is from; the JSON header names the runs, their methods, the seed and the versions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.bounds import whole_number
from ibol.errors import IbolError
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, versions
from ibol.runs.progress import WorkProgress
from ibol.seeding import derive
from ibol.skills.policy import Skills, skills_of

EVERY = 10  # steps between two places of a path
_BATCH = 500  # episodes that are simulated at once


def make_imitation_set(
    sources: Sequence[Path], output: Path, *, trajectories: int = 1000, seed: int = 0, quiet: bool = False
) -> int:
    """Write the paths of `trajectories` random skills of each run; returns how many there are."""
    if not sources:
        raise IbolError("name at least one run of 'ibol discover' whose skills to imitate")
    trajectories = whole_number("trajectories", trajectories)
    runs = [RunDirectory.open(path) for path in dict.fromkeys(sources)]
    skills = [skills_of(run) for run in runs]
    env = skills[0].env
    for run, found in zip(runs, skills, strict=True):
        if found.env != env:
            raise IbolError(f"{run.path} is of {found.env} and {runs[0].path} of {env}: a set is of one environment")
        if not found.location_dims:
            raise IbolError(f"the skills in {run.path} have no location to be imitated")
    with WorkProgress(len(runs) * trajectories, "episodes", quiet) as progress:
        paths = [
            _paths(found, trajectories, derive(seed, "imitation", number), progress)
            for number, found in enumerate(skills)
        ]
    if len({path.shape[1:] for path in paths}) > 1:
        raise IbolError("the runs have episodes of different lengths: a set is of one length")
    arrays: Arrays = {"locations": np.concatenate(paths), "run": np.repeat(np.arange(len(runs)), trajectories)}
    about = {"env": env, "every": EVERY, "trajectories": trajectories, "seed": seed, "versions": versions()}
    about["runs"] = [_provenance(run) for run in runs]
    checkpoint.save(output, arrays, {"imitation_set": about})
    return len(arrays["locations"])


def _paths(skills: Skills, trajectories: int, seed: int, progress: WorkProgress) -> NDArray[np.float32]:
    latents = skills.sample_latents(trajectories, seed)
    parts = []
    for start in range(0, trajectories, _BATCH):
        part = latents[start : start + _BATCH]
        states = skills.rollout(part, derive(seed, "episodes", start)).states
        parts.append(states[:, ::EVERY, list(skills.location_dims)])
        progress.advance(len(part))
    return np.concatenate(parts)


def _provenance(run: RunDirectory) -> dict[str, Any]:
    config = run.config
    return {
        "run": run.path.resolve().name,
        "method": run.method,
        "preset": config["preset"],
        "seed": config["seed"],
        "linearizer": config["settings"]["linearizer"],
        "epoch": run.load_checkpoint(lambda name: False)[1],
    }
