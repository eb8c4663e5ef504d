"""What the runs of an entry say: their numbers and figures, made once and again when a run has been added."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ibol.errors import IbolError
from ibol.evaluation.loading import load_run
from ibol.evaluation.plots import plot_runs
from ibol.evaluation.plots.common import PlotOptions
from ibol.evaluation.plots.skills import eight_skills, random_skills
from ibol.evaluation.rows import Row
from ibol.evaluation.runs import evaluate_runs
from ibol.experiments.cells import Cell
from ibol.experiments.measures import further
from ibol.experiments.model import GRIDS, Entry
from ibol.figures.common import also_as
from ibol.figures.skills import plot_skill_rows
from ibol.films.episodes import episodes_of
from ibol.films.film import write_film
from ibol.runs import files
from ibol.runs.directory import versions
from ibol.training.launch import find

SMOKE = {"trajectories": 32, "drawn": 16}
_EPISODES = 64  # of a controller that are measured
_SMOKE_EPISODES = 4
_ONE_ENV = ("curves", "trajectories", "linearizer-rewards")
_ONE_EACH = ("trajectories", "orientation")
_MOST = 2**28  # bytes of scores.json
_SIZE = 200  # pixels of a scene


@dataclass(frozen=True)
class Result:
    """An entry with what its runs gave."""

    entry: Entry
    cells: tuple[Cell, ...]
    """Those that are trained."""
    rows: tuple[Row, ...] = ()
    """One for each run, and for each number of bins; `cell` is the name of its cell."""
    figures: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be measured or drawn, and why."""


def results_of(entry: Entry, done: set[str], directory: Path, *, small: bool, say: Callable[[str], None]) -> Result:
    """Measure and draw an entry's finished runs; what was made of the same runs before is taken as it is."""
    if small:
        few = {name: min(most, getattr(entry.about, name)) for name, most in SMOKE.items()}
        entry = replace(entry, about=replace(entry.about, **few))
    cells = tuple(cell for cell in entry.cells if cell.name in done)
    if not cells:
        return Result(entry, ())
    folder = files.folder(directory, entry.name)
    key = _key(entry, cells)
    if (kept := _kept(folder, key, entry, cells)) is not None:
        return kept
    say(f"{entry.name}: measuring and drawing {len(cells)} runs")
    notes: list[str] = []
    measured = _rows(entry, cells, directory, notes, small=small)
    rows = json.loads(json.dumps(measured))  # as they are when they are read again
    drawn = [picture for name in entry.about.figures for picture in _draw(name, entry, cells, directory, notes)]
    result = Result(entry, cells, tuple(rows), tuple(drawn), tuple(notes))
    content = {"key": key, "rows": rows, "figures": [file.name for file in drawn], "notes": notes}
    files.replace_bytes(files.inside(folder, "scores.json"), (json.dumps(content, indent=1) + "\n").encode())
    return result


def _key(entry: Entry, cells: Sequence[Cell]) -> str:
    about = {name: value for name, value in vars(entry.about).items() if name not in ("title", "paper", "differs")}
    shown = [cell.identity for cell in entry.shown]
    content = [about, shown, [cell.identity for cell in cells], versions()]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=list).encode()).hexdigest()


def _kept(folder: Path, key: str, entry: Entry, cells: tuple[Cell, ...]) -> Result | None:
    try:
        content = json.loads(files.read(folder / "scores.json", _MOST))
        if not isinstance(content, dict) or content.get("key") != key:
            return None
        figures = tuple(files.inside(folder, Path(name).name) for name in content["figures"])
        rows, notes = tuple(map(dict, content["rows"])), tuple(map(str, content["notes"]))
        if not all(_is_row(row) for row in rows):
            return None
    except (OSError, ValueError, TypeError, KeyError, IbolError, RecursionError):
        return None
    return Result(entry, cells, rows, figures, notes) if all(file.is_file() for file in figures) else None


def _is_row(row: Row) -> bool:
    """Whether this is what `_rows` makes, whoever wrote it."""
    plain = {name: value for name, value in row.items() if name != "intervals"}
    intervals = row.get("intervals", {})
    return (
        all(isinstance(row.get(name), str) for name in ("run", "env"))
        and all(isinstance(row.get(name, ""), str) for name in ("cell", "method", "policy"))
        and all(isinstance(value, str | int | float) for value in plain.values())
        and isinstance(intervals, dict)
        and all(isinstance(row.get(name), int | float) and _is_pair(pair) for name, pair in intervals.items())
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)


