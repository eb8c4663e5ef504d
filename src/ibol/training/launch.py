"""Starts, resumes and loads runs: the one place that knows all methods."""

import dataclasses
import importlib
import json
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ibol import bounds, memory, presets, zoo
from ibol.envs import find_robot, load_robot
from ibol.envs.own import is_description
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.robots import GOAL
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.training.loop import LASTING, RunSettings, train
from ibol.training.method import Method
from ibol.training.trainer import Trainer

COMMANDS = {
    "linearize": "ibol.linearizer.training",
    "sac": "ibol.methods.sac",
    "downstream": "ibol.downstream",
}
"""Commands that train one thing, and its module."""
_SPARE = 2**24  # bytes


def discovery_methods() -> list[str]:
    """The methods of skill discovery: modules in `ibol/methods/` that have presets."""
    modules = {module.name for module in pkgutil.iter_modules(importlib.import_module("ibol.methods").__path__)}
    return [name for name in presets.commands() if name in modules and name not in COMMANDS]


def find(name: str) -> Method:
    """The method `name`, or what the command `name` trains."""
    known = {**COMMANDS, **{method: f"ibol.methods.{method}" for method in discovery_methods()}}
    if name not in known:
        raise unknown("method", name, known)
    found = importlib.import_module(known[name]).METHOD
    assert isinstance(found, Method)
    return found


def start(
    method: str, env: str, config: Any, *, preset: str, env_settings: EnvSettings, run_settings: RunSettings
) -> tuple[RunDirectory, bool]:
    """Train a new run; returns it and whether it came to its end."""
    for settings in (config, env_settings, run_settings):
        bounds.check(settings)
    if is_description(env):
        env = load_robot(env).name
    if method == "downstream" and find_robot(env) is not None:  # the task of a robot is to reach a location
        env += GOAL
    known = find(method)
    parts = (method, _file_name(_without_digest(env)), *known.labels(config), preset, f"seed{run_settings.seed}")
    path = run_settings.run_dir or Path("runs") / "-".join(parts)
    RunDirectory.check_free(path, overwrite=run_settings.overwrite)
    for name in known.sources:
        source = getattr(config, name)
        if source and Path(source).exists() and Path(source).resolve().is_relative_to(path.resolve()):
            raise IbolError(f"{path} holds {source}, which this run is to use: choose another --run-dir")
    env_settings = known.complete(env, config, env_settings)
    trainer = known.trainer(env, env_settings, config, run_settings.seed)
    description = {
        "command": method if method in COMMANDS else "discover",
        "method": method,
        "env": env,
        "preset": preset,
        "seed": run_settings.seed,
        "settings": dataclasses.asdict(config),
        "env_settings": dataclasses.asdict(env_settings),
        "run_settings": run_settings.lasting(),
        **trainer.describe(),
    }
    run = RunDirectory.create(path, description, overwrite=run_settings.overwrite)
    return run, train(trainer, run, run_settings)


def resume(path: Path, *, epochs: int | None = None, quiet: bool = False, **changes: Any) -> tuple[RunDirectory, bool]:
    """Continue a run where its last checkpoint stands, to `epochs` epochs if that is given.

    `changes` are run settings in the place of those that the run was started with; None changes nothing.
    """
    run = open_run(path)
    if zoo.is_bundled(run.path):
        raise IbolError(
            f"{path} are bundled skills, which cannot be resumed: 'ibol zoo {path}' has the command to train them"
        )
    run.check_links()
    given = {name: value for name, value in run.config.get("run_settings", {}).items() if name in LASTING}
    given |= {name: value for name, value in changes.items() if value is not None}
    run_settings = settings_from_json(RunSettings, {**given, "quiet": quiet}, f"run_settings in {path / 'config.json'}")
    if epochs is not None:
        method, config, _ = settings_of(run)
        done = run.load_checkpoint(lambda name: False)[1] if run.checkpoints() else 0
        if epochs < done:
            raise IbolError(f"{path} has done {done} epochs already, so it cannot end after {epochs}")
        run.config["settings"][method.length(config)] = epochs
    trainer = create_trainer(run)
    if epochs is not None:  # before the training, which may be interrupted and resumed again
        with run.locked():
            run.save_config()
    return run, train(trainer, run, run_settings, resume=True)


def open_run(path: Path) -> RunDirectory:
    """The run in `path` with all of its settings, checked; those that its version did not have get their defaults."""
    run = RunDirectory.open(path)
    _, config, env_settings = settings_of(run)
    for name, settings in (("settings", config), ("env_settings", env_settings)):
        run.config[name] = json.loads(json.dumps(dataclasses.asdict(settings)))
    return run


def create_trainer(run: RunDirectory) -> Trainer:
    """The trainer of a run at epoch 0, with what the run keeps of others."""
    method, config, env_settings = settings_of(run)
    config, kept = method.use_copies(config, run.path), [file.stat().st_size for file in run.checkpoints()]
    # All that learns is in a checkpoint, so networks that are much larger than it are not what was trained.
    why = f"the checkpoints in {run.path} are smaller"
    with memory.at_most(4 * max(kept) + _SPARE, why) if kept else nullcontext():
        return method.trainer(run.config["env"], env_settings, config, run.config["seed"])


def settings_of(run: RunDirectory) -> tuple[Method, Any, EnvSettings]:
    """The method, its settings and the environment's settings, as config.json has them."""
    method = find(run.method)
    return method, run.settings(method.config), run.settings(EnvSettings, "env_settings")


def load_agent(run: str | Path) -> Any:
    """What the run in directory `run` has learned, ready to act."""
    return agent_of(open_run(bounds.path("run", run)))


def agent_of(run: RunDirectory) -> Any:
    """What an opened run has learned, ready to act."""
    return find(run.method).load(run)


def initial_agent(run: str | Path) -> Any:
    """What the run in directory `run` started from, before it learned anything."""
    return create_trainer(open_run(bounds.path("run", run))).agent()


def _without_digest(env: str) -> str:
    """The name of an own robot, or of the task with it, as its user knows it."""
    name, marked, digest = env.partition("@")
    return name + GOAL if marked and digest.endswith(GOAL) else name


def _file_name(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in env)
