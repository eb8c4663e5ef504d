"""What the figures of runs share: their options, and which runs they are drawn from."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from ibol import zoo
from ibol.bounds import Bins, Count, Natural, NotEmpty
from ibol.errors import IbolError
from ibol.evaluation.groups import Group, envs_of
from ibol.robots import known_as
from ibol.runs.directory import RunDirectory

_VIEW = re.compile(r" \(((?:encoder|policy)[^)]*)\)")


@dataclass(frozen=True)
class PlotOptions:
    """What can be chosen for a figure."""

    trajectories: Count | None = None
    """Random skills (default: 500 where they are drawn, 2000 where they are measured, 32 for orientation)."""
    bins: Annotated[tuple[Bins, ...], NotEmpty()] | None = None
    """Bins of each dimension for boxes (default 32) and bins (default 8 16 32 64 128)."""
    metric: str = ""
    """The field of metrics.jsonl whose curve is drawn."""
    against: Literal["env_steps", "minutes"] = "env_steps"
    """The x axis of a curve."""
    seed: Natural = 0
    """Seed of latents and initial states."""
    quiet: bool = False
    """Show no progress."""

    def count(self, default: int) -> int:
        """How many trajectories a figure with this default has."""
        return default if self.trajectories is None else self.trajectories


def skill_runs(names: Sequence[str]) -> list[Path]:
    """The runs, each once, if all of them hold skills."""
    for name in names:
        if not is_skills(name):
            raise IbolError(f"{name} has no skills, but this figure is drawn from runs of 'ibol discover'")
    return list(dict.fromkeys(zoo.locate(name) for name in names))


def is_skills(name: str) -> bool:
    """Whether this is a run with skills."""
    path = zoo.locate(name)
    return (path / "config.json").exists() and RunDirectory.open(path).command == "discover"


def said_once(groups: Sequence[Group]) -> tuple[list[Group], str]:
    """The groups without what all of them see in their labels, such as "policy sees no location", and these words."""
    views = {view.group(1) if (view := _VIEW.search(group.label)) else "" for group in groups}
    if len(views) != 1 or "" in views:
        return list(groups), ""
    return [replace(group, label=_VIEW.sub("", group.label, count=1)) for group in groups], views.pop()


def setting_of(groups: Sequence[Group], view: str = "") -> str:
    """The setting in a few words; `view` is what all policies or encoders see."""
    runs = sum(len(group.runs) for group in groups)
    presets = ", ".join(dict.fromkeys(group.preset for group in groups))
    seeds = sorted({seed for group in groups for seed in group.seeds})
    seed = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    envs = envs_of(groups)
    names = ", ".join(known_as(env, envs) for env in envs)
    where = f"{names}: {runs} run{'s' if runs > 1 else ''}, preset {presets}, {seed}"
    return f"{where}; {view}" if view else where
