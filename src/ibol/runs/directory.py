"""The run directory: what a run is, what it measured and where it stands.

RUN/config.json               everything needed to rebuild the run, with the versions that made it
RUN/metrics.jsonl             one JSON object for each epoch; fields that start with `time/` are wall-clock
RUN/checkpoints/*.safetensors the last few states, named by the number of epochs done
RUN/linearizer.safetensors    what the skills of a discovery stand on
RUN/pictures/*.png            where they went while they were learned
RUN/evaluation/*.safetensors  roll-outs of the skills that were measured or drawn
RUN/skills/, RUN/imitation.safetensors  of a downstream task: the skills and the imitation set that it uses
RUN/tensorboard/              the metrics again, with --tensorboard
"""

import dataclasses
import fcntl
import json
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from ibol.errors import IbolError, unknown
from ibol.runs import checkpoint
from ibol.runs.checkpoint import Arrays, BadCheckpoint

Settings = TypeVar("Settings")
_PACKAGES = ("ibol", "mujoco", "jax", "equinox", "optax", "gymnasium", "numpy")
_BEGINNING = (".lock", "checkpoints", ".config.json.tmp")  # what a process that was killed at once may leave
_FILES = ("config.json", "metrics.jsonl", "linearizer.safetensors", "imitation.safetensors")
_FOLDERS = ("checkpoints", "pictures", "evaluation", "skills", "tensorboard")
_CHECKPOINT_NAME = "epoch-{:010d}.safetensors"


class RunDirectory:
    """One run on disk; `create` for a new one, `open` for one that exists."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path = path
        self.config = config

    @staticmethod
    def check_free(path: Path, *, overwrite: bool = False) -> None:
        """Refuse a place that holds something which a new run there would destroy or mix with."""
        if path.exists() and not path.is_dir():
            raise IbolError(f"{path} is a file: choose another --run-dir")
        if (path / "config.json").exists():
            if not overwrite:
                raise IbolError(
                    f"{path} already holds a run: continue it with 'ibol resume {path}', choose another --run-dir, "
                    "or replace it with --overwrite"
                )
        elif path.exists() and any(
            entry.name not in _BEGINNING or (entry.is_dir() and any(entry.iterdir())) for entry in path.iterdir()
        ):
            raise IbolError(f"{path} is not empty and holds no run: choose another --run-dir")

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], *, overwrite: bool = False) -> "RunDirectory":
        """A new run in `path`; an earlier one there is replaced only with `overwrite`."""
        cls.check_free(path, overwrite=overwrite)
        run = cls(path, {**config, "versions": versions()})
        try:
            path.mkdir(parents=True, exist_ok=True)
            with run.locked():
                for name in _FILES:
                    (path / name).unlink(missing_ok=True)
                for name in _FOLDERS:
                    if (path / name).exists():
                        shutil.rmtree(path / name)
                run._checkpoints.mkdir()
                run.save_config()
        except OSError as error:
            raise IbolError(f"cannot write to {path}: {error.strerror}; choose another --run-dir") from None
        return run

    @property
    def command(self) -> str:
        """The command that made it, such as `discover`."""
        return str(self.config["command"])

    @property
    def method(self) -> str:
        """What was trained, such as `diayn`; for all commands but `discover` it is called as the command."""
        return str(self.config["method"])

    @property
    def pictures(self) -> Path:
        """Where pictures of the training are kept."""
        return self.path / "pictures"

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """The run that `path` holds."""
        file = path / "config.json"
        if not file.exists():
            raise IbolError(f"{path} holds no run: there is no {file}")
        try:
            config = json.loads(file.read_text())
            if "method" not in config:  # before 0.2 the method was called the command
                config["method"] = config["command"]
                config["command"] = "discover" if "skills" in config else config["command"]
            for name in ("command", "method", "env", "preset", "seed", "settings", "env_settings"):
                config[name]
        except KeyError as error:
            raise IbolError(f"{file} is not the configuration of a run: it has no {error}") from None
        except (OSError, ValueError, TypeError) as error:
            raise IbolError(f"{file} is not the configuration of a run ({error})") from None
        return cls(path, config)

    def save_config(self) -> None:
        """Write config.json, all of it or nothing."""
        checkpoint.replace_text(self.path / "config.json", json.dumps(self.config, indent=2) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that writes here; the system lets go of the lock if this process dies."""
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IbolError(f"another process is training in {self.path}: wait for it or stop it") from None
            yield

    # Metrics.

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one epoch's numbers."""
        try:
            with (self.path / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise IbolError(f"could not write {self.path / 'metrics.jsonl'}: {error.strerror}") from None

    def metrics(self) -> Iterator[dict[str, Any]]:
        """The logged epochs in order; a last line that was cut off is left out."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return
        for line in file.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                return
            try:
                yield json.loads(line)
            except ValueError:
                raise IbolError(f"{file} is damaged: not all of its lines are JSON") from None

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop what an interrupted run logged beyond its last checkpoint: those epochs are run again."""
        kept = [json.dumps(row) + "\n" for row in self.metrics() if row["epoch"] <= epoch]
        checkpoint.replace_text(self.path / "metrics.jsonl", "".join(kept))

    # Checkpoints.

    def save_checkpoint(self, epoch: int, arrays: Arrays, *, keep: int) -> None:
        """Save the state after `epoch` epochs and delete all but the last `keep` checkpoints."""
        checkpoint.save(self._checkpoints / _CHECKPOINT_NAME.format(epoch), arrays, {"epoch": epoch})
        for old in self.checkpoints()[:-keep]:
            old.unlink()

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        return sorted(self._checkpoints.glob("epoch-*.safetensors"))

    def load_checkpoint(self, wanted: Callable[[str], bool] = lambda name: True) -> tuple[Arrays, int]:
        """The arrays whose names are `wanted`, and the epoch, of the newest good checkpoint."""
        files = self.checkpoints()
        for file in reversed(files):
            try:
                arrays, meta = checkpoint.load(file, wanted)
                return arrays, int(meta["epoch"])
            except BadCheckpoint as error:
                warnings.warn(f"{error}; falling back to the checkpoint before it", RuntimeWarning, stacklevel=2)
        if files:
            raise IbolError(f"none of the {len(files)} checkpoints in {self._checkpoints} can be used")
        raise IbolError(f"{self.path} has no checkpoint yet")

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        for leftover in [*self.path.glob(".*.tmp"), *self._checkpoints.glob(".*.tmp")]:
            leftover.unlink()


def settings_from_json(kind: type[Settings], values: dict[str, Any]) -> Settings:
    """A settings dataclass from JSON, whose lists become tuples again; a setting that it does not know is an error."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise unknown("setting", name, known, hint=" (was the run made by another version?)")
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    if values.get("normalizer") == "preset":  # how runs before 0.2 said it
        values["normalizer"] = "fixed"
    return kind(**values)


def versions() -> dict[str, str]:
    """Versions of what made a run."""
    found = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "platform": sys.platform, **found}
