"""Processes of this machine, one core each, as many as there are cores and memory for."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from ibol import memory
from ibol.experiments.engines.work import Outcome, Task, one_core, same_process

_GUESS = 1.2e9  # bytes that a process needs whose kind was never seen
_TIME_TO_SAVE = 25.0  # seconds


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    said: IO[bytes]
    """What it printed."""
    first: Task
    """What it was started for."""
    task: Task | None = None
    answer: bytes = b""
    began: float = field(default_factory=time.monotonic)


class LocalEngine:
    """Starts processes when they are needed and keeps them for the next tasks."""

    def __init__(self, jobs: int | None = None) -> None:
        self.jobs = jobs or cores()
        self._command = [sys.executable, "-m", "ibol.experiments.engines.worker"]
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._peaks: dict[tuple[str, str, str], int] = {}

    def has_room(self, task: Task) -> bool:
        """Whether a task can begin now; one can always."""
        busy = [worker for worker in self._workers if worker.task is not None]
        if not busy:
            return True
        if len(busy) >= self.jobs:
            return False
        growing = sum(max(self._needed(worker.task) - _resident(worker.process.pid), 0) for worker in busy)
        return memory.available() - growing >= self._needed(task)

    def submit(self, task: Task) -> None:
        """Begin a task."""
        idle = [worker for worker in self._workers if worker.task is None]
        worker = next((one for one in idle if same_process(one.first, task)), None) or self._start(task)
        worker.task, worker.began = task, time.monotonic()
        assert worker.process.stdin is not None
        with contextlib.suppress(OSError):  # it has died: `wait` will say so
            worker.process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            worker.process.stdin.flush()

    def wait(self, seconds: float) -> list[Outcome]:
        """What came to its end, after at most so many seconds."""
        outcomes = []
        for key, _ in self._selector.select(seconds):
            worker: _Worker = key.data
            assert worker.process.stdout is not None
            piece = os.read(worker.process.stdout.fileno(), 2**16)
            worker.answer += piece
            if not piece:
                outcomes += self._bury(worker)
            elif worker.answer.endswith(b"\n"):
                outcome = Outcome(**json.loads(worker.answer))
                if worker.task is not None:
                    kind = _kind(worker.task)
                    self._peaks[kind] = max(self._peaks.get(kind, 0), outcome.peak)
                worker.task, worker.answer = None, b""
                outcomes.append(outcome)
        return outcomes

    def stop(self) -> list[Outcome]:
        """Have all tasks save and end; what they became."""
        for worker in self._workers:
            if worker.task is not None:
                worker.process.send_signal(signal.SIGTERM)
        deadline, outcomes = time.monotonic() + _TIME_TO_SAVE, []
        while any(worker.task is not None for worker in self._workers) and time.monotonic() < deadline:
            outcomes += self.wait(0.2)
        self.close()
        return outcomes

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
            if worker.task is None:
                assert worker.process.stdin is not None
                worker.process.stdin.close()  # it ends by itself
            else:
                worker.process.kill()
        for worker in self._workers:
            try:
                worker.process.wait(5)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            _release(worker)
        self._workers = []

    def _start(self, task: Task) -> _Worker:
        said = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the worker)
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            env=one_core(os.environ, task.preset),
            start_new_session=True,  # Ctrl-C is for the one who gives the work
        )  # fmt: skip
        worker = _Worker(process, said, task)
        self._workers.append(worker)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        return worker

    def _bury(self, worker: _Worker) -> list[Outcome]:
        """A process that is gone, and the outcome of what it did last."""
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        self._workers.remove(worker)
        code = worker.process.wait()
        how = f"signal {-code}" if code < 0 else f"code {code}"
        why = " (was there not enough memory?)" if code == -signal.SIGKILL else ""
        worker.said.seek(0)
        lines = worker.said.read()[-4000:].decode(errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        _release(worker)
        if worker.task is None:
            return []
        said = f"its process ended with {how}{why}{last}"
        kind: Any = "interrupted" if code in (-signal.SIGTERM, -signal.SIGINT) else "lost"
        return [Outcome(worker.task.name, kind, said, time.monotonic() - worker.began)]

    def _needed(self, task: Task | None) -> float:
        if task is None:
            return 0.0
        seen = max(self._peaks.values(), default=0)
        return 1.2 * self._peaks.get(_kind(task), seen) or _GUESS


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kind(task: Task) -> tuple[str, str, str]:
    return task.method, task.env, task.preset


def _resident(pid: int) -> int:
    """Bytes that a process has in memory now."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _release(worker: _Worker) -> None:
    for stream in (worker.process.stdin, worker.process.stdout, worker.said):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
