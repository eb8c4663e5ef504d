"""What an experiment is: entries, each a figure or a table with the runs that it needs. Read from TOML.

title = "Four methods on my environment"

[comparison]
figures = ["boxes", "trajectories"]
shared = { env = "point", seed = [0, 1, 2, 3] }
runs = [{ method = ["ibol", "diayn", "valor", "dads"] }]
"""

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from ibol import bounds, presets
from ibol.bounds import Bins, Count, NotEmpty
from ibol.errors import IbolError, unknown
from ibol.evaluation.plots import FIGURES
from ibol.experiments.cells import Cell, with_needs
from ibol.experiments.expand import MOST, Context, Table, expand
from ibol.runs import files
from ibol.training import launch

GRIDS = {"grid": "random", "grid-eight": "eight"}
"""Figures with a panel for each cell of the entry's rows, and the latents that they show."""
CLAIMS = tuple(f"C{number}" for number in range(1, 11))
"""The paper's claims, which `ibol.experiments.claims` decides."""
DRAWN = (*FIGURES, *GRIDS, "scenes")
DRAWN_FROM = dict.fromkeys(DRAWN, ("discover",)) | {
    "trajectories": ("discover", "linearize"),
    "linearizer-rewards": ("linearize",),
    "curves": ("discover", *launch.COMMANDS),
}
"""The commands whose runs a figure can show."""
PAPER = resources.files("ibol.experiments") / "paper.toml"
_MOST_BYTES = 2**20
_RESERVED = ("all", "runs", "leases", "failures")
_PRESETS = ("paper", "fast", "smoke")
_DIFFERS_KEYS = ("differs", *(f"differs_{preset}" for preset in _PRESETS))
_TOP_KEYS = ("title", "preset", *_PRESETS, *_DIFFERS_KEYS)
_RUN_KEYS = ("runs", "rows", "columns", "cells")
_SHARED_KEYS = ("shared", *(f"shared_{preset}" for preset in _PRESETS))
_COUNT_KEYS = tuple(f"trajectories_{preset}" for preset in _PRESETS)


@dataclass(frozen=True)
class About:
    """What an entry says of itself in the file, beside its runs."""

    title: str = ""
    """The caption: what is shown."""
    paper: str = ""
    """Where in the paper it is."""
    differs: str = ""
    """What is done otherwise than in the paper."""
    figures: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    """Claims of the paper that this entry's runs decide."""
    bins: Annotated[tuple[Bins, ...], NotEmpty()] = (32,)
    trajectories: Count = 2000
    """Random skills of each run that are measured; a file's `trajectories_fast` holds with that preset instead."""
    drawn: Count = 500
    """Random skills of each run that are drawn."""
    metric: str = ""
    """What curves show."""
    seeds_shown: Count | None = None
    """So many runs of each setting are drawn by figures that have a panel for each run (default: all)."""


@dataclass(frozen=True)
class Entry:
    """A figure or table, and the runs that it needs."""

    name: str
    about: About
    rows: tuple[tuple[tuple[Cell, ...], ...], ...]
    """Rows of settings, each with the cells of its seeds and linearizers."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells that are measured and drawn, each once."""
        return tuple(dict.fromkeys(cell for row in self.rows for setting in row for cell in setting))

    @property
    def shown(self) -> tuple[Cell, ...]:
        """The cells of figures that have a panel for each run."""
        few = self.about.seeds_shown
        return tuple(dict.fromkeys(cell for row in self.rows for setting in row for cell in setting[:few]))

    @property
    def simulated(self) -> int:
        """How many random skills of each run are measured or drawn."""
        drawn = self.about.drawn if {"trajectories", "grid"} & set(self.about.figures) else 0
        return max(self.about.trajectories, drawn)

    @property
    def needed(self) -> list[Cell]:
        """All cells that must be trained, what they stand on first."""
        return with_needs(self.cells)


