"""The training loop of every method: epochs, metrics, checkpoints, interruption, and the watch for broken numbers."""

import math
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ibol.bounds import Count, Natural, NonNegative
from ibol.errors import IbolError
from ibol.runs.directory import RunDirectory
from ibol.runs.progress import TrainingProgress
from ibol.training.trainer import Trainer


@dataclass(frozen=True)
class RunSettings:
    """How a run is kept, whatever it trains."""

    seed: Natural = 0
    """Decides every random number of the run."""
    run_dir: Path | None = None
    """Where the run is kept (default: runs/ and a name made of the command, environment, preset and seed)."""
    overwrite: bool = False
    """Replace the run that the directory already holds."""
    checkpoint_minutes: NonNegative = 5.0
    """Time between checkpoints; 0 saves after every epoch."""
    keep_checkpoints: Count = 2
    """How many of the last checkpoints are kept."""
    tensorboard: bool = False
    """Also write TensorBoard files (needs the extra: pip install 'ibol[tensorboard]')."""
    quiet: bool = False
    """Show no progress."""


def train(trainer: Trainer, run: RunDirectory, settings: RunSettings, *, resume: bool = False) -> bool:
    """Train to the last epoch; returns False if Ctrl-C ended it before."""
    with run.locked():
        done = _restore(trainer, run) if resume else 0
        trainer.prepare(run.path)
        _check_disk(run, trainer.checkpoint_bytes() * (settings.keep_checkpoints + 1))
        board = _tensorboard(run, done) if settings.tensorboard else None
        progress = TrainingProgress(trainer.epochs, done, trainer.headline, settings.quiet)
        saved_at, saved = time.monotonic(), done if resume else -1
        with _interruptible() as interrupt, progress:
            while done < trainer.epochs and not interrupt.requested:
                row = _train_epoch(trainer, run, done)
                done += 1
                run.log(row)
                if board is not None:
                    for name, value in row.items():
                        board.add_scalar(name, value, done)
                progress.update(done, row)
                if time.monotonic() - saved_at >= 60 * settings.checkpoint_minutes:
                    run.save_checkpoint(done, trainer.state(), keep=settings.keep_checkpoints)
                    saved_at, saved = time.monotonic(), done
            if saved != done:
                run.save_checkpoint(done, trainer.state(), keep=settings.keep_checkpoints)
        if board is not None:
            board.close()
        return done >= trainer.epochs


def _restore(trainer: Trainer, run: RunDirectory) -> int:
    """Put the trainer where the last good checkpoint stands; returns the epochs done there."""
    run.clean()
    done = 0
    if run.checkpoints():
        arrays, done = run.load_checkpoint()
        trainer.restore(arrays)
    run.forget_metrics_after(done)
    return done


def _train_epoch(trainer: Trainer, run: RunDirectory, epoch: int) -> dict[str, float]:
    """Run one epoch and make its row of the metrics."""
    began = time.monotonic()
    done = trainer.train_epoch(epoch)
    _check_finite(done.metrics, trainer, epoch, run)
    seconds = time.monotonic() - began
    clock = {"time/epoch_seconds": seconds, "time/env_steps_per_second": done.env_steps / seconds}
    return {"epoch": epoch + 1, **done.metrics, **clock}


def _check_finite(metrics: dict[str, float], trainer: Trainer, epoch: int, run: RunDirectory) -> None:
    """Stop at the first number that is not finite, before it can reach a checkpoint."""
    broken = [name for name, value in metrics.items() if not math.isfinite(value)]
    if not broken:
        learnt = {name: value for name, value in trainer.state().items() if not name.startswith("replay/")}
        broken = [name for name, value in learnt.items() if value.dtype.kind == "f" and not np.isfinite(value).all()]
    if broken:
        last = run.checkpoints()
        kept = f"the last good checkpoint is {last[-1]}" if last else "no checkpoint was written yet"
        raise IbolError(
            f"{broken[0]} is not finite after epoch {epoch + 1}, so training stopped; {kept}; "
            "a smaller learning rate usually helps"
        )


def _check_disk(run: RunDirectory, needed: int) -> None:
    free = shutil.disk_usage(run.path).free
    if free < needed:
        raise IbolError(
            f"the checkpoints in {run.path} may need {needed / 1e6:.0f} MB, but only {free / 1e6:.0f} MB are free: "
            "free some space or choose another --run-dir"
        )


@dataclass
class _Interrupt:
    requested: bool = False


@contextmanager
def _interruptible() -> Iterator[_Interrupt]:
    """The first Ctrl-C (or SIGTERM) asks the loop to stop after this epoch, the second one stops at once."""
    interrupt = _Interrupt()

    def ask(number: int, frame: FrameType | None) -> None:
        if interrupt.requested:
            raise KeyboardInterrupt
        interrupt.requested = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread, where signals cannot be caught
        before = {}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tensorboard(run: RunDirectory, done: int) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise IbolError("--tensorboard needs an extra: pip install 'ibol[tensorboard]'") from None
    return SummaryWriter(str(run.path / "tensorboard"), purge_step=done + 1)
