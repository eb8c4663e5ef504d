"""Records of a training beside metrics.jsonl, where people look: TensorBoard, Weights & Biases and MLflow.

Each is an extra of the same name. A logger writes down what it is given and changes nothing: what fails in one is said
once, and the training goes on without it. A resumed run continues its record.

RUN/tensorboard/              events of TensorBoard
RUN/wandb/                    runs of Weights & Biases, offline unless WANDB_MODE says otherwise
RUN/mlflow/                   MLflow's database and pictures, unless MLFLOW_TRACKING_URI names another place
RUN/loggers.json              what Weights & Biases and MLflow call this run
"""

import json
import logging
import os
import re
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from PIL import Image

from ibol.errors import IbolError
from ibol.runs import files
from ibol.runs.directory import RunDirectory

LogName = Literal["tensorboard", "wandb", "mlflow"]
_PACKAGES: dict[str, str] = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}
_PROJECT = "ibol"
_MOST_BYTES = 2**16
_MOST_TEXT = 500  # characters of a setting that MLflow keeps in any version


class Logger(Protocol):
    """Where a training is written down."""

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        """The numbers of an epoch; after a resume epochs may come again, with the same numbers."""
        ...

    def picture(self, epoch: int, file: Path) -> None:
        """A picture of what was learned so far."""
        ...

    def close(self) -> None:
        """Nothing more will come for now."""
        ...


class Loggers:
    """All loggers of a run; none of them can stop it."""

    def __init__(self, names: Sequence[str], run: RunDirectory, done: int) -> None:
        check(names)
        self._open: dict[str, Logger] = {}
        for name in dict.fromkeys(names):
            if (made := self._attempt(name, partial(_KINDS[name], run, done))) is not None:
                self._open[name] = made

    def log(self, epoch: int, row: Mapping[str, float], picture: Path | None = None) -> None:
        """Write an epoch's numbers down everywhere, and its picture if there is one."""
        for name, logger in list(self._open.items()):
            self._attempt(name, partial(logger.log, epoch, row))
            if picture is not None and name in self._open:
                self._attempt(name, partial(logger.picture, epoch, picture))

    def close(self) -> None:
        """Close all of them."""
        for name, logger in list(self._open.items()):
            self._attempt(name, logger.close)
        self._open = {}

    def _attempt(self, name: str, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except Exception as error:  # of somebody else's code, or of the network
            self._open.pop(name, None)
            said = " ".join(f"{type(error).__name__}: {error}".split())
            warnings.warn(
                f"{name} failed, so the training goes on without it: {said:.300}", RuntimeWarning, stacklevel=4
            )


def check(names: Sequence[str]) -> None:
    """Refuse loggers whose package is not installed."""
    for name in names:
        if find_spec(_PACKAGES[name]) is None:
            raise IbolError(f"--log {name} needs an extra: pip install 'ibol[{name}]'")


def names_of(run_settings: Mapping[str, Any]) -> list[str]:
    """The loggers that the settings of a run ask for; runs before 0.2 had a switch for TensorBoard alone."""
    old = ["tensorboard"] if run_settings.get("tensorboard") is True else []
    given = run_settings.get("log", old)
    return [name for name in given if name in get_args(LogName)] if isinstance(given, list | tuple) else old


class _TensorBoard:
    def __init__(self, run: RunDirectory, done: int) -> None:
        from tensorboardX import SummaryWriter

        folder = str(files.folder(run.path, "tensorboard"))
        # Named by the second alone, events of a run that is resumed at once would replace those before.
        self._writer = SummaryWriter(folder, purge_step=done + 1, filename_suffix=f".from{done}")
        if not done:
            lines = "\n".join(f"    {name}: {value}" for name, value in _flat(run.config).items())
            self._writer.add_text("settings", lines, 0)

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, epoch)

    def picture(self, epoch: int, file: Path) -> None:
        with Image.open(file) as image:
            self._writer.add_image("skills", np.asarray(image.convert("RGB")), epoch, dataformats="HWC")

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """One run of Weights & Biases; offline, each start leaves a directory, and all have the id of the run."""

    def __init__(self, run: RunDirectory, done: int) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        self._folder = files.folder(run.path, "wandb")
        if (self._folder / "settings").exists():  # it could name a server to send to
            raise IbolError(f"{self._folder / 'settings'} is not from here: delete it")
        self._image = wandb.Image
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=run.path.resolve().name,
            id=_identity(run, "wandb", lambda: uuid.uuid4().hex[:16]),
            resume="allow" if mode == "online" else None,
            config=_flat(run.config),
            dir=str(run.path),
            mode=mode,
            # No links: nothing in a run is written through them.
            settings=wandb.Settings(console="off", silent=True, symlink=False),
        )
        # Epochs are the axis, and not the number of the call: a resumed run may log some again.
        self._run.define_metric("epoch")
        self._run.define_metric("*", step_metric="epoch")

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        self._run.log({**row, "epoch": epoch})

    def picture(self, epoch: int, file: Path) -> None:
        self._run.log({"skills": self._image(str(file)), "epoch": epoch})

    def close(self) -> None:
        self._run.finish()
        for place in [*self._folder.rglob("*")]:
            if place.is_symlink():  # to a log in the user's cache
                place.unlink()


