"""The run directory: what a run is, what it measured and where it stands.

RUN/config.json               everything needed to rebuild the run, with the versions that made it
RUN/metrics.jsonl             one JSON object for each epoch; fields that start with `time/` are wall-clock
RUN/metrics.damaged-*.jsonl   what it was before damaged lines were left out
RUN/checkpoints/*.safetensors the last few states, named by the number of epochs done
RUN/linearizer.safetensors    what the skills of a discovery stand on
RUN/pictures/*.png            where they went while they were learned
RUN/evaluation/*.safetensors  roll-outs of the skills that were measured or drawn
RUN/skills/, RUN/imitation.safetensors  of a downstream task: the skills and the imitation set that it uses
RUN/tensorboard/, RUN/wandb/, RUN/mlflow/, RUN/loggers.json  the metrics again, with --log
"""

import dataclasses
import fcntl
import itertools
import json
import os
import platform
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from ibol import bounds, robots, trust, zoo
from ibol.bounds import Natural
from ibol.errors import IbolError, unknown
from ibol.memory import TooLarge
from ibol.runs import checkpoint, files
from ibol.runs.checkpoint import Arrays, BadCheckpoint

Settings = TypeVar("Settings")
Made = TypeVar("Made")
_PACKAGES = ("ibol", "mujoco", "jax", "equinox", "optax", "gymnasium", "numpy")
_BEGINNING = (".lock", "checkpoints", ".config.json.tmp")  # what a process that was killed at once may leave
_FILES = ("config.json", "metrics.jsonl", "linearizer.safetensors", "imitation.safetensors", "loggers.json")
_FOLDERS = ("checkpoints", "pictures", "evaluation", "skills", "tensorboard", "wandb", "mlflow", robots.FOLDER)
_ANEW = ("wandb",)  # each start makes a folder of its own in it, and nothing that is there is written to
_CHECKPOINT_NAME = "epoch-{:010d}.safetensors"
_MOST_CONFIG, _MOST_METRICS = 2**24, 2**30  # bytes, far more than any run needs
_MOST_EPOCHS = 10**10  # as many digits as the names of checkpoints have


