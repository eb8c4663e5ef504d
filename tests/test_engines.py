"""Cells are trained once, by whoever is there: the schedule, leases, local processes, interruptions and failures."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ibol import memory
from ibol.experiments import leases, states
from ibol.experiments.cells import Cell
from ibol.experiments.engines.local import LocalEngine
from ibol.experiments.engines.work import Outcome, Task, one_core, perform, task_from, task_of
from ibol.experiments.model import parse
from ibol.experiments.schedule import Board, Options, Schedule

RUNS = 'shared = { method = "sac", env = "point", epochs = EPOCHS, evaluate_every = 0 }\nruns = [{ seed = [0, 1] }]\n'


def cells_of(text: str) -> list[Cell]:
    return parse(text, "own.toml", "smoke", 2).needed


def sac_cells(epochs: int) -> list[Cell]:
    return cells_of("[a]\n" + RUNS.replace("EPOCHS", str(epochs)))


CHAIN = """
[a]
runs = [
    { method = "downstream", env = "point_goal", skills = { epochs = 2, seed = 0 } },
    { method = "valor", env = "point", seed = 0 },
]
"""


class FakeEngine:
    """Does what it is told instead of training."""

    def __init__(self, answer: Callable[[Task], Outcome], jobs: int = 1) -> None:
        self.jobs, self.answer = jobs, answer
        self.begun: list[str] = []
        self.open: list[Task] = []
        self.closed = False

    def has_room(self, task: Task) -> bool:
        return len(self.open) < self.jobs

    def submit(self, task: Task) -> None:
        self.begun.append(task.method)
        self.open.append(task)

    def wait(self, seconds: float) -> list[Outcome]:
        ended, self.open = self.open, []
        return [self.answer(task) for task in ended]

    def stop(self) -> list[Outcome]:
        return [Outcome(task.name, "interrupted") for task in self.open]

    def close(self) -> None:
        self.closed = True


def done(task: Task) -> Outcome:
    return Outcome(task.name, "done")


def run_schedule(cells: Sequence[Cell], engine: Any, directory: Path) -> Board:
    return Schedule(cells, {}, Options(directory), lambda board: None).run(engine)


def test_what_others_need_comes_first_and_the_longest_chain_before_the_rest(tmp_path: Path) -> None:
    engine = FakeEngine(done)
    board = run_schedule(cells_of(CHAIN), engine, tmp_path)
    assert engine.begun.index("ibol") < engine.begun.index("downstream")
    assert engine.begun[0] == "ibol", "two wait for each other, one for nobody"
    assert len(board.done) == 3
    assert engine.closed


def test_a_failure_costs_only_what_needs_it(tmp_path: Path) -> None:
    def fail(task: Task) -> Outcome:
        return Outcome(task.name, "failed", "no luck") if task.method == "ibol" else done(task)

    board = run_schedule(cells_of(CHAIN), FakeEngine(fail, jobs=2), tmp_path)
    assert [name.split("-")[0] for name in board.done] == ["valor"]
    said = {name.split("-")[0]: said for name, said in board.failed.items()}
    assert said["ibol"] == "no luck"
    assert said["downstream"].startswith("it needs ibol-point-")


def test_what_was_lost_is_tried_three_times(tmp_path: Path) -> None:
    engine = FakeEngine(lambda task: Outcome(task.name, "lost", "its process ended with signal 9"))
    board = run_schedule(sac_cells(3)[:1], engine, tmp_path)
    assert len(engine.begun) == 3
    assert list(board.failed.values()) == ["its process ended with signal 9"]
    (cell,) = board.cells.values()
    assert states.state_of(cell, tmp_path) == states.State("failed", 0, "its process ended with signal 9")


def test_what_others_train_is_waited_for_and_taken_over_when_they_leave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibol.experiments.schedule._LOOK", 0.0)
    (cell,) = sac_cells(3)[:1]
    answers = iter(["busy", "done"])
    looks: list[str] = []

    def holder(directory: Path, name: str) -> str:
        looks.append(name)
        return "elsewhere (process 1)" if len(looks) < 4 else ""

    monkeypatch.setattr(leases, "holder", holder)
    engine = FakeEngine(lambda task: Outcome(task.name, next(answers), "somebody has it"))  # type: ignore[arg-type]
    board = run_schedule([cell], engine, tmp_path)
    assert board.done == {cell.name}
    assert len(engine.begun) == 2
    assert len(looks) >= 4


def test_a_task_survives_json_and_says_all() -> None:
    for cell in cells_of(CHAIN):
        task = task_of(cell, Path("x"), trusted=("a:b",), checkpoint_minutes=1.0, measure=7)
        assert task_from(json.loads(json.dumps(vars(task)))) == task
    assert task.env_settings["num_threads"] == 1


def test_one_core_keeps_the_flags_of_the_user() -> None:
    variables = one_core({"XLA_FLAGS": "--a=1", "PATH": "/bin"})
    assert variables["XLA_FLAGS"] == "--a=1 --xla_cpu_multi_thread_eigen=false"
    assert one_core(variables) == variables
    assert (variables["NPROC"], variables["PATH"]) == ("1", "/bin")
    quick = one_core(variables, "smoke")
    assert quick["XLA_FLAGS"].startswith(f"{variables['XLA_FLAGS']} --xla_backend_optimization_level=0")
    assert one_core(quick, "smoke") == quick


# Leases.


def test_a_lease_is_exclusive_and_ends(tmp_path: Path) -> None:
    with leases.held(tmp_path, "cell"):
        assert f"process {os.getpid()}" in leases.holder(tmp_path, "cell")
        with pytest.raises(leases.Busy, match=f"process {os.getpid()}"), leases.held(tmp_path, "cell"):
            pass
    assert leases.holder(tmp_path, "cell") == ""
    assert [file.stat().st_size for file in (tmp_path / "leases").iterdir()] == [0], "an empty file is left"
    with leases.held(tmp_path, "cell"):
        assert len(list((tmp_path / "leases").iterdir())) == 1, "a newer lease takes the older ones away"


def lease_of(host: str, pid: int, started: str, place: Path) -> Path:
    file = place / "leases" / "cell.1.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"host": host, "pid": pid, "started": started}))
    return file


def test_a_dead_process_of_this_machine_loses_its_lease_at_once(tmp_path: Path) -> None:
    with leases.held(tmp_path, "mine"):
        own = json.loads((tmp_path / "leases" / "mine.1.json").read_text())
    lease_of(own["host"], own["pid"], "another time", tmp_path)  # the number is in use again
    assert leases.holder(tmp_path, "cell") == ""
    with leases.held(tmp_path, "cell"):
        assert leases.holder(tmp_path, "cell")


def test_another_machine_loses_its_lease_when_it_is_silent(tmp_path: Path) -> None:
    file = lease_of("far away", 1, "1", tmp_path)
    with pytest.raises(leases.Busy, match="far away"), leases.held(tmp_path, "cell"):
        pass
    long_ago = time.time() - leases.EXPIRES - 5
    os.utime(file, (long_ago, long_ago))
    with leases.held(tmp_path, "cell"):
        assert f"process {os.getpid()}" in leases.holder(tmp_path, "cell")
        assert not file.exists(), "the silent machine finds out that it lost its lease"


def test_a_damaged_lease_is_nobodys(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"\xff", b"[]", b"{")):
        place = tmp_path / str(number)
        place.mkdir()
        lease_of("far away", 1, "1", place).write_bytes(content)
        assert leases.holder(place, "cell") == ""
        with leases.held(place, "cell"):
            assert leases.holder(place, "cell")


def test_of_many_who_want_a_dead_lease_one_gets_it(tmp_path: Path) -> None:
    def want() -> None:
        together.wait()
        try:
            with leases.held(place, "cell"):
                got.append(1)
                ended.wait()
        except leases.Busy:
            ended.wait()

    for number in range(50):
        place = tmp_path / str(number)
        place.mkdir()
        os.utime(lease_of("far away", 1, "1", place), (0, 0))
        together, ended, got = threading.Barrier(8), threading.Barrier(8), []
        threads = [threading.Thread(target=want) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1


def test_one_at_a_time_while_many_come_and_go(tmp_path: Path) -> None:
    """Each takes the lease again and again, and nobody ever finds another one inside."""
    inside, most, taken = [], [], []

    def want(number: int) -> None:
        for _ in range(100):
            with contextlib.suppress(leases.Busy), leases.held(tmp_path, "cell"):
                inside.append(number)
                most.append(len(inside))
                taken.append(number)
                inside.remove(number)

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) > 8
    assert set(most) == {1}


# Processes of this machine.


def test_no_more_processes_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, (one, other) = LocalEngine(2), sac_cells(3)
    tasks = [task_of(cell, Path("x"), trusted=(), checkpoint_minutes=5, measure=0) for cell in (one, other)]
    started: list[Any] = []
    monkeypatch.setattr(engine, "_start", lambda task: started.append(FakeWorker()) or started[-1])
    monkeypatch.setattr("ibol.experiments.engines.local._resident", lambda pid: 0)
    monkeypatch.setattr(memory, "available", lambda: 0)
    assert engine.has_room(tasks[0]), "one always has"
    engine.submit(tasks[0])
    engine._workers = started
    assert not engine.has_room(tasks[1])
    monkeypatch.setattr(memory, "available", lambda: 4 * 10**9)
    assert engine.has_room(tasks[1])
    engine._peaks[("sac", "point", "smoke")] = 3 * 10**9
    assert not engine.has_room(tasks[1]), "what such a run has used before counts"


class FakeWorker:
    def __init__(self) -> None:
        self.task: Task | None = None
        self.began = 0.0
        self.process = self
        self.pid = 0
        self.stdin = self

    def write(self, line: bytes) -> None:
        json.loads(line)

    def flush(self) -> None:
        return


def learned(place: Path) -> dict[str, bytes]:
    """All that must not depend on who trained it, and when."""
    rows = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    rows = [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]
    last = sorted((place / "checkpoints").glob("*.safetensors"))[-1]
    return {
        "config": (place / "config.json").read_bytes(),
        "rows": json.dumps(rows).encode(),
        "last": last.read_bytes(),
    }


@pytest.mark.slow
def test_a_failed_run_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    (cell, _), wrong = sac_cells(3), sac_cells(3)[0]
    wrong = Cell(**{**vars_of(wrong), "settings": {**wrong.settings, "learning_rate": 1e30}})
    board = run_schedule([wrong, cell], LocalEngine(1), tmp_path)
    assert board.done == {cell.name}
    assert "not finite" in board.failed[wrong.name]
    assert "not finite" in states.state_of(wrong, tmp_path).said
    assert states.state_of(cell, tmp_path) == states.State("done", 3)
    again = run_schedule([wrong, cell], FakeEngine(done), tmp_path)
    assert again.done == {cell.name, wrong.name}, "what failed is tried again, what is done is not"
    other = perform(task_of(cell, tmp_path, trusted=(), checkpoint_minutes=5, measure=0))
    assert (other.kind, other.said) == ("done", "")
    assert other.peak > 10**7


def vars_of(cell: Cell) -> dict[str, Any]:
    names = (
        "method",
        "env",
        "preset",
        "seed",
        "settings",
        "env_settings",
        "sources",
        "members",
        "overrides",
        "variant",
    )
    return {name: getattr(cell, name) for name in names}


def begin(file: Path, place: Path) -> "subprocess.Popen[str]":
    command = ["experiment", str(file), "--preset", "smoke", "--seeds", "2", "--jobs", "2", "--dir", str(place)]
    options = ["--checkpoint-minutes", "0"]
    return subprocess.Popen(
        [sys.executable, "-m", "ibol", *command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(ready: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_saves_all_a_dead_driver_leaves_nobody_and_the_rest_ends_in_the_same_bytes(tmp_path: Path) -> None:
    file, place, whole = tmp_path / "own.toml", tmp_path / "killed", tmp_path / "whole"
    file.write_text('title = "t"\n[a]\n' + RUNS.replace("EPOCHS", "150"))
    cells = sac_cells(150)
    places = [place / cell.place for cell in cells]

    process = begin(file, place)
    wait_for(lambda: any(states.logged_epochs(one) > 5 for one in places))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped and saved" in said
    assert "Traceback" not in said
    for cell, one in zip(cells, places, strict=True):
        if (one / "config.json").exists():
            assert states.saved_epochs(cell, place) >= states.logged_epochs(one) - 1
        assert leases.holder(place, cell.name) == ""

    before = max(states.logged_epochs(one) for one in places)
    process = begin(file, place)
    wait_for(lambda: max(states.logged_epochs(one) for one in places) > before + 3)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(leases.holder(place, cell.name) for cell in cells))

    process = begin(file, place)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "shows 2 of 2 runs" in said
    run_schedule(cells, LocalEngine(1), whole)
    for cell in cells:
        ours, theirs = learned(place / cell.place), learned(whole / cell.place)
        assert ours["rows"] == theirs["rows"]
        assert ours["last"] == theirs["last"]
