"""A Ray cluster: each cell is a remote task that trains or resumes its run directory on storage that all nodes share.

Nothing is kept in Ray. A node that dies costs what its runs have not saved; Ray starts their tasks again elsewhere, and
these go on from the last checkpoint. If the driver dies, the same command goes on.
"""

import os
import socket
import time
from dataclasses import asdict
from typing import Any

from ibol.errors import IbolError
from ibol.experiments.engines.local import cores
from ibol.experiments.engines.work import Outcome, Task, one_core, perform, task_from

_RETRIES = 3  # of a task whose node or process died
_AHEAD = 2  # tasks for each core that Ray is given, so that no core waits for this process
_GUESS = 1.2e9  # bytes that a task reserves
_COUNT = 10.0  # seconds between looks at how large the cluster is
_TIME_TO_SAVE = 30.0  # seconds
_VARIABLES = ("IBOL_CACHE", "MUJOCO_GL", "XLA_FLAGS")


def perform_remotely(values: dict[str, Any]) -> dict[str, Any]:
    """The work of a cell in a process of the cluster."""
    return asdict(perform(task_from(values)))


class RayEngine:
    """Gives tasks to a cluster that runs already, or to one on this machine that it starts."""

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        self._ray = _import_ray()
        _check_address(address)
        self._most, self._tasks, self._counted = jobs, dict[Any, Task](), 0.0
        given: dict[str, Any] = {"address": address}
        if not address:  # one of our own, also where another one runs on this machine
            given = {"address": "local", "num_cpus": jobs or cores(), "include_dashboard": False}
        self._environ = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        try:
            self._ray.init(log_to_driver=False, runtime_env={"env_vars": one_core(self._environ)}, **given)
        except (ConnectionError, ValueError, RuntimeError) as error:
            said = str(error).strip().splitlines()[0]
            raise IbolError(f"there is no Ray cluster to use: {said} (--address)") from None
        self.jobs = 1
        self._count()
        self._remote = self._ray.remote(perform_remotely)

    def has_room(self, task: Task) -> bool:
        """Whether there is work for less than all cores, and some ahead."""
        if time.monotonic() - self._counted > _COUNT:
            self._count()
        return len(self._tasks) < (self._most or _AHEAD * self.jobs)

    def submit(self, task: Task) -> None:
        """Give a task to the cluster."""
        reference = self._remote.options(
            num_cpus=1, memory=int(self._memory), max_retries=_RETRIES, name=task.name,
            runtime_env={"env_vars": one_core(self._environ, task.preset)},
        ).remote(asdict(task))  # fmt: skip
        self._tasks[reference] = task

    def wait(self, seconds: float) -> list[Outcome]:
        """What came to its end, after at most so many seconds."""
        if not self._tasks:
            time.sleep(min(seconds, 0.1))
            return []
        references = list(self._tasks)
        ready, _ = self._ray.wait(references, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [self._outcome(reference) for reference in ready]

    def stop(self) -> list[Outcome]:
        """Have all tasks save and end, as Ctrl-C in each of them does; what they became."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=False)
        deadline, outcomes = time.monotonic() + _TIME_TO_SAVE, []
        while self._tasks and time.monotonic() < deadline:
            outcomes += self.wait(0.5)
        self.close()
        return outcomes

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        task = self._tasks.pop(reference)
        try:
            return Outcome(**self._ray.get(reference))
        except self._ray.exceptions.TaskCancelledError:
            return Outcome(task.name, "interrupted")
        except self._ray.exceptions.RayError as error:
            return Outcome(task.name, "lost", f"the cluster lost it: {str(error).strip().splitlines()[0]}")

    def _count(self) -> None:
        """How many cores and how much memory there are now: nodes come and go."""
        self._counted = time.monotonic()
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self.jobs = max(int(sum(node.get("CPU", 0) for node in nodes)), 1)
        largest = max((node.get("memory", 0.0) for node in nodes if node.get("CPU", 0) >= 1), default=0.0)
        self._memory = min(_GUESS, largest)  # more than the largest node has would wait forever


def _check_address(address: str | None) -> None:
    """Refuse an address where nobody answers at once: Ray itself asks for minutes."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or "//" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise IbolError(f"there is no Ray cluster to use at {address}: {error} (--address)") from None


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise IbolError("--engine ray needs an extra: pip install 'ibol[ray]'") from None
    return ray
