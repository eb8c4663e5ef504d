"""Trains all cells of an experiment: what is ready goes to an engine, the longest chain of work first.

A cell that another process trains is waited for. One that fails is reported at the end, and so is what needed it.
"""

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ibol.experiments import costs, leases, states
from ibol.experiments.cells import Cell
from ibol.experiments.engines.work import Outcome, Task, task_of

_ATTEMPTS = 3  # of a task whose process is gone
_LOOK = 3.0  # seconds between looks at what others train
_WAIT = 0.5


class Engine(Protocol):
    """What trains tasks."""

    jobs: int
    """How many tasks are trained at a time."""

    def has_room(self, task: Task) -> bool:
        """Whether a task can begin now."""
        ...

    def submit(self, task: Task) -> None:
        """Begin a task."""
        ...

    def wait(self, seconds: float) -> list[Outcome]:
        """What came to its end, after at most so many seconds."""
        ...

    def stop(self) -> list[Outcome]:
        """Have all tasks save and end."""
        ...

    def close(self) -> None:
        """End what the engine has started."""
        ...


@dataclass
class Board:
    """Where all cells stand: what a progress shows, and what is reported in the end."""

    cells: dict[str, Cell]
    """By name, in the order in which they need each other."""
    done: set[str] = field(default_factory=set)
    running: dict[str, float] = field(default_factory=dict)
    """By name: when it began."""
    elsewhere: dict[str, str] = field(default_factory=dict)
    """By name: who trains it."""
    failed: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Options:
    """How cells are trained."""

    directory: Path
    trusted: tuple[str, ...] = ()
    """Environments."""
    trusted_methods: tuple[str, ...] = ()
    checkpoint_minutes: float = 5.0


class Schedule:
    """One call of the command: use `run`."""

    def __init__(
        self, cells: Sequence[Cell], simulated: Mapping[str, int], options: Options, watch: Callable[[Board], None]
    ) -> None:
        """`simulated` says how many random skills of a run are simulated after its training, by the cell's name."""
        self.options, self.watch = options, watch
        self.board = Board({cell.name: cell for cell in cells})
        self.costs = costs.Costs(cells, options.directory)
        self._simulated = {cell.name: simulated.get(cell.name, 0) for cell in cells if states.can_be_measured(cell)}
        self._attempts: dict[str, int] = {}
        self._users: dict[str, list[str]] = {}
        for cell in cells:
            for other in cell.needs:
                self._users.setdefault(other.name, []).append(cell.name)
        left: dict[str, float] = {}
        for cell in cells:
            state = states.state_of(cell, options.directory)
            left[cell.identity] = self.costs.seconds(cell, state.epochs)
            if state.kind == "done" and not self._unmeasured(cell):
                self.board.done.add(cell.name)
            else:
                self.board.waiting.add(cell.name)
        chains = costs.chains(list(cells), left)
        self._priority = {cell.name: chains[cell.identity] for cell in cells}
        self._ready: list[tuple[float, str]] = []
        for name in self.board.waiting:
            self._make_ready(name)

    def run(self, engine: Engine) -> Board:
        """Train everything; Ctrl-C saves what is under way and is raised again."""
        looked = time.monotonic()
        try:
            while self._ready or self.board.running or self.board.elsewhere:
                self._submit(engine)
                for outcome in engine.wait(_WAIT):
                    self._take(outcome)
                if self.board.elsewhere and time.monotonic() - looked > _LOOK:
                    self._look_elsewhere()
                    looked = time.monotonic()
                self.watch(self.board)
        except KeyboardInterrupt:
            for outcome in engine.stop():
                self._take(outcome)
            self.watch(self.board)
            raise
        finally:
            engine.close()
        return self.board

    def _submit(self, engine: Engine) -> None:
        while self._ready:
            cell = self.board.cells[self._ready[0][1]]
            task = task_of(
                cell, self.options.directory, trusted=self.options.trusted,
                trusted_methods=self.options.trusted_methods,
                checkpoint_minutes=self.options.checkpoint_minutes,
                measure=self._simulated.get(cell.name, 0),
            )  # fmt: skip
            if not engine.has_room(task):
                return
            heapq.heappop(self._ready)
            self.board.waiting.discard(cell.name)
            self.board.running[cell.name] = time.monotonic()
            engine.submit(task)

    def _take(self, outcome: Outcome) -> None:
        name = outcome.name
        self.board.running.pop(name, None)
        if outcome.kind == "done":
            self._finish(name)
        elif outcome.kind == "busy":
            self.board.elsewhere[name] = outcome.said
        elif outcome.kind == "failed":
            self._fail(name, outcome.said)
        else:  # its process is gone, or was asked to end by somebody else: what it saved goes on
            self._attempts[name] = self._attempts.get(name, 0) + 1
            if self._attempts[name] >= _ATTEMPTS:
                said = outcome.said or "it was interrupted"
                states.keep_failure(self.options.directory, name, said)
                self._fail(name, said)
            else:
                self.board.waiting.add(name)
                self._make_ready(name)

    def _finish(self, name: str) -> None:
        self.board.elsewhere.pop(name, None)
        self.board.waiting.discard(name)
        self.board.done.add(name)
        self.costs.learn(self.board.cells[name], self.options.directory)
        for user in self._users.get(name, []):
            if user in self.board.waiting:
                self._make_ready(user)

    def _fail(self, name: str, said: str) -> None:
        self.board.failed[name] = said
        for user in self._users.get(name, []):
            if user in self.board.waiting:
                self.board.waiting.discard(user)
                self._fail(user, f"it needs {name}, which failed")

    def _make_ready(self, name: str) -> None:
        if all(cell.name in self.board.done for cell in self.board.cells[name].needs):
            heapq.heappush(self._ready, (-self._priority[name], name))

    def _look_elsewhere(self) -> None:
        """What others have finished is done; what they have left is ours to go on with."""
        for name in list(self.board.elsewhere):
            state = states.state_of(self.board.cells[name], self.options.directory)
            if state.kind == "done":
                self._finish(name)
            elif not leases.holder(self.options.directory, name):
                del self.board.elsewhere[name]
                self.board.waiting.add(name)
                self._make_ready(name)

    def _unmeasured(self, cell: Cell) -> bool:
        return self._simulated.get(cell.name, 0) > 0 and not states.measured(cell, self.options.directory)
