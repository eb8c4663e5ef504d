"""Methods: one file each. `METHODS` names what can be trained and resumed."""

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ibol.downstream.hierarchy import use_copies
from ibol.envs.settings import EnvSettings
from ibol.errors import unknown
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
    trainer = find(method).create_trainer(env, env_settings, config, run_settings.seed)
    description = {
        "command": method,
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
    if epochs is not None:
        config = dataclasses.replace(config, epochs=epochs)
    if run.config["command"] in _OWN:
        config = _OWN[run.config["command"]](config, path)
    trainer = method.create_trainer(run.config["env"], env_settings, config, run.config["seed"])
    finished = train(trainer, run, run_settings, resume=True)
    if epochs is not None:
        run.config["settings"]["epochs"] = epochs
        run.save_config()
    return run, finished


def settings_of(run: RunDirectory) -> tuple[Method, Any, EnvSettings]:
    """The method, its settings and the environment's settings, as config.json has them."""
    method = find(run.config["command"])
    return (
        method,
        settings_from_json(method.CONFIG, run.config["settings"]),
        settings_from_json(EnvSettings, run.config["env_settings"]),
    )


def load_policy(run: str | Path) -> Any:
    """What the run in directory `run` has learned."""
    directory = RunDirectory.open(Path(run))
    return find(directory.config["command"]).load_policy(directory)


def _file_name(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in env)
