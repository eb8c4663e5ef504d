"""Killing a run at any moment and resuming it gives the same bytes as never having stopped."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ibol.runs.directory import RunDirectory

EPOCHS = 240
KILLS = 20
TRAIN = ["sac", "point", "--preset", "smoke", "--seed", "3", "--epochs", str(EPOCHS), "--evaluate-every", "7"]
OPTIONS = ["--checkpoint-minutes", "0", "--quiet"]

# Kills the process in the middle of writing a checkpoint: before, while and after the file gets its name.
DIE_WHILE_SAVING = """
import os, signal, sys
from pathlib import Path
from ibol import cli
from ibol.runs import checkpoint, files
moment, countdown = sys.argv[1], int(sys.argv[2])

def die_at(owner, name, torn):
    original, left = getattr(owner, name), [countdown]
    def wrapped(*args, **kwargs):
        left[0] -= 1
        if left[0] > 0:
            return original(*args, **kwargs)
        if torn:
            Path(args[1]).write_bytes(b"the first bytes of a file")
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, wrapped)

die_at(*{"tensors": (checkpoint, "save_file", True), "rename": (os, "replace", False),
         "directory": (files, "sync", False)}[moment])
cli.main(sys.argv[3:])
"""


# Forks for each training, so that what all of them import is imported once. Answers the child's number, then its end.
FORK = """
import json, os, sys, warnings
sys.path.insert(0, sys.argv[1])
from torture.worker import import_all
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import_all()
for line in sys.stdin:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of forks
        child = os.fork()
    if child == 0:
        try:
            from ibol.cli import main
            main(json.loads(line))
        finally:
            os._exit(0)
    print(child, file=answers, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
"""


class Forks:
    """A process that starts trainings, one at a time."""

    def __init__(self) -> None:
        tools = str(Path(__file__).parents[1] / "tools")
        command = [sys.executable, "-c", FORK, tools]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # a process with threads must not fork
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=one_thread
        )

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def begin(self, args: list[str]) -> int:
        """The number of the process that it starts."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(args) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self, process: int) -> int:
        """How it ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


def ibol_process(*args: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def learned(path: Path) -> tuple[list[dict[str, float]], dict[str, bytes]]:
    """Everything that must not depend on interruptions."""
    run = RunDirectory.open(path)
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in run.metrics()]
    arrays, epoch = run.load_checkpoint()
    assert epoch == EPOCHS
    return rows, {name: value.tobytes() for name, value in arrays.items()}


def epochs_logged(path: Path) -> int:
    file = path / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.slow
def test_killed_runs_end_in_the_same_bytes(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([sys.executable, "-m", "ibol", *TRAIN, *OPTIONS, "--run-dir", str(whole)], check=True)

    rng = random.Random(0)
    start, resume = [*TRAIN, *OPTIONS, "--run-dir", str(killed)], ["resume", str(killed), *OPTIONS]
    kills = 0
    for moment in ("tensors", "rename", "directory"):
        command = resume if killed.exists() else start
        process = ibol_process("-c", DIE_WHILE_SAVING, moment, str(rng.randint(3, 8)), *command)
        process.communicate()
        assert process.returncode == -9
        kills += 1
    with Forks() as forks:
        while kills < KILLS:
            before = epochs_logged(killed)
            process = forks.begin(resume)
            # Mostly once it is training, sometimes while it is still starting.
            deadline = time.monotonic() + 60
            while rng.random() > 0.001 and epochs_logged(killed) == before and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.1))
            assert forks.kill(process) == -signal.SIGKILL
            kills += 1
    reached = [row["epoch"] for row in RunDirectory.open(killed).metrics()][-1]
    assert reached < EPOCHS, "the run ended before it was killed often enough"
    subprocess.run([sys.executable, "-m", "ibol", *resume], check=True)

    rows, arrays = learned(killed)
    expected_rows, expected_arrays = learned(whole)
    assert rows == expected_rows
    assert arrays == expected_arrays
    assert not list(killed.rglob("*.tmp"))
    assert json.loads((killed / "config.json").read_text()) == json.loads((whole / "config.json").read_text())
