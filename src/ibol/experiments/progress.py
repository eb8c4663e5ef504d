"""Progress over all runs: how many are done, where those that run stand, and how long the rest takes."""

import sys
import time
from pathlib import Path
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ibol.experiments import costs
from ibol.experiments.costs import Costs
from ibol.experiments.schedule import Board
from ibol.experiments.states import logged_epochs
from ibol.runs.progress import clock

_PLAIN_INTERVAL = 30.0
_LIVE_INTERVAL = 1.0


class ExperimentProgress:
    """A few lines on a terminal that are kept up to date; otherwise a line for each run and one every half minute."""

    def __init__(self, directory: Path, jobs: int, estimates: Costs, quiet: bool = False) -> None:
        self._directory, self._jobs, self._costs, self._quiet = directory, jobs, estimates, quiet
        self._began = time.monotonic()
        self._last = 0.0
        self._told: set[str] = set()
        console = Console(stderr=True)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal and not quiet else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, board: Board) -> None:
        """Show where all stand."""
        news = (board.done | set(board.failed)) - self._told
        if self._last == 0.0:  # what was there before is no news
            news = set(board.failed) - self._told
        self._told |= board.done | set(board.failed)
        now = time.monotonic()
        if self._quiet or (not news and now - self._last < (_LIVE_INTERVAL if self._live else _PLAIN_INTERVAL)):
            return
        self._last = now
        if self._live is not None:
            lines = [self.summary(board), *(f"  {self._standing(board, name)}" for name in sorted(board.running))]
            self._live.update(Group(*(Text(line) for line in lines)), refresh=True)
            return
        for name in sorted(news):
            print(f"{'failed' if name in board.failed else 'done'}: {name}", file=sys.stderr)
        print(self.summary(board), file=sys.stderr)

    def summary(self, board: Board) -> str:
        """All in one line."""
        counts = [
            (len(board.done), f"of {len(board.cells)} done"), (len(board.running), "running"),
            (len(board.waiting), "waiting"), (len(board.elsewhere), "trained by others"), (len(board.failed), "failed"),
        ]  # fmt: skip
        said = [f"{count} {what}" for number, (count, what) in enumerate(counts) if count or number == 0]
        left = f"{clock(self.seconds_left(board))} left"
        return ", ".join([*said, f"{clock(time.monotonic() - self._began)} elapsed", left])

    def seconds_left(self, board: Board) -> float:
        """By what runs of the same kind took."""
        open_ = [board.cells[name] for name in (*board.running, *board.waiting, *board.elsewhere)]
        started = set(board.running) | set(board.elsewhere)
        done = {cell.name: self._epochs(board, cell.name) if cell.name in started else 0 for cell in open_}
        seconds = {cell.identity: self._costs.seconds(cell, done[cell.name]) for cell in open_}
        ordered = [cell for cell in board.cells.values() if cell.identity in seconds]
        longest = max(costs.chains(ordered, seconds).values(), default=0.0)
        return costs.wall_seconds(seconds.values(), longest, self._jobs)

    def _standing(self, board: Board, name: str) -> str:
        cell = board.cells[name]
        return f"{name}: epoch {self._epochs(board, name)} of {cell.epochs}"

    def _epochs(self, board: Board, name: str) -> int:
        return logged_epochs(self._directory / board.cells[name].place)
