"""A cell is a run that an experiment needs: everything that decides it, and therefore its name.

Two figures that need the same run have equal cells, so that it is trained once.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ibol.envs.settings import EnvSettings
from ibol.runs.directory import settings_from_json
from ibol.training import launch

SET = "imitation-set"
"""The method of a cell that is no training but a file with paths of skills."""
RUNS = "runs"
_DIGITS = 10  # of the digest in a name


@dataclass(frozen=True, eq=False)
class Cell:
    """One run: what is trained, where, and with which settings."""

    method: str
    """What `launch.find` knows, or `imitation-set`."""
    env: str
    preset: str
    seed: int
    settings: Mapping[str, Any]
    """All of them, as JSON has them; those in `sources` are not among them."""
    env_settings: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not the default."""
    sources: Mapping[str, "Cell"] = field(default_factory=dict)
    """Settings that name what another cell makes."""
    members: tuple["Cell", ...] = ()
    """Of an imitation set: the runs whose skills it has."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """What was set on top of the preset and its variant: for display only."""
    variant: str = ""
    """For display only."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and other.identity == self.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @cached_property
    def identity(self) -> str:
        """A digest of all that decides the run."""
        content = {
            "method": self.method, "env": self.env, "preset": self.preset, "seed": self.seed,
            "settings": dict(self.settings), "env_settings": dict(self.env_settings),
            "sources": {name: cell.identity for name, cell in self.sources.items()},
            "members": [cell.identity for cell in self.members],
        }  # fmt: skip
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @cached_property
    def name(self) -> str:
        """What its directory is called."""
        method, env = ("".join(c if c.isalnum() or c in "-_." else "_" for c in one) for one in (self.method, self.env))
        skills = self.sources.get("skills")
        below = [] if skills is None else [skills.method]
        parts = [method, env, *below, self.variant, self.preset, f"seed{self.seed}", self.identity[:_DIGITS]]
        return "-".join(part for part in parts if part)[-200:]

    @property
    def place(self) -> Path:
        """Where it is kept, below the directory of the experiment."""
        return Path(RUNS) / (f"{self.name}.safetensors" if self.method == SET else self.name)

    @property
    def command(self) -> str:
        """The command that trains it."""
        return self.method if self.method in (*launch.COMMANDS, SET) else "discover"

    @property
    def needs(self) -> tuple["Cell", ...]:
        """The cells that must be there before this one can begin."""
        return (*self.sources.values(), *self.members)

    @property
    def linearizer(self) -> str:
        """What tells this cell's linearizer from others: for comparisons of runs that stand on the same one."""
        if self.command == "downstream":
            skills = self.sources.get("skills")
            return "none" if skills is None else skills.linearizer
        source = self.sources.get("linearizer")
        return str(self.settings.get("linearizer", "none")) if source is None else source.identity

    @cached_property
    def setting(self) -> str:
        """What it has in common with the runs that differ from it by seeds and linearizers of one kind only."""
        below = self.sources.get("linearizer")
        kind = {"variant": below.variant, **below.overrides} if below is not None else {"variant": ""}
        settings = {name: value for name, value in self.settings.items() if name != "linearizer"}
        skills = self.sources["skills"].setting if "skills" in self.sources else ""
        content = [self.method, self.env, self.preset, settings, dict(self.env_settings), skills]
        return json.dumps([*content, self.linearizer == "none", kind], sort_keys=True)

    @cached_property
    def epochs(self) -> int:
        """How many epochs it has when it is done."""
        if self.method == SET:
            return 1
        settings: Any = self.config()
        return int(getattr(settings, launch.find(self.method).length(settings)))

    def config(self) -> Any:
        """Its settings, with the places of other cells' results."""
        values = {**self.settings, **{name: str(cell.place) for name, cell in self.sources.items()}}
        return settings_from_json(launch.find(self.method).config, values, f"the settings of {self.name}")

    def environment(self) -> EnvSettings:
        """How its environment is run: on one thread, which changes how fast it is and nothing else."""
        values = {"num_threads": 1, **self.env_settings}
        return settings_from_json(EnvSettings, values, f"the settings of {self.name}")


def with_needs(cells: Iterable[Cell]) -> list[Cell]:
    """The cells and all that they need, each once, whatever is needed before what needs it."""
    found: dict[str, Cell] = {}

    def visit(cell: Cell) -> None:
        if cell.identity not in found:
            for other in cell.needs:
                visit(other)
            found[cell.identity] = cell

    for cell in cells:
        visit(cell)
    return list(found.values())
