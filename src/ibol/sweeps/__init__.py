"""Grids of runs as data: one command trains all cells, as many at once as there are cores, and draws them together.

SWEEP/CELL/             the run of a cell, a run directory like any other
SWEEP/figure.png, .pdf  where the skills of all cells go
SWEEP/scores.json       their numbers
"""

import dataclasses
import json
import os
import signal
import threading
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import resources
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from ibol import bounds, interrupt, presets, trust
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.evaluation.plots.skills import random_skills
from ibol.evaluation.runs import evaluate_runs, write_json
from ibol.figures.skills import plot_skill_rows
from ibol.runs import files
from ibol.training import launch
from ibol.training.loop import RunSettings

_PAPER = resources.files("ibol.sweeps") / "paper.toml"
_TIME_TO_SAVE = 20.0  # seconds
_MOST = 2**20  # bytes of a description
Changes = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """A grid: what its cells change in the preset of their method, which is one of the changes or that of all."""

    name: str
    summary: str
    env: str
    rows: tuple[tuple[Changes, ...], ...]
    """Rows of cells, which may be of different lengths."""
    method: str = ""

    def cells(self) -> list[Changes]:
        """The changes of all cells, row by row."""
        return [cell for row in self.rows for cell in row]

    def method_of(self, cell: Changes) -> str:
        """How a cell discovers its skills."""
        return str(cell.get("method", self.method))


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
        found = list(_parse(files.read(Path(name), _MOST).decode(), name).values())
    except OSError as error:
        raise IbolError(f"cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise IbolError(f"cannot read {name}: it is not UTF-8 text") from None
    if len(found) != 1:
        raise IbolError(f"{name} has {len(found)} sweeps, but a file is to have one")
    trust.check_env(found[0].env, name)
    return found[0]


def run_sweep(
    sweep: Sweep, directory: Path, *, preset: str, seed: int, epochs: int | None, jobs: int | None,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Train what is not trained yet, then draw and measure; returns the rows of numbers."""
    if directory.exists() and not directory.is_dir():
        raise IbolError(f"{directory} is a file: choose another --sweep-dir")
    cells = [_config(sweep, preset, changes, epochs) for changes in sweep.cells()]
    paths = [directory / label(changes) for changes in sweep.cells()]
    for path, config in zip(paths, cells, strict=True):
        _check_kept(path, config, seed)
    began, count = time.monotonic(), min(jobs or os.cpu_count() or 1, len(cells))
    # Workers of their own: each has one core, and what a cell compiled is of no use to another.
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_die_with, initargs=(os.getpid(),))
    try:
        with interrupt.held():  # workers keep it held: this process answers Ctrl-C for all
            waiting = {
                pool.submit(_train, sweep.method_of(cell), sweep.env, config, path, preset, seed): path
                for cell, config, path in zip(sweep.cells(), cells, paths, strict=True)
            }
        for done, future in enumerate(as_completed(waiting), start=1):
            if not future.result():
                raise KeyboardInterrupt
            spent = time.monotonic() - began
            left = spent / done * (len(cells) - done)
            say(f"{done}/{len(cells)} {waiting[future].name}: {spent / 60:.1f} min elapsed, {left / 60:.1f} min left")
    except KeyboardInterrupt:
        for worker in active_children():
            worker.terminate()  # which saves
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    panels = [[random_skills(directory / label(cell), title(cell), seed=seed) for cell in row] for row in sweep.rows]
    for ending in ("png", "pdf"):
        plot_skill_rows(panels, directory / f"figure.{ending}", title=sweep.summary)
    rows = evaluate_runs(paths, seed=seed)
    write_json(rows, directory / "scores.json")
    return rows


def label(changes: Changes) -> str:
    """A cell's name: its changes."""
    return ",".join(f"{name.rstrip('_')}={value}" for name, value in changes.items())


def title(changes: Changes) -> str:
    """The same for a figure: the method's name as the paper writes it, then the other changes."""
    others = label({name: value for name, value in changes.items() if name != "method"}).replace(",", ", ")
    return f"{changes['method'].upper()}\n{others}" if "method" in changes else others


def _parse(text: str, source: str) -> dict[str, Sweep]:
    try:
        return {name: _sweep(name, **table) for name, table in tomllib.loads(text).items()}
    except (tomllib.TOMLDecodeError, TypeError, RecursionError) as error:
        raise IbolError(f"{source} is no description of a sweep: {error}") from None


def _sweep(
    name: str,
    *,
    rows: Sequence[Changes] = (),
    columns: Sequence[Changes] = (),
    cells: Sequence[Sequence[Changes]] = (),
    **others: Any,
) -> Sweep:
    """A sweep from its table: either what rows and columns change, or rows of cells."""
    crossed = [tuple({**row, **column} for column in columns) for row in rows]
    made = Sweep(name=name, rows=tuple(tuple(row) for row in [*crossed, *cells]), **others)
    if not made.rows or not all(made.rows):
        raise TypeError(f"{name} needs rows and columns, or cells")
    if not all(isinstance(cell, dict) for cell in made.cells()):
        raise TypeError(f"the cells of {name} are to be tables of settings")
    if len({label(cell) for cell in made.cells()}) < len(made.cells()):
        raise TypeError(f"{name} has a cell twice")
    return made


def _config(sweep: Sweep, preset: str, changes: Changes, epochs: int | None) -> Any:
    method = sweep.method_of(changes)
    if method not in launch.discovery_methods():
        raise unknown("method", method, launch.discovery_methods())
    config = presets.build(launch.find(method).config, method, preset, sweep.env)
    changes = {name: value for name, value in changes.items() if name != "method"}
    changes = changes if epochs is None else {**changes, "epochs": epochs}
    known = {field.name for field in dataclasses.fields(config)}
    for name in changes:
        if name not in known:
            raise unknown("setting", name, known)
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    config = dataclasses.replace(config, **values)
    bounds.check(config)
    return config


def _check_kept(path: Path, config: Any, seed: int) -> None:
    """Refuse to go on with a cell that was trained otherwise than it shall be now."""
    if not (path / "config.json").exists():
        return
    run, wanted = launch.open_run(path), json.loads(json.dumps(dataclasses.asdict(config)))
    kept = {**run.config["settings"], "seed": run.config["seed"]}
    for name, value in {**wanted, "seed": seed}.items():
        if kept.get(name) != value:
            raise IbolError(
                f"{path} was trained with {name.rstrip('_')} {kept.get(name)} and not {value}: choose another "
                "--sweep-dir, or delete that run"
            )


def _die_with(parent: int) -> None:
    """In a worker: end when the process that gave it its work is gone; its run can be resumed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # saves
        time.sleep(_TIME_TO_SAVE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _train(method: str, env: str, config: Any, path: Path, preset: str, seed: int) -> bool:
    """Train one cell, or what is left of it; false if it was interrupted."""
    settings = RunSettings(seed=seed, run_dir=path, quiet=True)
    if not (path / "config.json").exists():
        env_settings = EnvSettings(num_threads=1)
        _, finished = launch.start(method, env, config, preset=preset, env_settings=env_settings, run_settings=settings)
        return finished
    run = launch.open_run(path)
    if run.checkpoints() and run.load_checkpoint()[1] >= config.epochs:
        return True
    return launch.resume(path, quiet=True)[1]
