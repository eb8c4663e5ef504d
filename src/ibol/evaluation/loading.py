"""A run and what it has learned, loaded once for all that is measured, drawn and filmed of it."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ibol.errors import IbolError
from ibol.linearizer.policy import Linearizer
from ibol.runs import checkpoint
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import Skills
from ibol.training.launch import agent_of, open_run

_WORLD = ("env", "env_settings", "state_dim", "action_dim", "location_dims", "linearized", "distortion")
"""What the description of skills says of the world that they act in."""


@dataclass(frozen=True, eq=False)
class LoadedRun:
    """A run directory with its agent."""

    directory: RunDirectory
    agent: Any
    """What it has learned: an `Agent`."""

    @property
    def path(self) -> Path:
        """Where the run is."""
        return self.directory.path

    @property
    def kind(self) -> str:
        """What acts: skills, linearizer, policy or controller."""
        return str(self.agent.kind)

    @property
    def skills(self) -> Skills:
        """The agent, if it is skills."""
        if self.kind != "skills":
            raise IbolError(f"{self.path} is a run of 'ibol {self.directory.command}' and has no skills")
        assert isinstance(self.agent, Skills)
        return self.agent

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of all that decides what the skills do."""
        return fingerprint_of(self.skills)


def fingerprint_of(skills: Skills) -> str:
    """A SHA-256 of all that decides what skills do."""
    arrays = {**checkpoint.flatten(skills.network, "skills/"), **skills.normalizer.state()}
    description = dataclasses.asdict(skills.description)
    if skills.phi is None:
        del description["represented"]  # so that nothing changes for skills without phi
    else:
        arrays |= checkpoint.flatten(skills.phi, "phi/")
    return _digest(description, arrays, skills.linearizer)


def fingerprint_of_world(skills: Skills) -> str:
    """A SHA-256 of all that decides what becomes of given answers in the place of the skill policy's."""
    description = dataclasses.asdict(skills.description)
    del description["env_settings"]["num_threads"]
    return _digest({name: description[name] for name in _WORLD}, {}, skills.linearizer)


def _digest(description: dict[str, Any], arrays: checkpoint.Arrays, linearizer: Linearizer | None) -> str:
    descriptions = [description]
    if linearizer is not None:
        arrays = arrays | {f"linearizer/{name}": value for name, value in linearizer.arrays().items()}
        descriptions.append(dataclasses.asdict(linearizer.description))
    digest = hashlib.sha256(json.dumps(descriptions, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


Run = Path | LoadedRun


def load_run(run: Run) -> LoadedRun:
    """The run, loaded if it is not yet."""
    if isinstance(run, LoadedRun):
        return run
    if not isinstance(run, Path):
        raise IbolError(f"{run!r} is not a run: give the path of a run directory, or a loaded run")
    return LoadedRun(directory := open_run(run), agent_of(directory))


def load_runs(runs: Sequence[Run]) -> list[LoadedRun]:
    """Each run once, loaded if it is not yet."""
    if isinstance(runs, str | Path | LoadedRun):
        raise IbolError(f"runs are {str(runs)!r}, but a list of runs is needed")
    return [load_run(run) for run in {getattr(run, "path", run): run for run in runs}.values()]
