"""The work of one cell, wherever it is done: train its run or what is left of it, then simulate what it has learned."""

import os
import resource
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ibol import trust
from ibol.errors import IbolError
from ibol.experiments import leases, states
from ibol.experiments.cells import SET, Cell
from ibol.runs import files

ONE_CORE = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Variables that keep a process to one core; they must be there before it imports anything."""
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
_COMPILED_QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


@dataclass(frozen=True)
class Task:
    """All that a worker needs to know, as plain values."""

    name: str
    identity: str
    method: str
    env: str
    preset: str
    seed: int
    settings: dict[str, Any]
    env_settings: dict[str, Any]
    place: str
    """Below the directory of the experiment, which is the working directory while it is trained."""
    directory: str
    epochs: int
    members: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    """Environments."""
    trusted_methods: tuple[str, ...] = ()
    checkpoint_minutes: float = 5.0
    measure: int = 0
    """Random skills, or goals of a linearizer, to simulate once the run is trained."""


Kind = Literal["done", "interrupted", "failed", "busy", "lost"]


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    name: str
    kind: Kind
    said: str = ""
    seconds: float = 0.0
    peak: int = 0
    """Bytes of memory that its process has used at most."""


def task_of(
    cell: Cell, directory: Path, *, trusted: tuple[str, ...], checkpoint_minutes: float, measure: int,
    trusted_methods: tuple[str, ...] = (),
) -> Task:  # fmt: skip
    """The task that trains a cell."""
    made = cell.method != SET
    return Task(
        name=cell.name, identity=cell.identity, method=cell.method, env=cell.env, preset=cell.preset, seed=cell.seed,
        settings=_plain(asdict(cell.config())) if made else dict(cell.settings),
        env_settings=_plain(asdict(cell.environment())) if made else {},
        place=str(cell.place), directory=str(directory.absolute()), epochs=cell.epochs,
        members=tuple(str(member.place) for member in cell.members), trusted=trusted,
        trusted_methods=trusted_methods,
        checkpoint_minutes=checkpoint_minutes, measure=measure,
    )  # fmt: skip


def task_from(values: Mapping[str, Any]) -> Task:
    """A task that was JSON on the way."""
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Task(**given)


def one_core(environ: Mapping[str, str], preset: str = "") -> dict[str, str]:
    """The environment variables of a process that uses one core, so that its numbers are the same everywhere.

    One for runs of preset smoke, which compile for longer than they train, compiles without optimisation.
    """
    wanted = [_ONE_THREAD, *([_COMPILED_QUICKLY] if preset == "smoke" else [])]
    given = environ.get("XLA_FLAGS", "")
    flags = " ".join([given, *(flag for flag in wanted if flag not in given)]).strip()
    return {**environ, **ONE_CORE, "XLA_FLAGS": flags}


def same_process(one: Task, other: Task) -> bool:
    """Whether a process that was started for one task can do the other."""
    return (one.preset == "smoke") == (other.preset == "smoke")


def perform(task: Task) -> Outcome:
    """Do the work; whatever goes wrong is an outcome, and kept for the next one who asks."""
    began, root = time.monotonic(), Path(task.directory)

    def outcome(kind: Kind, said: str = "") -> Outcome:
        return Outcome(task.name, kind, said, time.monotonic() - began, peak_memory())

    try:
        with _inside(root), trust.both(task.trusted, task.trusted_methods), leases.held(root, task.name):
            finished = _make(task)
        if finished:
            states.forget_failure(root, task.name)
        return outcome("done" if finished else "interrupted")
    except leases.Busy as error:
        return outcome("busy", str(error))
    except KeyboardInterrupt:
        return outcome("interrupted")
    except Exception as error:  # any failure of a run must leave the others alone
        said = str(error) if isinstance(error, IbolError) else f"{type(error).__name__}: {error}"
        if f"another process is training in {task.place}" in said:
            return outcome("busy", said)
        states.keep_failure(root, task.name, said, traceback.format_exc())
        return outcome("failed", " ".join(said.split()))


def peak_memory() -> int:
    """Bytes that this process has used at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _make(task: Task) -> bool:
    files.inside(Path(), *Path(task.place).parts)
    if task.method == SET:
        return _make_set(task)
    if not _train(task):
        return False
    if task.measure:
        _measure(task)
    return True


def _train(task: Task) -> bool:
    """Train a new run, or what is left of it; false if it was interrupted."""
    from ibol.envs.settings import EnvSettings
    from ibol.runs.directory import settings_from_json
    from ibol.training import launch
    from ibol.training.loop import RunSettings

    place = Path(task.place)
    if not (place / "config.json").exists():
        config = settings_from_json(launch.find(task.method).config, task.settings, task.name)
        env_settings = settings_from_json(EnvSettings, task.env_settings, task.name)
        run_settings = RunSettings(
            seed=task.seed, run_dir=place, quiet=True, checkpoint_minutes=task.checkpoint_minutes
        )
        _, finished = launch.start(
            task.method, task.env, config, preset=task.preset, env_settings=env_settings, run_settings=run_settings
        )
        return finished
    run = launch.open_run(place)
    if run.checkpoints() and run.load_checkpoint(lambda name: False)[1] >= task.epochs:
        return True
    return launch.resume(place, quiet=True)[1]


def _measure(task: Task) -> None:
    """Simulate skills, or a linearizer's goals, so that the evaluation of all runs finds their episodes in the run."""
    from ibol.evaluation.goals import goal_paths
    from ibol.evaluation.loading import load_run
    from ibol.evaluation.plots.skills import EPISODES
    from ibol.evaluation.rollouts import skill_rollouts
    from ibol.evaluation.skills import accuracy_trajectories
    from ibol.metrics.coverage import COVERING
    from ibol.seeding import derive
    from ibol.skills.latents import SHOWN

    run = load_run(Path(task.place))
    if run.kind == "linearizer":
        goal_paths(run, trajectories=task.measure, seed=derive(0, "evaluation"))
    else:
        drawn = SHOWN * EPISODES  # by figures
        skill_rollouts(run, trajectories=task.measure)
        skill_rollouts(run, which="eight", trajectories=max(accuracy_trajectories(task.measure), drawn))
        if run.skills.location_dims:
            skill_rollouts(run, trajectories=COVERING, deterministic=True)


def _make_set(task: Task) -> bool:
    from ibol.downstream.imitation import make_imitation_set

    place = Path(task.place)
    if not place.is_file():
        sources = [Path(member) for member in task.members]
        make_imitation_set(sources, place, trajectories=task.settings["trajectories"], seed=task.seed, quiet=True)
    return True


@contextmanager
def _inside(root: Path) -> Iterator[None]:
    """Work in the directory of the experiment: what a run says of its sources is then the same wherever it is."""
    before = Path.cwd()
    root.mkdir(parents=True, exist_ok=True)
    os.chdir(root)
    try:
        (root / "runs").mkdir(exist_ok=True)
        yield
    finally:
        os.chdir(before)


def _plain(values: Any) -> Any:
    """Lists for tuples, as in JSON."""
    if isinstance(values, dict):
        return {name: _plain(value) for name, value in values.items()}
    return [_plain(value) for value in values] if isinstance(values, list | tuple) else values
