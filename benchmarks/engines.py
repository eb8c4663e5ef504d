"""What the engines cost by themselves, and how long the whole paper takes on how many cores.

`overhead` gives the schedule of `ibol experiment` 2000 cells that only sleep, over 64 cores that a Ray cluster of this
machine pretends to have. Time is scaled: a cell of 60 s sleeps for 60 / scale seconds, so that what the engine costs
weighs scale times as much as it would. The share that is reported is of the scaled time: an upper bound. With
`--engine none` there is no cluster but a clock that is moved on, which shows what the driver itself needs.

`model` is the wall time of `ibol paper all` over cores: the same order of cells (longest chain first) with the times
that `ibol.experiments.costs` estimates, or that runs of `--dir` took.

    python benchmarks/engines.py overhead --scale 20 --json benchmarks/results/engines.json
    python benchmarks/engines.py model --preset fast
"""

import argparse
import heapq
import tempfile
import time
from pathlib import Path
from typing import Any

from ibol.experiments.cells import Cell, with_needs
from ibol.experiments.costs import Costs, chains
from ibol.experiments.engines.cluster import RayEngine
from ibol.experiments.engines.work import Outcome, Task
from ibol.experiments.model import paper_experiment, parse
from ibol.experiments.schedule import Options, Schedule
from report import write_json


def sleep(task: dict[str, Any], seconds: float) -> dict[str, Any]:
    import time

    time.sleep(seconds)
    return {"name": task["name"], "kind": "done"}


class SleepingCluster(RayEngine):
    """The Ray engine, with sleep in the place of training."""

    def __init__(self, cpus: int, seconds: float) -> None:
        super().__init__(None, cpus)
        import ray

        self._most, self.jobs = None, cpus
        self._remote = _Sleeper(ray.remote(sleep), seconds)
        # Processes that are there already, as in the middle of an experiment.
        ray.get([ray.remote(sleep).remote({"name": ""}, 1.0) for _ in range(cpus)])

    def _count(self) -> None:
        super()._count()
        self._memory = 0.0


class _Sleeper:
    def __init__(self, remote: Any, seconds: float) -> None:
        self._remote, self._seconds = remote, seconds

    def options(self, **given: Any) -> "_Sleeper":
        return _Sleeper(self._remote.options(**given), self._seconds)

    def remote(self, task: dict[str, Any]) -> Any:
        return self._remote.remote(task, self._seconds)


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
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        schedule = Schedule(cells, [], Options(Path(folder), measure=0), lambda board: None)
        prepared = time.perf_counter() - began
        engine: Any = MovedClock(args.cpus, seconds)
        if args.engine == "ray":
            engine = SleepingCluster(args.cpus, seconds)
        began, used = time.perf_counter(), time.process_time()
        board = schedule.run(engine)
        wall, used = time.perf_counter() - began, time.process_time() - used
    assert len(board.done) == args.cells
    ideal = -(-args.cells // args.cpus) * seconds  # whole rounds
    found = {
        "cells": args.cells, "cpus": args.cpus, "cell_seconds": args.seconds, "scale": args.scale,
        "ideal_seconds": round(ideal, 3), "wall_seconds": round(wall, 3), "preparation_seconds": round(prepared, 3),
        "driver_cpu_ms_per_cell": round(1000 * used / args.cells, 3),
    }  # fmt: skip
    if args.engine == "ray":
        extra = wall + prepared - ideal
        found["overhead_at_scale"] = round(extra / ideal, 4)
        found["overhead_unscaled"] = round(extra / (ideal * args.scale), 5)
    return found


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
    parser.add_argument("--engine", choices=["ray", "none"], default="ray")
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--cpus", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a cell")
    parser.add_argument("--scale", type=float, default=20.0)
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