@dataclass(frozen=True)
class _Config:
    """What config.json has to say of any run; what else is in it belongs to the method."""

    command: str
    method: str
    env: str
    preset: str
    seed: Natural
    settings: dict[str, Any]
    env_settings: dict[str, Any]
    run_settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)


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
            raise IbolError(f"{path} is not empty and is not a run: choose another --run-dir")

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], *, overwrite: bool = False) -> "RunDirectory":
        """A new run in `path`; an earlier one there is replaced only with `overwrite`."""
        cls.check_free(path, overwrite=overwrite)
        run = cls(path, {**config, "versions": versions()})
        try:
            path.mkdir(parents=True, exist_ok=True)
            with run.locked():
                for old in [files.inside(path, name) for name in (*_FILES, *_FOLDERS)]:
                    if old.is_dir():
                        shutil.rmtree(old)
                    else:
                        old.unlink(missing_ok=True)
                run._checkpoints.mkdir()
                robots.keep(path, config["env"])
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
        """The run that `path` holds, or the bundled skills of that name; its environment must be known or trusted."""
        path = zoo.locate(path)
        file = path / "config.json"
        try:
            config = json.loads(files.read(file, _MOST_CONFIG))
        except FileNotFoundError:
            bundled = "" if path.is_dir() else f", and bundled skills are called {', '.join(zoo.names())}"
            raise IbolError(f"{path} is not a run: there is no {file}{bundled}") from None
        except OSError as error:
            raise IbolError(f"{path} cannot be read as a run: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise IbolError(f"{file} is not the configuration of a run ({error})") from None
        if not isinstance(config, dict):
            raise IbolError(f"{file} is not the configuration of a run: it is not a JSON object")
        if "method" not in config and "command" in config:  # before 0.2 the method was called the command
            config["method"] = config["command"]
            config["command"] = "discover" if "skills" in config else config["command"]
        known = [field.name for field in dataclasses.fields(_Config)]
        settings_from_json(_Config, {name: config[name] for name in known if name in config}, str(file))
        if not config["preset"].isprintable():
            raise IbolError(f"the preset in {file} is {config['preset']!r}, which is not the name of a preset")
        trust.check_env(config["env"], file)
        robots.admit(path, config["env"])
        if zoo.is_bundled(path):
            zoo.warn_of_versions(path, config["versions"])
        return cls(path, config)

    def settings(self, kind: type[Settings], name: str = "settings") -> Settings:
        """A part of config.json as the dataclass that describes it."""
        return settings_from_json(kind, self.config[name], f"{name} in {self.path / 'config.json'}")

    def described(self, name: str) -> dict[str, Any]:
        """What config.json says of the skills or the linearizer of the run, which are of the run's environment."""
        values = self.config.get(name)
        if not isinstance(values, dict) or values.get("env") != self.config["env"]:
            raise IbolError(f"{self.path / 'config.json'} has no description of {name} in {self.config['env']}")
        return values

    def save_config(self) -> None:
        """Write config.json, all of it or nothing."""
        content = json.dumps(self.config, indent=2) + "\n"
        files.replace_bytes(files.inside(self.path, "config.json"), content.encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that writes here; the system lets go of the lock if this process dies."""
        try:
            lock = files.open_inside(self.path, ".lock", os.O_RDWR)
        except OSError as error:
            raise IbolError(f"cannot write to {self.path}: {error.strerror}") from None
        with open(lock, "w"):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IbolError(f"another process is training in {self.path}: wait for it or stop it") from None
            yield

    def check_links(self) -> None:
        """Refuse to write into a run with a symbolic link where something may be written."""
        for name in _FILES:
            files.inside(self.path, name)
        for name in _FOLDERS:
            place = files.inside(self.path, name)
            if name in _ANEW:
                continue
            for directory, folders, names in os.walk(place):
                for entry in (*folders, *names):
                    if not entry.endswith(".tmp"):  # those are deleted, not written to
                        files.inside(Path(directory), entry)

    # Metrics.

    def log(self, row: Mapping[str, Any]) -> None:
        """Append one epoch's numbers."""
        try:
            descriptor = files.open_inside(self.path, "metrics.jsonl", os.O_WRONLY | os.O_APPEND)
            with open(descriptor, "w") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise IbolError(f"could not write {self.path / 'metrics.jsonl'}: {error.strerror}") from None

    def metrics(self) -> list[dict[str, float]]:
        """The logged epochs in order; says which are missing because lines were damaged."""
        rows, _ = self._read_metrics()
        epochs = [0, *(row["epoch"] for row in rows)]
        if gaps := [(a + 1, b - 1) for a, b in itertools.pairwise(epochs) if b > a + 1]:
            count = epochs[-1] - len(rows)
            warnings.warn(
                f"{self.path / 'metrics.jsonl'} lacks {count} epochs between {gaps[0][0]} and {gaps[-1][1]}",
                RuntimeWarning,
                stacklevel=2,
            )
        return rows

    def _read_metrics(self) -> tuple[list[dict[str, Any]], int]:
        """The good rows, one for each epoch, and the number of bad lines; a last one without its end is neither."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            return [], 0
        *lines, _ = files.read(file, _MOST_METRICS).split(b"\n")
        rows = [_metrics_row(line) for line in lines]
        good = {row["epoch"]: row for row in rows if row is not None}
        if bad := len(rows) - len(good):
            warnings.warn(
                f"{bad} of {len(lines)} lines of {file} are damaged or repeated and left out",
                RuntimeWarning,
                stacklevel=3,
            )
        return [good[epoch] for epoch in sorted(good)], bad

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop what an interrupted run logged beyond its last checkpoint: those epochs are run again."""
        file = files.inside(self.path, "metrics.jsonl")
        rows, bad = self._read_metrics()
        if bad:
            numbered = (self.path / f"metrics.damaged-{number}.jsonl" for number in itertools.count(1))
            shutil.copyfile(file, next(place for place in numbered if not place.is_symlink() and not place.exists()))
        kept = [json.dumps(row) + "\n" for row in rows if row["epoch"] <= epoch]
        if len(kept) < epoch:
            warnings.warn(
                f"{file} lacks {epoch - len(kept)} of the {epoch} epochs before the checkpoint",
                RuntimeWarning,
                stacklevel=2,
            )
        files.replace_bytes(file, "".join(kept).encode())

    # Checkpoints.

    def save_checkpoint(self, epoch: int, arrays: Arrays, *, keep: int) -> None:
        """Save the state after `epoch` epochs and delete all but the last `keep` checkpoints."""
        try:
            place = files.folder(self.path, "checkpoints")
            if (self.path / "metrics.jsonl").exists():  # a checkpoint is to find the rows before it
                files.sync(self.path / "metrics.jsonl")
            checkpoint.save(place / _CHECKPOINT_NAME.format(epoch), arrays, {"epoch": epoch})
            for old in self.checkpoints()[:-keep]:
                old.unlink()
        except OSError as error:
            raise IbolError(f"could not write a checkpoint into {self.path}: {error.strerror}") from None

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        return sorted(self._checkpoints.glob("epoch-*.safetensors"))

    def use_checkpoint(
        self, use: Callable[[Arrays], Made], wanted: Callable[[str], bool] = lambda name: True
    ) -> tuple[Made, int]:
        """What `use` makes of the newest good checkpoint's arrays with `wanted` names, and the epochs done there.

        A checkpoint is bad if it is damaged or if `use` raises `BadCheckpoint`: that is said, and the one before it
        is taken.
        """
        kept = self.checkpoints()
        for file in reversed(kept):
            try:
                arrays, meta = checkpoint.load(file, wanted)
                if file.name != _CHECKPOINT_NAME.format(epoch := _whole(meta.get("epoch"))):
                    raise BadCheckpoint(f"the checkpoint {file} says that it is of epoch {meta.get('epoch')!r:.100}")
                with checkpoint.fitting(arrays, self.path):
                    return use(arrays), epoch
            except (BadCheckpoint, TooLarge) as error:
                warnings.warn(f"{error}; falling back to the checkpoint before it", RuntimeWarning, stacklevel=2)
        if kept:
            raise IbolError(f"none of the {len(kept)} checkpoints in {self._checkpoints} can be used")
        raise IbolError(f"{self.path} has no checkpoint yet")

    def load_checkpoint(self, wanted: Callable[[str], bool] = lambda name: True) -> tuple[Arrays, int]:
        """The arrays whose names are `wanted`, and the epochs done, of the newest checkpoint that is not damaged."""
        return self.use_checkpoint(lambda arrays: arrays, wanted)

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        for leftover in [*self.path.glob(".*.tmp"), *files.inside(self.path, "checkpoints").glob(".*.tmp")]:
            leftover.unlink()


def picture_of(pictures: Path, epoch: int) -> Path:
    """Where the picture that was drawn after so many epochs is; refuses a link."""
    return files.inside(pictures, f"epoch-{epoch:06d}.png")


def settings_from_json(kind: type[Settings], values: Mapping[str, Any], where: str) -> Settings:
    """A dataclass from JSON, whose lists become tuples again; types and bounds are checked as everywhere.

    A value that it does not know, or one that is missing, is an error, which names `where` they are from.
    """
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    known = {field.name for field in fields}
    for name in values:
        if name not in known:
            raise unknown("setting", name, known, hint=f" (in {where}; was it made by another version?)")
    for entry in fields:
        needed = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if needed and entry.name not in values:
            raise IbolError(f"{where} has no {entry.name}")
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    if given.get("normalizer") == "preset":  # how runs before 0.2 said it
        given["normalizer"] = "fixed"
    made = kind(**given)
    try:
        bounds.check(made)
    except IbolError as error:
        raise IbolError(f"{where}: {error}") from None
    return made


def _metrics_row(line: bytes) -> dict[str, Any] | None:
    """One epoch's numbers, or nothing if that is not what the line holds."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    numbers = isinstance(row, dict) and all(type(value) in (int, float) for value in row.values())
    return row if numbers and 0 < _whole(row.get("epoch")) < _MOST_EPOCHS else None


def _whole(value: Any) -> int:
    """A whole number that is not negative, or -1."""
    return value if type(value) is int and value >= 0 else -1


def versions() -> dict[str, str]:
    """Versions of what made a run."""
    found = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), "platform": sys.platform, **found}