@dataclass(frozen=True)
class Experiment:
    """All entries of a file."""

    title: str
    preset: str
    entries: tuple[Entry, ...]
    differs: str = ""
    """What is otherwise than in the paper for all of its entries."""

    def chosen(self, names: Sequence[str]) -> "Experiment":
        """Only the entries with these names; `all`, and no name, are all of them."""
        if not names or "all" in names:
            return self
        known = {entry.name: entry for entry in self.entries}
        for name in names:
            if name not in known:
                raise unknown("entry", name, [*known, "all"])
        return dataclasses.replace(self, entries=tuple(known[name] for name in dict.fromkeys(names)))

    @property
    def simulated(self) -> dict[str, int]:
        """By the name of a cell: how many random skills its entries measure or draw."""
        found: dict[str, int] = {}
        for entry in self.entries:
            count = entry.simulated
            for cell in entry.cells:
                found[cell.name] = max(count, found.get(cell.name, 0))
        return found

    @property
    def needed(self) -> list[Cell]:
        """All cells of all entries, each once, what they stand on first."""
        return with_needs(cell for entry in self.entries for cell in entry.cells)


def paper_experiment(preset: str | None = None, seeds: int | None = None) -> Experiment:
    """The experiments of the paper."""
    return parse(PAPER.read_text(), "paper.toml", preset, seeds)


def read_experiment(file: Path, preset: str | None = None, seeds: int | None = None) -> Experiment:
    """An experiment from a file of anybody: nothing in it is executed, and all of it is checked."""
    try:
        text = files.read(file, _MOST_BYTES).decode()
    except OSError as error:
        raise IbolError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise IbolError(f"cannot read {file}: it is not UTF-8 text") from None
    return parse(text, str(file), preset, seeds)


def parse(text: str, source: str, preset: str | None = None, seeds: int | None = None) -> Experiment:
    """The experiment that a text describes; `preset` and `seeds` are the user's, and come first."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise IbolError(f"{source} is not valid TOML: {error}") from None
    tables = {name: value for name, value in content.items() if isinstance(value, dict) and name not in _TOP_KEYS}
    for name in content:
        if name not in (*tables, *_TOP_KEYS):
            raise unknown("key", name, _TOP_KEYS, f", or an entry's table (in {source})")
    chosen = str(preset or content.get("preset", presets.DEFAULT))
    if chosen == "smoke" and seeds is None:
        seeds = 1  # it only shows that everything works
    settings = {name: _by_command(content.get(name, {}), name, source) for name in _PRESETS}
    entries = []
    for name, table in tables.items():
        entries.append(_entry(name, table, Context(source, chosen, seeds, settings)))
    if not entries:
        raise IbolError(f"{source} has no entry: a table such as [comparison] with figures and runs")
    if sum(len(entry.cells) for entry in entries) > MOST:
        raise IbolError(f"{source} has more than {MOST} runs: split it into several files")
    texts = {"title": content.get("title", Path(source).stem)}
    texts |= {name: content.get(name, "") for name in _DIFFERS_KEYS}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise IbolError(f"{name} in {source} is {value!r:.80}, but text is needed")
    differs = " ".join(filter(None, (texts["differs"], texts.get(f"differs_{chosen}"))))
    return Experiment(texts["title"], chosen, tuple(entries), differs)


def _by_command(tables: Any, preset: str, source: str) -> Mapping[str, Table]:
    """Settings of all runs with a preset, by command."""
    commands = ("discover", *launch.COMMANDS)
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        raise IbolError(f"{preset} in {source} is {tables!r:.80}, but a table of settings for each command is needed")
    for name in tables:
        if name not in commands:
            raise unknown("command", str(name), commands, f" ({preset} in {source})")
    return tables


def _entry(name: str, table: Table, context: Context) -> Entry:
    where = f"[{name}] in {context.source}"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name) or name in _RESERVED:
        raise IbolError(f"{where}: an entry's name has letters, digits, - and _, and is none of {', '.join(_RESERVED)}")
    words = {key: value for key, value in table.items() if key not in (*_RUN_KEYS, *_SHARED_KEYS)}
    about = _about(words, context.preset, where)
    scoped = dataclasses.replace(context, source=where)
    expanded = [
        [cell for one in row for cell in expand(one, scoped)] for row in _run_tables(table, context.preset, where)
    ]
    rows = tuple(_settings(row) for row in expanded if row)
    if not rows:
        raise IbolError(f"{where} has no runs")
    entry = Entry(name, about, rows)
    for figure in about.figures:
        if figure in GRIDS and "runs" in table:
            raise IbolError(f"{where}: the figure {figure} needs rows and columns, or cells, instead of runs")
        for cell in entry.cells:
            if cell.command not in DRAWN_FROM[figure]:
                said = " or ".join(f"'ibol {command}'" for command in DRAWN_FROM[figure])
                raise IbolError(
                    f"{where}: the figure {figure} is drawn from runs of {said}, not of 'ibol {cell.command}'"
                )
    return entry


def _settings(cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], ...]:
    """Cells that differ by seeds and linearizers only, together."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.setting, []).append(cell)
    return tuple(map(tuple, found.values()))


