"""Grids of runs as data: one command trains all cells, as many at once as there are cores, and draws them together.

SWEEP/ROW,COLUMN/       the run of a cell, a run directory like any other
SWEEP/figure.png, .pdf  where the skills of all cells go
SWEEP/scores.json       their numbers
"""

import dataclasses
import os
import threading
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import resources
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ibol import methods, presets
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.evaluation.runs import evaluate_runs, write_json
from ibol.evaluation.skill_plots import random_skills
from ibol.figures.skills import plot_skills
from ibol.runs.directory import RunDirectory
from ibol.runs.loop import RunSettings

_PAPER = resources.files("ibol.sweeps") / "paper.toml"
Changes = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """A grid: what its rows and columns change in a method's preset."""

    name: str
    summary: str
    env: str
    method: str
    rows: tuple[Changes, ...]
    columns: tuple[Changes, ...]

    def cells(self) -> list[Changes]:
        """The changes of all cells, row by row."""
        return [{**row, **column} for row in self.rows for column in self.columns]


def sweeps() -> dict[str, Sweep]:
    """The paper's grids."""
    return _parse(_PAPER.read_text(), str(_PAPER))


def find_sweep(name: str) -> Sweep:
    """One of the paper's grids, or the one in a file of the same form."""
    if not name.endswith(".toml"):
        if name not in sweeps():
            raise unknown("sweep", name, sweeps(), ", or name a .toml file with one")
        return sweeps()[name]
    try:
        found = list(_parse(Path(name).read_text(), name).values())
    except OSError as error:
        raise IbolError(f"cannot read {name}: {error.strerror}") from None
    if len(found) != 1:
        raise IbolError(f"{name} has {len(found)} sweeps, but a file is to have one")
    return found[0]


def run_sweep(
    sweep: Sweep, directory: Path, *, preset: str, seed: int, epochs: int | None, jobs: int | None,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Train what is not trained yet, then draw and measure; returns the rows of numbers."""
    cells = [_config(sweep, preset, changes, epochs) for changes in sweep.cells()]
    paths = [directory / label(changes) for changes in sweep.cells()]
    began, count = time.monotonic(), min(jobs or os.cpu_count() or 1, len(cells))
    # Workers of their own: each has one core, and what a cell compiled is of no use to another.
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_die_with, initargs=(os.getpid(),))
    try:
        waiting = {
            pool.submit(_train, sweep, config, path, preset, seed): path
            for config, path in zip(cells, paths, strict=True)
        }
        for done, future in enumerate(as_completed(waiting), start=1):
            if not future.result():
                raise KeyboardInterrupt
            spent = time.monotonic() - began
            left = spent / done * (len(cells) - done)
            say(f"{done}/{len(cells)} {waiting[future].name}: {spent / 60:.1f} min elapsed, {left / 60:.1f} min left")
    finally:
        pool.shutdown(cancel_futures=True)
    panels = [random_skills(path, path.name, seed=seed) for path in paths]
    for ending in ("png", "pdf"):
        plot_skills(panels, directory / f"figure.{ending}", title=sweep.summary, columns=len(sweep.columns))
    rows = evaluate_runs(paths, seed=seed)
    write_json(rows, directory / "scores.json")
    return rows


def label(changes: Changes) -> str:
    """A cell's name: its changes."""
    return ",".join(f"{name.rstrip('_')}={value}" for name, value in changes.items())


def _parse(text: str, source: str) -> dict[str, Sweep]:
    try:
        return {
            name: Sweep(**{"name": name, **table, "rows": tuple(table["rows"]), "columns": tuple(table["columns"])})
            for name, table in tomllib.loads(text).items()
        }
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise IbolError(f"{source} is no description of a sweep: {error}") from None


def _config(sweep: Sweep, preset: str, changes: Changes, epochs: int | None) -> Any:
    if sweep.method not in methods.DISCOVERY:
        raise unknown("method", sweep.method, methods.DISCOVERY)
    config = presets.build(methods.find(sweep.method).CONFIG, sweep.method, preset, sweep.env)
    changes = changes if epochs is None else {**changes, "epochs": epochs}
    known = {field.name for field in dataclasses.fields(config)}
    for name in changes:
        if name not in known:
            raise unknown("setting", name, known)
    return dataclasses.replace(config, **changes)


def _die_with(parent: int) -> None:
    """In a worker: end when the process that gave it its work is gone; its run can be resumed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _train(sweep: Sweep, config: Any, path: Path, preset: str, seed: int) -> bool:
    """Train one cell, or what is left of it; false if it was interrupted."""
    settings = RunSettings(seed=seed, run_dir=path, quiet=True)
    if not (path / "config.json").exists():
        env_settings = EnvSettings(num_threads=1)
        _, finished = methods.start(
            sweep.method, sweep.env, config, preset=preset, env_settings=env_settings, run_settings=settings
        )
        return finished
    run = RunDirectory.open(path)
    if sum(1 for _ in run.metrics()) >= config.epochs and run.checkpoints():
        return True
    return methods.resume(path, settings)[1]
