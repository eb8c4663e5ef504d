"""Starts, resumes and loads runs: the one place that knows all methods."""

import dataclasses
import importlib
import json
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ibol import bounds, memory, outside, presets, trust, zoo
from ibol.envs import find_robot, load_robot
from ibol.envs.own import is_description
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.robots import GOAL, known_as
from ibol.runs.directory import RunDirectory, settings_from_json
from ibol.training import loggers
from ibol.training.loop import LASTING, RunSettings, train
from ibol.training.method import Method
from ibol.training.trainer import Trainer

COMMANDS = {
    "linearize": "ibol.linearizer.training",
    "sac": "ibol.methods.sac",
    "downstream": "ibol.downstream",
}
"""Commands that train one thing, and its module."""
_NEEDED = ("linearizer", "encoder_sees", "policy_sees")  # settings by which tables and figures name a run
_SPARE = 2**24  # bytes


def discovery_methods() -> list[str]:
    """The methods of skill discovery: ours, then those that installed packages offer."""
    own = _own_methods()
    return [*own, *(name for name in outside.installed() if name not in own and name not in COMMANDS)]


def is_method(name: str) -> bool:
    """Whether a method of skill discovery may be called so; nothing is imported to find out."""
    return name not in COMMANDS and (name in _own_methods() or outside.is_known(name))


def find(name: str) -> Method:
    """The method `name`, or what the command `name` trains; the user has named it, or trusts it."""
    own = {**COMMANDS, **{method: f"ibol.methods.{method}" for method in _own_methods()}}
    if name in own:
        found = importlib.import_module(own[name]).METHOD
        assert isinstance(found, Method)
        return found
    if not outside.is_known(name):
        hint = ", or the module of one, such as my_package.my_method"
        raise unknown("method", name, [*own, *outside.installed()], hint)
    return _checked(name, outside.load(name))


def _own_methods() -> list[str]:
    """Modules in `ibol/methods/` that have presets."""
    modules = {module.name for module in pkgutil.iter_modules(importlib.import_module("ibol.methods").__path__)}
    return [name for name in presets.commands() if name in modules and name not in COMMANDS]


def _checked(name: str, found: Any) -> Method:
    """What a module from outside calls its method, if it is one of skill discovery."""
    if not isinstance(found, Method):
        raise IbolError(
            f"METHOD of {name!r} is {found!r:.80}, but what discovery_method(Config, Trainer) makes is needed"
        )
    known = (
        {field.name for field in dataclasses.fields(found.config)} if dataclasses.is_dataclass(found.config) else set()
    )
    if lacking := sorted(set(_NEEDED) - known):
        raise IbolError(
            f"the settings of the method {name!r} lack {', '.join(lacking)}: derive them from DiscoveryConfig"
        )
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
    name = known_as(env)
    parts = (_file_name(method), _file_name(name), *known.labels(config), preset, f"seed{run_settings.seed}")
    path = run_settings.run_dir or Path("runs") / "-".join(parts)
    RunDirectory.check_free(path, overwrite=run_settings.overwrite)
    loggers.check(run_settings.log)
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
    kept = run.config.get("run_settings", {})
    given = {name: value for name, value in kept.items() if name in LASTING} | {"log": loggers.names_of(kept)}
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
    method = method_of(run)
    return method, run.settings(method.config), run.settings(EnvSettings, "env_settings")


def method_of(run: RunDirectory) -> Method:
    """The method of a run of anybody; one from outside must be installed or trusted."""
    config = run.path / "config.json"
    trust.check_method(run.method, config)
    if run.method not in COMMANDS and not is_method(run.method):
        raise IbolError(
            f"{config} is of the method {run.method!r}, which is neither ours nor installed here: "
            "install the package that offers it"
        )
    return find(run.method)


def load_agent(run: str | Path) -> Any:
    """What the run in directory `run` has learned, ready to act."""
    return agent_of(open_run(bounds.path("run", run)))


def agent_of(run: RunDirectory) -> Any:
    """What an opened run has learned, ready to act."""
    return method_of(run).load(run)


def initial_agent(run: str | Path) -> Any:
    """What the run in directory `run` started from, before it learned anything."""
    return create_trainer(open_run(bounds.path("run", run))).agent()


def _file_name(env: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in env)
