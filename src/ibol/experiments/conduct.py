"""One call of `ibol paper` or `ibol experiment`: train what is missing, measure, draw, judge, and write the page."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ibol import trust
from ibol.errors import IbolError
from ibol.experiments.claims import Verdict, verdicts_of
from ibol.experiments.costs import Costs
from ibol.experiments.engines.local import LocalEngine
from ibol.experiments.model import Experiment
from ibol.experiments.page import write_page
from ibol.experiments.progress import ExperimentProgress
from ibol.experiments.results import SMOKE, Result, results_of
from ibol.experiments.schedule import Board, Engine, Options, Schedule
from ibol.runs import files

_OURS = ("runs", "leases", "failures", "index.html", "claims.json", "costs.json")


@dataclass(frozen=True)
class Order:
    """How an experiment is carried out."""

    directory: Path
    engine: str = "local"
    address: str | None = None
    jobs: int | None = None
    trusted: tuple[str, ...] = ()
    """Environments."""
    trusted_methods: tuple[str, ...] = ()
    checkpoint_minutes: float = 5.0
    quiet: bool = False


@dataclass(frozen=True)
class Report:
    """What came of it."""

    board: Board
    results: tuple[Result, ...]
    verdicts: tuple[Verdict, ...]
    page: Path


def conduct(experiment: Experiment, order: Order, say: Callable[[str], None]) -> Report:
    """Do all that is left; Ctrl-C saves what is under way."""
    check_directory(order.directory)
    for name in (*_OURS, *(entry.name for entry in experiment.entries)):
        files.inside(order.directory, name)
    with trust.both(order.trusted, order.trusted_methods):
        board = train(experiment, order)
        return conclude(experiment, board, order, say)


def train(experiment: Experiment, order: Order) -> Board:
    """Train what is missing."""
    most = SMOKE["trajectories"] if experiment.preset == "smoke" else None
    simulated = {name: count if most is None else most for name, count in experiment.simulated.items()}
    options = Options(order.directory, order.trusted, order.trusted_methods, order.checkpoint_minutes)
    schedule = Schedule(experiment.needed, simulated, options, lambda board: None)
    if not schedule.board.waiting:
        return schedule.board
    order.directory.mkdir(parents=True, exist_ok=True)
    engine = make_engine(order)
    with ExperimentProgress(order.directory, engine.jobs, schedule.costs, order.quiet) as progress:
        schedule.watch = progress
        return schedule.run(engine)


def make_engine(order: Order) -> Engine:
    """The engine that was asked for."""
    if order.engine == "local":
        return LocalEngine(order.jobs)
    from ibol.experiments.engines.cluster import RayEngine

    return RayEngine(order.address, order.jobs)


def conclude(experiment: Experiment, board: Board, order: Order, say: Callable[[str], None]) -> Report:
    """Measure and draw what is trained, judge the claims, and write the page."""
    directory, small = order.directory, experiment.preset == "smoke"
    directory.mkdir(parents=True, exist_ok=True)
    results = tuple(results_of(entry, board.done, directory, small=small, say=say) for entry in experiment.entries)
    verdicts = tuple(verdicts_of(results))
    costs = Costs([cell for cell in experiment.needed if cell.name in board.done], directory)
    _write(directory, "claims.json", [verdict.row() for verdict in verdicts])
    _write(directory, "costs.json", [cost.row() for cost in costs.table()])
    page = write_page(experiment, board, results, verdicts, costs.table(), directory)
    return Report(board, results, verdicts, page)


def check_directory(directory: Path) -> None:
    """Refuse a place that is no directory of an experiment: nothing of anybody else is to be mixed with it."""
    if directory.exists() and not directory.is_dir():
        raise IbolError(f"{directory} is a file: choose another --dir")
    if directory.is_dir() and any(directory.iterdir()) and not any(os.path.lexists(directory / name) for name in _OURS):
        raise IbolError(f"{directory} is not empty and is not an experiment's: choose another --dir")


def _write(directory: Path, name: str, rows: list[dict[str, object]]) -> None:
    content = json.dumps(rows, indent=2) + "\n"
    files.replace_bytes(files.inside(directory, name), content.encode())
