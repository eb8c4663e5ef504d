"""Progress with rate, time left and the few numbers that tell whether it learns."""

import sys
import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_PLAIN_INTERVAL = 10.0


class _Shown:
    """Whatever shows a bar on a terminal for as long as it is entered."""

    _bar: Progress | None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class TrainingProgress(_Shown):
    """A bar on a terminal, a plain line every ten seconds otherwise; use it as a context manager."""

    def __init__(self, total: int, done: int, headline: tuple[str, ...], quiet: bool = False) -> None:
        self._total, self._start, self._headline = total, done, headline
        self._begun = time.monotonic()
        self._last_line = -_PLAIN_INTERVAL
        self._quiet = quiet
        self._stage = ""
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        if self._console.is_terminal and not quiet:
            columns = (
                TextColumn("{task.description}"), TextColumn("{task.fields[numbers]}"), BarColumn(),
                MofNCompleteColumn(), TextColumn("epochs"), TimeElapsedColumn(), TextColumn("left"),
                TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task("", total=total, completed=done, numbers="starting")

    def begin(self, stage: str) -> None:
        """Show that an epoch of a stage begins; a training without stages has one without a name.

        Where there is no bar, a stage is a line of its own.
        """
        if stage == self._stage or self._quiet:
            return
        self._stage = stage
        if self._bar is not None:
            self._bar.update(self._task, description=f"{stage}:")
        else:
            print(f"stage: {stage}", file=sys.stderr)

    def update(self, epoch: int, row: Mapping[str, Any]) -> None:
        """Show that `epoch` epochs are done and what the last one measured."""
        if self._quiet:
            return
        rate = (epoch - self._start) / max(time.monotonic() - self._begun, 1e-9)
        shown = [f"{name} {row[name]:.4g}" for name in self._headline if name in row]
        shown.append(f"{row['time/env_steps_per_second']:.0f} steps/s")
        numbers = ", ".join(shown)
        if self._bar is not None:
            self._bar.update(self._task, completed=epoch, numbers=numbers)
            return
        now = time.monotonic() - self._begun
        if now - self._last_line < _PLAIN_INTERVAL and epoch < self._total:
            return
        self._last_line = now
        left = (self._total - epoch) / rate
        print(
            f"epoch {epoch}/{self._total}: {numbers}, {clock(now)} elapsed, {clock(left)} left",
            file=sys.stderr,
        )


class WorkProgress(_Shown):
    """The same for any countable work, such as simulated episodes: `total` pieces of what `unit` names."""

    def __init__(self, total: int, unit: str, quiet: bool = False) -> None:
        self._total, self._unit, self._quiet, self._done = total, unit, quiet, 0
        self._begun = time.monotonic()
        self._last_line = self._begun
        self._bar: Progress | None = None
        console = Console(stderr=True)
        if console.is_terminal and not quiet:
            columns = (
                BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn(), TextColumn("left"),
                TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("work", total=total)

    def advance(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        if self._bar is not None:
            self._bar.advance(self._task, count)
            return
        now = time.monotonic()
        if self._quiet or now - self._last_line < _PLAIN_INTERVAL:
            return
        self._last_line = now
        spent = now - self._begun
        left = spent / self._done * max(self._total - self._done, 0)
        text = f"{self._done}/{self._total} {self._unit}: {clock(spent)} elapsed, {clock(left)} left"
        print(text, file=sys.stderr)

    def skip(self, count: int) -> None:
        """So many need not be done after all; the rate is that of the others."""
        self._total -= count
        if self._bar is not None:
            self._bar.update(self._task, total=self._total)


def clock(seconds: float) -> str:
    """A time span as people read it: 1:02:03, or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