def _rows(entry: Entry, cells: Sequence[Cell], directory: Path, notes: list[str], *, small: bool) -> list[Row]:
    """The rows of all runs, an environment after the other, so that one that cannot be measured costs only itself."""
    rows: list[Row] = []
    for env in dict.fromkeys(cell.env for cell in cells):
        paths = {str(directory / cell.place): cell for cell in cells if cell.env == env}
        try:
            found = evaluate_runs(
                [Path(path) for path in paths], trajectories=entry.about.trajectories, bins=entry.about.bins,
                references=False, quiet=True, episodes=_SMOKE_EPISODES if small else _EPISODES,
            )  # fmt: skip
            more = {
                path: further(entry.about.claims, Path(path), trajectories=entry.about.trajectories) for path in paths
            }
        except IbolError as error:
            notes.append(f"{env} was not measured: {error}")
            continue
        for row in found:
            if row["run"] in paths:
                cell = paths[row["run"]]
                rows.append({**row, **more[row["run"]], "run": str(cell.place), "cell": cell.name})
            else:
                rows.append(row)
    return rows


def _draw(name: str, entry: Entry, cells: Sequence[Cell], directory: Path, notes: list[str]) -> list[Path]:
    """The pictures of one kind of figure; what cannot be drawn is a note."""
    folder, drawn = directory / entry.name, []
    envs = list(dict.fromkeys(cell.env for cell in cells)) if name in _ONE_ENV else [""]
    for env in envs:
        here = [cell for cell in cells if env in ("", cell.env)]
        if name in _ONE_EACH:
            here = [cell for cell in here if cell in entry.shown]
        output = folder / f"{name}{f'-{_plain(env)}' if len(envs) > 1 else ''}.png"
        try:
            with also_as(".pdf"):
                drawn += _figure(name, entry, here, directory, output)
        except IbolError as error:
            notes.append(f"{name}{f' of {env}' if env else ''} was not drawn: {error}")
    return drawn


def _figure(name: str, entry: Entry, cells: Sequence[Cell], directory: Path, output: Path) -> list[Path]:
    about = entry.about
    if name in GRIDS:
        _draw_grid(GRIDS[name], entry, {cell.name for cell in cells}, directory, output)
        return [output]
    if name == "scenes":
        return _draw_scenes(cells, directory, output)
    several = {"boxes": about.bins[:1], "bins": about.bins}.get(name)
    count = {"trajectories": about.drawn, "orientation": None, "curves": None}.get(name, about.trajectories)
    options = PlotOptions(trajectories=count, bins=several, metric=about.metric, quiet=True)
    plot_runs([str(directory / cell.place) for cell in cells], output, name, options)
    return [output]


def _draw_grid(which: str, entry: Entry, done: set[str], directory: Path, output: Path) -> None:
    """A panel for each setting that is trained: its first run."""
    rows = []
    for row in entry.rows:
        first = [next((cell for cell in setting if cell.name in done), None) for setting in row]
        panels = []
        for cell in first:
            if cell is not None:
                place, title = directory / cell.place, label(cell)
                panels.append(
                    eight_skills(place, title)
                    if which == "eight"
                    else random_skills(place, title, trajectories=entry.about.drawn)
                )
        if panels:
            rows.append(panels)
    plot_skill_rows(rows, output, title=entry.about.title)


def _draw_scenes(cells: Sequence[Cell], directory: Path, output: Path) -> list[Path]:
    """A strip of moments of eight skills for each run."""
    pictures = []
    for cell in cells:
        place = output.with_name(f"scenes-{cell.name}.png")
        episodes = episodes_of(load_run(directory / cell.place).agent, cell.name)
        write_film(episodes, place, size=_SIZE, frames_per_second=10.0, quiet=True)
        pictures.append(place)
    return pictures


def label(cell: Cell) -> str:
    """A setting as a panel's title: the method, then what was set."""
    said = {name.rstrip("_"): value for name, value in cell.overrides.items()}
    settings = ", ".join(f"{name}={value}" for name, value in said.items())
    return "\n".join(filter(None, [f"{find(cell.method).title} {cell.variant}".strip(), settings]))


def means(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows that a table of results shows: means over runs, and runs that are alone."""
    alone = [row for row in rows if "intervals" not in row]
    groups = [(row["env"], row.get("method"), row.get("bins")) for row in rows if "intervals" in row]
    single = [row for row in alone if (row["env"], row.get("method"), row.get("bins")) not in groups]
    return [dict(row) for row in (*[row for row in rows if "intervals" in row], *single)]


def _plain(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in env)
