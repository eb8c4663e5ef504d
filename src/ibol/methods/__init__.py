"""Methods: one file each. `METHODS` names what can be trained and resumed."""

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ibol.downstream.hierarchy import use_copies
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.methods.discovery import replace_linearizer
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.runs.loop import RunSettings, Trainer, train

DISCOVERY = {name: f"ibol.methods.{name}" for name in ("ibol", "diayn", "valor", "dads")}
"""The methods of skill discovery."""
METHODS = {
    "linearize": "ibol.linearizer.training",
    "sac": "ibol.methods.sac",
    "downstream": "ibol.downstream",
    **DISCOVERY,
}
_OWN: dict[str, Callable[[Any, Path], Any]] = {**dict.fromkeys(DISCOVERY, replace_linearizer), "downstream": use_copies}
"""How a run is made to use what it keeps of others."""


class Method(Protocol):
    """What a method's file offers."""

    CONFIG: type[Any]
    """The frozen dataclass of its settings."""

    def create_trainer(self, env: str, env_settings: EnvSettings, config: Any, seed: int) -> Trainer:
        """A trainer at epoch 0."""
        ...

    def load_policy(self, run: RunDirectory) -> Any:
        """What the run has learned, ready to act."""
        ...


def find(name: str) -> Method:
    """The method `name`."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return importlib.import_module(METHODS[name])


def start(
    method: str, env: str, config: Any, *, preset: str, env_settings: EnvSettings, run_settings: RunSettings
) -> tuple[RunDirectory, bool]:
    """Train a new run; returns it and whether it came to its end."""
    parts = (method, _file_name(env), *getattr(config, "labels", ()), preset, f"seed{run_settings.seed}")
    path = run_settings.run_dir or Path("runs") / "-".join(parts)
    RunDirectory.check_free(path, overwrite=run_settings.overwrite)
    for name in ("skills", "linearizer", "imitation_set"):
        given = getattr(config, name, None)
        if given and Path(given).exists() and Path(given).resolve().is_relative_to(path.resolve()):
            raise IbolError(f"{path} holds {given}, which this run is to use: choose another --run-dir")
    trainer = find(method).create_trainer(env, env_settings, config, run_settings.seed)
    description = {
        "command": "discover" if method in DISCOVERY else method,
        "method": method,
        "env": env,
        "preset": preset,
        "seed": run_settings.seed,
        "settings": dataclasses.asdict(config),
        "env_settings": dataclasses.asdict(env_settings),
        **trainer.describe(),
    }
    run = RunDirectory.create(path, description, overwrite=run_settings.overwrite)
    return run, train(trainer, run, run_settings)


def resume(path: Path, run_settings: RunSettings, epochs: int | None = None) -> tuple[RunDirectory, bool]:
    """Continue a run where its last checkpoint stands, to `epochs` epochs if that is given."""
    run = RunDirectory.open(path)
    method, config, env_settings = settings_of(run)
    length = getattr(config, "length_name", "epochs")
    if epochs is not None:
        done = max((row["epoch"] for row in run.metrics()), default=0)
        if epochs < done:
            raise IbolError(f"{path} has done {done} epochs already, so it cannot end after {epochs}")
        config = dataclasses.replace(config, **{length: epochs})
    if run.method in _OWN:
        config = _OWN[run.method](config, path)
    trainer = method.create_trainer(run.config["env"], env_settings, config, run.config["seed"])
    if epochs is not None:  # before the training, which may be interrupted and resumed again
        run.config["settings"][length] = epochs
        with run.locked():
            run.save_config()
    return run, train(trainer, run, run_settings, resume=True)


def settings_of(run: RunDirectory) -> tuple[Method, Any, EnvSettings]:
    """The method, its settings and the environment's settings, as config.json has them."""
    method = find(run.method)
    return (
        method,
        settings_from_json(method.CONFIG, run.config["settings"]),
        settings_from_json(EnvSettings, run.config["env_settings"]),
    )


def load_policy(run: str | Path) -> Any:
    """What the run in directory `run` has learned."""
    directory = RunDirectory.open(Path(run))
    return find(directory.method).load_policy(directory)


def _file_name(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in env)
