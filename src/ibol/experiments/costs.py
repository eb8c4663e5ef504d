"""What runs cost: measured in run directories, and estimated for those that are not there yet."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibol.errors import IbolError
from ibol.experiments.cells import SET, Cell
from ibol.runs.directory import RunDirectory

Kind = tuple[str, str, str, str]
"""Method, environment, variant and preset."""
KNOWN: dict[str, float] = {
    "dads:ant": 7.2,
    "dads:ant:distorted": 5.1,
    "dads:ant:xy": 7.4,
    "dads:ant:xyo": 6.0,
    "dads:dkitty": 10.3,
    "dads:half_cheetah": 2.0,
    "dads:hopper": 3.3,
    "dads:point": 0.6,
    "diayn:ant": 6.4,
    "diayn:ant:distorted": 5.1,
    "diayn:ant:xy": 7.0,
    "diayn:ant:xyo": 5.9,
    "diayn:dkitty": 9.0,
    "diayn:half_cheetah": 1.7,
    "diayn:hopper": 3.1,
    "diayn:point": 0.4,
    "downstream without skills:ant_goal": 6.4,
    "downstream without skills:ant_multi_goals": 6.5,
    "downstream without skills:half_cheetah_goal": 4.9,
    "downstream without skills:half_cheetah_imitation": 5.1,
    "downstream:ant_goal": 1.8,
    "downstream:ant_multi_goals": 1.8,
    "downstream:half_cheetah_goal": 0.4,
    "downstream:half_cheetah_imitation": 0.4,
    "ibol:ant": 7.2,
    "ibol:ant:distorted": 5.7,
    "ibol:ant:orientation": 5.8,
    "ibol:dkitty": 9.1,
    "ibol:half_cheetah": 4.3,
    "ibol:hopper": 6.6,
    "ibol:humanoid": 12.4,
    "ibol:point": 1.0,
    "imitation-set:half_cheetah": 3.6,
    "linearize:ant": 4.2,
    "linearize:ant:euclidean": 3.6,
    "linearize:ant:velocity_free": 10.7,
    "linearize:dkitty": 5.6,
    "linearize:half_cheetah:velocity_free": 8.6,
    "linearize:hopper": 6.9,
    "linearize:hopper:velocity_free": 7.3,
    "linearize:humanoid:velocity_free": 41.2,
    "valor:ant": 6.0,
    "valor:ant:distorted": 4.5,
    "valor:ant:xy": 7.3,
    "valor:ant:xyo": 6.4,
    "valor:dkitty": 8.4,
    "valor:half_cheetah": 2.6,
    "valor:hopper": 3.8,
    "valor:point": 0.5,
}
"""Minutes of whole runs of preset fast on one core, for a first estimate: benchmarks/results/costs.json, rounded.

What a directory has measured comes before it.
"""
_ROUGH = {"smoke": 0.3, "fast": 5.0}  # minutes of a run of which nothing is known


@dataclass(frozen=True)
class Cost:
    """What the runs of one kind took."""

    method: str
    env: str
    variant: str
    preset: str
    runs: int
    """Finished runs that were measured."""
    minutes: float
    """The median of them."""

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "method": self.method, "env": self.env, "variant": self.variant, "preset": self.preset, "runs": self.runs,
            "minutes": round(self.minutes, 3), "total_minutes": round(self.runs * self.minutes, 3),
        }  # fmt: skip


class Costs:
    """Estimates in seconds, from the runs of a directory and `KNOWN`."""

    def __init__(self, cells: Sequence[Cell], directory: Path) -> None:
        self._epoch: dict[Kind, list[float]] = defaultdict(list)
        self._whole: dict[Kind, list[float]] = defaultdict(list)
        for cell in cells:
            self.learn(cell, directory)

    def learn(self, cell: Cell, directory: Path) -> None:
        """Take what a run has logged into account."""
        if cell.method == SET:
            return
        rows = _logged(directory / cell.place)
        seconds = [row.get("time/epoch_seconds", 0.0) for row in rows]
        if seconds:
            self._epoch[kind_of(cell)].append(sum(seconds) / len(seconds))
            if len(seconds) >= cell.epochs:
                self._whole[kind_of(cell)].append(sum(seconds))

    def seconds(self, cell: Cell, done: int = 0) -> float:
        """What the rest of a cell takes on this machine after so many epochs, more or less."""
        left = max(cell.epochs - done, 0)
        if cell.method == SET and cell.preset == "smoke":
            return 5.0 * left
        measured = self._epoch.get(kind_of(cell))
        if measured:
            return statistics.median(measured) * left
        minutes = _known(cell) or _like(cell)
        return 60.0 * minutes * left / max(cell.epochs, 1)

    def known(self, cell: Cell) -> bool:
        """Whether this kind of run was measured, here or in `KNOWN`."""
        return kind_of(cell) in self._epoch or _known(cell) is not None

    def table(self) -> list[Cost]:
        """The kinds of runs that came to their end, the dearest first."""
        found = [Cost(*kind, len(all_), statistics.median(all_) / 60) for kind, all_ in self._whole.items()]
        return sorted(found, key=lambda cost: -cost.runs * cost.minutes)


def kind_of(cell: Cell) -> Kind:
    """Cells of one kind cost about the same."""
    alone = cell.method == "downstream" and "skills" not in cell.sources
    return f"{cell.method}{' without skills' if alone else ''}", cell.env, cell.variant, cell.preset


def name_of(cell: Cell) -> str:
    """The kind of a cell as a word, but for its preset."""
    return ":".join(filter(None, kind_of(cell)[:3]))


def _known(cell: Cell) -> float | None:
    return KNOWN.get(name_of(cell)) if cell.preset == "fast" else None


def _like(cell: Cell) -> float:
    """Minutes of what is most alike: another variant, else other tasks for a controller, else other methods there."""
    if cell.preset == "fast":
        own, own_env = kind_of(cell)[:2]
        known = [(method, env, minutes) for name, minutes in KNOWN.items() for method, env, *_ in [name.split(":")]]
        same = [minutes for method, env, minutes in known if (method, env) == (own, own_env)]
        task = [minutes for method, _, minutes in known if method == own and cell.method == "downstream"]
        there = [minutes for method, env, minutes in known if env == own_env]
        if near := same or task or there:
            return statistics.median(near)
    if cell.preset in _ROUGH:
        return _ROUGH[cell.preset]
    # The paper's presets: two seconds for an epoch, as benchmarks/results measures them.
    return 2.0 * cell.epochs / 60


def wall_seconds(seconds: Iterable[float], longest: float, workers: int) -> float:
    """How long workers need for tasks together: no less than their sum over the workers, nor than the longest chain."""
    return max(sum(seconds) / max(workers, 1), longest)


def chains(cells: Sequence[Cell], seconds: dict[str, float]) -> dict[str, float]:
    """For each cell how long it and what waits for it take one after the other; `cells` as `with_needs` has them."""
    after = dict.fromkeys(seconds, 0.0)
    for cell in reversed(cells):
        own = seconds[cell.identity] + after[cell.identity]
        for other in cell.needs:
            if other.identity in after:
                after[other.identity] = max(after[other.identity], own)
    return {identity: seconds[identity] + after[identity] for identity in seconds}


def _logged(place: Path) -> list[dict[str, float]]:
    try:
        return RunDirectory(place, {}).metrics() if (place / "metrics.jsonl").is_file() else []
    except (IbolError, OSError):
        return []
