"""A process that has imported ibol, computed nothing, and forks for each job: a fresh start without its imports.

Run as a script this is the process itself: a job is a line of JSON on stdin, its outcome a line on stdout.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 20.0  # of processor time, or of doing nothing at all
WALL_SECONDS = 240.0  # for jobs with processes of their own, on a machine that others use, too
ADDRESSES = 12 * 2**30  # bytes that a job may ask for, so that a forged size cannot take the whole machine
FORBIDDEN = ("torture_planted", "antigravity", "this", "turtledemo")
"""Modules that no job has a reason to import; the worker has not imported them either."""


@dataclass(frozen=True)
class Job:
    """A command of ibol, or a piece of Python."""

    cwd: str
    logs: str
    """Where what it prints is kept."""
    argv: tuple[str, ...] = ()
    code: str = ""
    fresh: bool = False
    """In a new interpreter, `python -m ibol`, instead of a fork."""
    signal: int = 0
    """A signal to send, if any, `after` seconds."""
    after: float = 0.0
    whole_group: bool = False
    """Send it to the processes that it started, too."""


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    code: int
    """Its exit code, or minus the signal that ended it."""
    out: str
    err: str
    seconds: float
    """Of processor time."""
    wall: float
    megabytes: float
    """At most, of memory in use."""
    hung: bool = False
    signalled: bool = False
    """Whether it was still there when its signal was due."""
    executed: list[str] = field(default_factory=list)
    """What it imported or called that it must not."""


class WorkerDied(RuntimeError):
    """There is nobody left to do jobs."""


class Worker:
    """The other end: `run` gives a job to the process and waits for its outcome."""

    def __init__(self, cache: Path) -> None:
        flags = "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=1"
        environment = {"XLA_FLAGS": flags, "OMP_NUM_THREADS": "1", **os.environ, "IBOL_CACHE": str(cache)}
        environment |= {"COLUMNS": "400", "PYTHONHASHSEED": "random"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, job: Job) -> Outcome:
        """What comes of a job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise WorkerDied("the worker has died")
        return Outcome(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve() -> None:
    """Import, then do jobs until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import_all()
    for line in sys.stdin:
        job = Job(**json.loads(line))
        answers.write(json.dumps(asdict(_run(job))) + "\n")
        answers.flush()


def import_all() -> None:
    """All that commands import, but nothing that starts a thread."""
    import importlib
    import pkgutil

    import ibol

    for module in pkgutil.walk_packages(ibol.__path__, "ibol."):
        if module.name not in ("ibol.__main__",):
            importlib.import_module(module.name)
    importlib.import_module("matplotlib.backends.backend_agg")
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads after the imports: a fork is not safe"
    assert not set(FORBIDDEN) & set(sys.modules), "a forbidden module is imported in any case"


def _run(job: Job) -> Outcome:
    where = Path(job.logs)
    reading, writing = os.pipe()
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks
        child = os.fork()
    if child == 0:
        os.close(reading)
        _become(job, where, writing)
    os.close(writing)
    try:
        status, usage, hung, signalled = _watch(child, job, began)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    wall = time.monotonic() - began
    with os.fdopen(reading, errors="replace") as pipe:
        executed = pipe.read().split()
    out, err = ((where / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
    return Outcome(
        os.waitstatus_to_exitcode(status), out, err, usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024,
        hung, signalled, executed,
    )  # fmt: skip


def _watch(child: int, job: Job, began: float) -> tuple[int, resource.struct_rusage, bool, bool]:
    """Wait for the end; send the signal when it is due, and SIGKILL when it takes too long."""
    hung = signalled = False
    busy, seen, due = began, 0.0, began + job.after if job.signal else None
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        now = time.monotonic()
        if pid:
            if signalled:
                _await_group(child)
            return status, usage, hung, signalled
        if due is not None and now >= due:
            due, signalled = None, True
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if job.whole_group else os.kill)(child, job.signal)
        used = _seconds(child)
        if used > seen:
            busy, seen = now, used
        allowed = WALL_SECONDS if job.argv[:1] == ["experiment"] else SECONDS  # it has processes of its own
        if used > allowed or now - busy > allowed or now - began > WALL_SECONDS:
            hung = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        time.sleep(0.005 if due is not None else 0.02)


def _is_alive(group: int) -> bool:
    """Whether a process of this group still runs."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state not in "ZX":
                return True
    return False


def _seconds(process: int) -> float:
    """Processor time of a process and of those that it has waited for."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _await_group(leader: int, seconds: float = 15.0) -> None:
    """Let what a killed process has started end by itself."""
    deadline = time.monotonic() + seconds
    while _is_alive(leader) and time.monotonic() < deadline:
        time.sleep(0.05)


def _become(job: Job, where: Path, executed: int) -> None:
    """In the child: run the job and exit."""
    code = 1
    try:
        os.setsid()
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            file = os.open(where / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(job.cwd)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
        if job.fresh:
            os.execv(sys.executable, [sys.executable, "-m", "ibol", *job.argv])
        sys.path[0] = job.cwd  # as `python -m ibol` has it
        _tell_tales(executed)
        code = _do(job)
    except BaseException:
        traceback.print_exc()
    finally:
        for name in FORBIDDEN:
            if name in sys.modules:
                os.write(executed, f"import:{name}\n".encode())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tell_tales(pipe: int) -> None:
    """Report what a hostile run would like to do."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("socket.bind", "os.system"):
            os.write(pipe, f"{event}\n".encode())

    sys.addaudithook(hook)


def _do(job: Job) -> int:
    from ibol import IbolError
    from ibol.cli import main

    if not job.code:
        try:
            main(list(job.argv))
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return 0
    try:
        exec(compile(job.code, "call", "exec"), {"__name__": "call"})
    except IbolError as error:
        print(f"ibol: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    serve()
