"""The training loop of every method: epochs, metrics, checkpoints, interruption, and the watch for broken numbers."""

import contextlib
import math
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from ibol.bounds import Count, Natural, NonNegative
from ibol.errors import IbolError
from ibol.interrupt import GRACE, CutShort, interruptible
from ibol.runs.checkpoint import Arrays
from ibol.runs.directory import RunDirectory, picture_of
from ibol.runs.progress import TrainingProgress
from ibol.training.loggers import Loggers, LogName
from ibol.training.trainer import REPLAYS, Trainer


@dataclass(frozen=True)
class RunSettings:
    """How a run is kept, whatever it trains."""

    seed: Natural = 0
    """Seed of all random numbers of the run."""
    run_dir: Path | None = None
    """Where the run is kept (default: runs/ and a name made of the command, environment, preset and seed)."""
    overwrite: bool = False
    """Replace the run that the directory already holds."""
    checkpoint_minutes: NonNegative = 5.0
    """Minutes between checkpoints; 0 saves after every epoch."""
    keep_checkpoints: Count = 2
    """Number of checkpoints that are kept."""
    log: Annotated[tuple[LogName, ...], tyro.conf.UseAppendAction] = ()
    """Also write metrics, settings and pictures for TensorBoard, Weights & Biases (offline unless WANDB_MODE=online) or
    MLflow, each of which needs its extra (pip install 'ibol[wandb]'); may be given several times."""
    quiet: bool = False
    """Show no progress."""

    def lasting(self) -> dict[str, Any]:
        """What a resumed run is given again."""
        return {name: getattr(self, name) for name in LASTING}


LASTING = ("checkpoint_minutes", "keep_checkpoints", "log")


def train(trainer: Trainer, run: RunDirectory, settings: RunSettings, *, resume: bool = False) -> bool:
    """Train to the last epoch; returns False if a signal ended it before."""
    with run.locked():
        done = _restore(trainer, run) if resume else 0
        trainer.prepare(run.path)
        _check_disk(run, trainer.checkpoint_bytes() * (settings.keep_checkpoints + 1))
        loggers = Loggers(settings.log, run, done)
        progress = TrainingProgress(trainer.epochs, done, trainer.headline, settings.quiet)
        saved_at, saved = time.monotonic(), done if resume else -1
        first, kept = done, _kept(trainer)
        with contextlib.closing(loggers), interruptible() as interruption, progress:
            while done < trainer.epochs and not interruption.requested:
                began = time.monotonic()
                progress.begin(trainer.stage(done))
                try:
                    # In its first epoch a process compiles, and has nothing yet that would be lost.
                    with interruption.cut_short(GRACE if done > first else 0.0):
                        epoch = trainer.train_epoch(done)
                except CutShort:
                    trainer.go_back(kept)
                    break
                kept = _kept(trainer)
                _check_finite(epoch.metrics, kept, done, run)
                done += 1
                row = {"epoch": done, **epoch.metrics, **_clock(time.monotonic() - began, epoch.env_steps)}
                run.log(row)
                loggers.log(done, row, _picture(run, done))
                progress.update(done, row)
                if time.monotonic() - saved_at >= 60 * settings.checkpoint_minutes:
                    run.save_checkpoint(done, kept, keep=settings.keep_checkpoints)
                    saved_at, saved = time.monotonic(), done
            if saved != done:
                run.save_checkpoint(done, trainer.state(), keep=settings.keep_checkpoints)
        return done >= trainer.epochs


def _restore(trainer: Trainer, run: RunDirectory) -> int:
    """Put the trainer where the last good checkpoint stands; returns the epochs done there."""
    try:
        run.clean()
        done = run.use_checkpoint(trainer.restore)[1] if run.checkpoints() else 0
        run.forget_metrics_after(done)
    except OSError as error:
        raise IbolError(f"cannot write to {run.path}: {error.strerror}") from None
    return done


def _kept(trainer: Trainer) -> Arrays:
    """The state as it is now; of what the next epoch may change in place, all but the replay buffer is copied."""
    return {
        name: value.copy() if value.flags.writeable and not name.startswith(REPLAYS) else value
        for name, value in trainer.state().items()
    }


def _picture(run: RunDirectory, epoch: int) -> Path | None:
    """What the trainer drew after an epoch, if it did."""
    file = picture_of(run.pictures, epoch)
    return file if file.is_file() else None


def _clock(seconds: float, env_steps: int) -> dict[str, float]:
    return {"time/epoch_seconds": seconds, "time/env_steps_per_second": env_steps / seconds}


def _check_finite(metrics: dict[str, float], state: Arrays, epoch: int, run: RunDirectory) -> None:
    """Stop at the first number that is not finite, before it can reach a checkpoint."""
    broken = [name for name, value in metrics.items() if not math.isfinite(value)]
    if not broken:
        learnt = {name: value for name, value in state.items() if not name.startswith(REPLAYS)}
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
