"""What the engines cost by themselves, and how long the whole paper takes on how many cores.

`overhead` gives the schedule of `ibol experiment` 2000 cells that only sleep (`sleeper.py`), over 64 cores that a Ray
cluster of this machine pretends to have (`--engine ray`) or by 64 processes of the local engine (`--engine local`).
Everything but the training is real: order, tasks, processes, leases, outcomes. Time is scaled: a cell of 60 s sleeps
for 60 / scale seconds, so that the engine weighs scale times as much as it would. `overhead_at_scale` is of the
scaled time, `overhead_unscaled` of what the cells would take: the same extra seconds over 2000 cells of 60 s. Their
processes are there before the clock starts, as in the middle of an experiment. With `--engine none` there is a clock
that is moved on, which shows what the driver itself needs.

`model` is the wall time of `ibol paper all` over cores: the same order of cells (longest chain first) with the times
that `ibol.experiments.costs` estimates, or that runs of `--dir` took.

    python benchmarks/engines.py overhead --engine ray --json benchmarks/results/engines_ray.json
    python benchmarks/engines.py overhead --engine local --json benchmarks/results/engines_local.json
    python benchmarks/engines.py model --preset fast
"""

import argparse
import heapq
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import sleeper
from ibol.experiments.cells import Cell, with_needs
from ibol.experiments.costs import Costs, chains
from ibol.experiments.engines.cluster import RayEngine
from ibol.experiments.engines.local import LocalEngine
from ibol.experiments.engines.work import Outcome, Task, one_core, task_of
from ibol.experiments.model import paper_experiment, parse
from ibol.experiments.schedule import Options, Schedule
from report import write_json


class SleepingCluster(RayEngine):
    """The Ray engine, with sleep in the place of training."""

    def __init__(self, cpus: int, seconds: float) -> None:
        super().__init__(None, cpus)
        import ray

        def perform(task: dict[str, Any]) -> dict[str, Any]:
            return sleeper.perform(task, seconds)

        def begin() -> None:
            assert sleeper.perform
            time.sleep(20.0)  # so that each of them has a process of its own

        self._most, self.jobs = None, cpus
        self._remote = ray.remote(perform)
        environ = {"env_vars": one_core(self._environ, "fast")}
        first = ray.remote(begin).options(num_cpus=1, memory=0, runtime_env=environ)
        ray.get([first.remote() for _ in range(cpus)])

    def _count(self) -> None:
        super()._count()
        self._memory = 0.0


class SleepingProcesses(LocalEngine):
    """The local engine, with sleep in the place of training."""

    def __init__(self, cpus: int, seconds: float) -> None:
        super().__init__(cpus)
        self._seconds = seconds
        self._command = [sys.executable, sleeper.__file__, str(seconds)]
        self._needed = lambda task: 0.0  # type: ignore[method-assign]


class MovedClock:
    """Cores of a clock that is moved on: nothing is waited for, so that only the driver's own work takes time."""

    def __init__(self, cpus: int, seconds: float) -> None:
        self.jobs, self._seconds, self._now = cpus, seconds, 0.0
        self._open: list[tuple[float, str]] = []

    def has_room(self, task: Task) -> bool:
        return len(self._open) < self.jobs

    def submit(self, task: Task) -> None:
        heapq.heappush(self._open, (self._now + self._seconds, task.name))

    def wait(self, seconds: float) -> list[Outcome]:
        if not self._open:
            return []
        self._now, name = heapq.heappop(self._open)
        return [Outcome(name, "done")]

    def stop(self) -> list[Outcome]:
        return []

    def close(self) -> None:
        return


def many_cells(count: int) -> list[Cell]:
    runs = f'[a]\nruns = [{{ method = "sac", env = "point", seed = {list(range(count))} }}]'
    return parse(runs, "benchmark", "fast").needed


def overhead(args: argparse.Namespace) -> dict[str, Any]:
    cells, seconds = many_cells(args.cells), args.seconds / args.scale
    engines: dict[str, Any] = {"ray": SleepingCluster, "local": SleepingProcesses, "none": MovedClock}
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        schedule = Schedule(cells, {}, Options(Path(folder)), lambda board: None)
        prepared = time.perf_counter() - began
        engine = engines[args.engine](args.cpus, seconds)
        warm_up(engine, cells[: args.cpus], Path(folder))
        began, used = time.perf_counter(), time.process_time()
        board = schedule.run(engine)
        wall, used = time.perf_counter() - began, time.process_time() - used
    assert len(board.done) == args.cells
    ideal = makespan(cells, {cell.identity: seconds for cell in cells}, args.cpus)
    found = {
        "engine": args.engine, "cells": args.cells, "cpus": args.cpus, "cell_seconds": args.seconds,
        "scale": args.scale, "ideal_seconds": round(ideal, 3), "wall_seconds": round(wall, 3),
        "preparation_seconds": round(prepared, 3), "driver_cpu_ms_per_cell": round(1000 * used / args.cells, 3),
        "load_of_others": [round(one, 1) for one in os.getloadavg()],
    }  # fmt: skip
    if args.engine != "none":
        extra = wall + prepared - ideal
        found["overhead_at_scale"] = round(extra / ideal, 4)
        found["overhead_unscaled"] = round(extra / (ideal * args.scale), 5)
    return found


def warm_up(engine: Any, cells: list[Cell], folder: Path) -> None:
    """Have the local engine start all of its processes."""
    if isinstance(engine, SleepingProcesses):
        for cell in cells:
            engine.submit(task_of(cell, folder / "warm", trusted=(), checkpoint_minutes=5.0, measure=0))
        ended = 0
        while ended < len(cells):
            ended += len(engine.wait(1.0))


def makespan(cells: list[Cell], seconds: dict[str, float], workers: int) -> float:
    """The time of list scheduling, longest chain first."""
    priority = chains(cells, seconds)
    missing = {cell.identity: len(set(cell.needs)) for cell in cells}
    users: dict[str, list[str]] = {}
    for cell in cells:
        for other in set(cell.needs):
            users.setdefault(other.identity, []).append(cell.identity)
    ready = [(-priority[name], name) for name, count in missing.items() if not count]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            _, name = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[name], name))
        now, name = heapq.heappop(running)
        for user in users.get(name, []):
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (-priority[user], user))
    return now


def model(args: argparse.Namespace) -> dict[str, Any]:
    experiment = paper_experiment(args.preset)
    cells = with_needs(experiment.needed)
    estimates = Costs(cells, Path(args.dir) if args.dir else Path("/nonexistent"))
    seconds = {cell.identity: estimates.seconds(cell) for cell in cells}
    known = sum(estimates.known(cell) for cell in cells)
    hours = {str(count): round(makespan(cells, seconds, count) / 3600, 2) for count in args.cores}
    return {
        "preset": args.preset, "runs": len(cells), "runs_of_measured_kinds": known,
        "core_hours": round(sum(seconds.values()) / 3600, 2),
        "longest_chain_hours": round(max(chains(cells, seconds).values()) / 3600, 2), "hours_by_cores": hours,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "model"])
    parser.add_argument("--engine", choices=["ray", "local", "none"], default="ray")
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a cell")
    parser.add_argument("--scale", type=float, default=10.0)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--dir", help="the directory of an experiment whose runs say what they took")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 8, 16, 64, 256])
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    results = overhead(args) if args.what == "overhead" else model(args)
    for name, value in results.items():
        print(f"{name}: {value}")
    if args.json:
        write_json(args.json, vars(args), ("ibol",), results)


if __name__ == "__main__":
    main()