class _MLflow:
    """One run of MLflow, by its client, which keeps nothing that is global."""

    def __init__(self, run: RunDirectory, done: int) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        from mlflow.tracking import MlflowClient

        elsewhere = os.environ.get("MLFLOW_TRACKING_URI")
        store = None if elsewhere else files.folder(run.path, "mlflow").resolve()
        if store is not None:
            files.inside(run.path, "mlflow", "mlflow.db")
        self._client = MlflowClient(elsewhere or f"sqlite:///{store}/mlflow.db")
        self._id = _identity(run, "mlflow", lambda: self._create(run, store))
        found = self._client.get_run(self._id).info.artifact_uri
        # A run that was moved, or that somebody else made, may name a place outside of itself.
        self._pictures = store is None or str(found).startswith(f"{store.as_uri()}/")

    def _create(self, run: RunDirectory, store: Path | None) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        place = None if store is None else (store / "artifacts").as_uri()
        known = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name, place) if known is None else known.experiment_id
        made = self._client.create_run(experiment, run_name=run.path.resolve().name)
        for setting, value in _flat(run.config).items():
            self._client.log_param(made.info.run_id, _plain(setting), str(value)[:_MOST_TEXT])
        return str(made.info.run_id)

    def log(self, epoch: int, row: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(_plain(name), float(value), now, epoch) for name, value in row.items()]
        self._client.log_batch(self._id, metrics)

    def picture(self, epoch: int, file: Path) -> None:
        if self._pictures:
            self._client.log_artifact(self._id, str(file), "pictures")

    def close(self) -> None:
        self._client.set_terminated(self._id)


_KINDS: dict[str, Callable[[RunDirectory, int], Logger]] = {
    "tensorboard": _TensorBoard, "wandb": _Wandb, "mlflow": _MLflow,
}  # fmt: skip


def _identity(run: RunDirectory, name: str, create: Callable[[], str]) -> str:
    """What a service calls this run: kept with it, so that a resumed run goes on with its record."""
    place = files.inside(run.path, "loggers.json")
    try:
        kept = json.loads(files.read(place, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        kept = {}
    kept = kept if isinstance(kept, dict) else {}
    found = kept.get(name)
    if not isinstance(found, str) or not re.fullmatch(r"[0-9a-f]{8,64}", found):
        found = kept[name] = create()
        files.replace_bytes(place, (json.dumps(kept) + "\n").encode())
    return found


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was set to, by name; the versions of packages are `versions.jax` and so on."""
    flat = {name: config[name] for name in ("command", "method", "env", "preset", "seed")}
    for part in ("settings", "env_settings", "versions"):
        prefix = "" if part == "settings" else f"{part}."
        flat |= {f"{prefix}{name}": value for name, value in config.get(part, {}).items()}
    return flat


def _plain(name: str) -> str:
    """A name with the characters that MLflow takes."""
    return re.sub(r"[^\w./ -]", "_", name)
