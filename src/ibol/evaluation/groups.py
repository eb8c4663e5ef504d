"""Which runs belong together: those that differ in nothing but the seed and the linearizer below them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibol.downstream.hierarchy import SKILLS_COPY
from ibol.errors import IbolError
from ibol.runs.directory import RunDirectory
from ibol.training.launch import find

_ASIDE = (
    "linearizer", "skills", "imitation_set", "evaluate_every", "evaluation_trajectories",
)  # what does not make another setting  # fmt: skip
_IN_NAME = ("encoder_sees", "policy_sees")


@dataclass(frozen=True)
class Group:
    """Runs of one setting in one environment."""

    env: str
    label: str
    """The method, and whatever tells the setting from the others' of the same method."""
    preset: str
    runs: tuple[RunDirectory, ...]

    @property
    def seeds(self) -> list[int]:
        """Their seeds, each once."""
        return sorted({run.config["seed"] for run in self.runs})


def group_runs(paths: Sequence[Path]) -> list[Group]:
    """The runs in groups, in the order in which they were given."""
    runs = [RunDirectory.open(path) for path in paths]
    same_method: dict[tuple[str, str], list[RunDirectory]] = {}
    for run in runs:
        same_method.setdefault((run.config["env"], method_name(run)), []).append(run)
    labels: dict[int, str] = {}
    for (_, name), members in same_method.items():
        labels |= {id(run): f"{name} {extra}".rstrip() for run, extra in zip(members, _extras(members), strict=True)}
    groups: dict[tuple[str, str], Group] = {}
    for run in runs:
        key = (run.config["env"], labels[id(run)])
        group = groups.get(key, Group(*key, preset=run.config["preset"], runs=()))
        groups[key] = dataclasses.replace(group, runs=(*group.runs, run))
    return list(groups.values())


def method_name(run: RunDirectory) -> str:
    """The method as the paper writes it: -L on a linearizer (IBOL always is), -XY if encoders see locations only.

    A downstream run is called after the method whose skills it uses.
    """
    command, settings, skills = run.method, run.config["settings"], run.config.get("skills")
    title = find(command).title
    if command == "downstream":
        if settings["skills"] == "none":
            return "SAC"
        chosen = method_name(RunDirectory.open(run.path / SKILLS_COPY))
        return chosen if settings["controller"] == "sac" else f"{chosen} planner"
    if skills is None:
        return title
    name = title
    if command == "ibol":
        name += "" if skills["linearized"] or run.config["env"] == "point" else " without linearizer"
    else:
        name += "-L" if skills["linearized"] else ""
    if settings["encoder_sees"] == "location":
        name += "-XYO" if settings["policy_sees"] == "no_location" else "-XY"
    elif "no_location" in (settings["encoder_sees"], settings["policy_sees"]):
        name += " without location"
    return name


def only_env(groups: Sequence[Group]) -> str:
    """The environment of all groups, which must be one."""
    envs = sorted({group.env for group in groups})
    if len(envs) != 1:
        raise IbolError(f"these runs are from {', '.join(envs)}, but this figure compares runs of one environment")
    return envs[0]


def _extras(runs: Sequence[RunDirectory]) -> list[str]:
    """What tells each run's setting from the others': the preset, then settings that vary within a preset."""
    presets = {run.config["preset"] for run in runs}
    found = []
    for run in runs:
        rivals = [other for other in runs if other.config["preset"] == run.config["preset"]]
        own = _settings(run)
        varying = [name for name, value in own.items() if any(_settings(r).get(name) != value for r in rivals)]
        parts = [run.config["preset"]] if len(presets) > 1 else []
        found.append(" ".join(parts + [f"{name.rstrip('_')}={_short(own[name])}" for name in varying]))
    return found


def _settings(run: RunDirectory) -> dict[str, Any]:
    aside = _ASIDE + _IN_NAME
    return {name: value for name, value in run.config["settings"].items() if name not in aside}


def _short(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