def _about(values: Mapping[str, Any], preset: str, where: str) -> About:
    known = [*(field.name for field in dataclasses.fields(About)), *_COUNT_KEYS, *_DIFFERS_KEYS]
    for name in values:
        if name not in known:
            raise unknown("key", name, [*known, *_RUN_KEYS, *_SHARED_KEYS], f" (in {where})")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    counts = {name.removeprefix("trajectories_"): given.pop(name) for name in _COUNT_KEYS if name in given}
    differs = {name: given.pop(name, "") for name in _DIFFERS_KEYS}
    for name, value in differs.items():
        if not isinstance(value, str):
            raise IbolError(f"{name} in {where} is {value!r:.80}, but text is needed")
    about = About(**given, differs=" ".join(filter(None, (differs["differs"], differs.get(f"differs_{preset}")))))
    try:
        for count in (about.trajectories, *counts.values()):
            bounds.check(dataclasses.replace(about, trajectories=count))
    except IbolError as error:
        raise IbolError(f"{error} (in {where})") from None
    about = dataclasses.replace(about, trajectories=counts.get(preset, about.trajectories))
    for kind, names, choices in (("figure", about.figures, DRAWN), ("claim", about.claims, CLAIMS)):
        for name in names:
            if name not in choices:
                raise unknown(kind, name, choices, f" (in {where})")
    return about


def _run_tables(table: Table, preset: str, where: str) -> list[list[Table]]:
    """Rows of run tables: crossed rows and columns, rows of cells, or one row of runs."""
    all_shared = [table.get(name, {}) for name in _SHARED_KEYS]
    parts: dict[str, Any] = {name: table.get(name, []) for name in _RUN_KEYS}
    flat = [one for name in ("runs", "rows", "columns") for one in _listed(parts[name], name, where)]
    nested = [one for row in _listed(parts["cells"], "cells", where) for one in _listed(row, "cells", where)]
    if not all(isinstance(one, dict) for one in (*all_shared, *flat, *nested)):
        raise IbolError(f"{where}: shared, and each of runs, rows, columns and cells, must be a table of settings")
    shared = {**all_shared[0], **table.get(f"shared_{preset}", {})}
    crossed: list[list[Table]] = [[{**row, **column} for column in parts["columns"]] for row in parts["rows"]]
    rows: list[list[Table]] = [
        [{**shared, **one} for one in row] for row in (parts["runs"], *crossed, *parts["cells"]) if row
    ]
    if not rows:
        raise IbolError(f"{where} needs runs, or rows and columns, or cells")
    return rows


def _listed(value: Any, name: str, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise IbolError(f"{where}: {name} must be a list of tables")
    return value
