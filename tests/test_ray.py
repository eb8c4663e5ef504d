"""The Ray engine on a real cluster: nodes and drivers die, and the bytes are those of the local engine."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import fails
from ibol.experiments import leases, states
from ibol.experiments.cells import Cell
from ibol.experiments.engines.local import LocalEngine
from ibol.experiments.model import parse
from ibol.experiments.schedule import Options, Schedule

EPOCHS = 200
# Ray forks to start its processes; JAX, if another test has begun it in this process, warns of that. They exec at once.
pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FILE = f"""
title = "runs that nodes train"
[a]
shared = {{ method = "sac", env = "point", epochs = {EPOCHS}, evaluate_every = 0 }}
runs = [{{ seed = [0, 1, 2] }}]
"""


def cells() -> list[Cell]:
    return parse(FILE, "own.toml", "smoke", 3).needed


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without work and two nodes of one core."""
    pytest.importorskip("ray", reason="Ray is missing: pip install 'ibol[ray]'")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # others may use this machine, too
    from ray.cluster_utils import Cluster

    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(2):
            one.add_node(num_cpus=1)
        yield one
    finally:
        one.shutdown()


def begin(folder: Path, address: str) -> "subprocess.Popen[str]":
    (folder / "own.toml").write_text(FILE)
    where = ["--dir", str(folder / "ray"), "--engine", "ray", "--address", address, "--checkpoint-minutes", "0"]
    command = ["experiment", str(folder / "own.toml"), "--preset", "smoke", "--seeds", "3", *where]
    return subprocess.Popen(
        [sys.executable, "-m", "ibol", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(ready: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def logged(place: Path) -> int:
    """Epochs of all cells together."""
    return sum(states.logged_epochs(place / cell.place) for cell in cells())


def learned(place: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    last = sorted((place / "checkpoints").glob("*.safetensors"))[-1]
    return {
        "config": json.loads((place / "config.json").read_text()),
        "rows": [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows],
        "last": (last.name, last.read_bytes()),
    }


@pytest.mark.slow
def test_ctrl_c_a_dead_node_and_a_dead_driver_leave_the_bytes_of_the_local_engine(cluster: Any, tmp_path: Path) -> None:
    """One experiment on one cluster, whose command is called three times."""
    place, whole = tmp_path / "ray", tmp_path / "local"
    driver = begin(tmp_path, cluster.address)
    wait_for(lambda: logged(place) > 5, driver)
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=90)
    assert driver.returncode == 130
    assert "stopped and saved" in said
    for cell in cells():
        if states.logged_epochs(place / cell.place):
            assert states.saved_epochs(cell, place) >= states.logged_epochs(place / cell.place) - 1

    before = logged(place)
    driver = begin(tmp_path, cluster.address)
    wait_for(lambda: logged(place) > before + 20, driver)
    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
    cluster.add_node(num_cpus=1)

    before = logged(place)
    wait_for(lambda: logged(place) > before + 20, driver)
    assert logged(place) < 3 * EPOCHS, "there is work left when the driver dies"
    driver.kill()
    driver.communicate()
    deadline = time.monotonic() + 60
    while any(leases.holder(place, cell.name) for cell in cells()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not any(leases.holder(place, cell.name) for cell in cells()), "a dead driver leaves nobody"

    driver = begin(tmp_path, cluster.address)
    said, errors = driver.communicate(timeout=900)
    assert driver.returncode == 0, errors
    assert "shows 3 of 3 runs" in said

    options = Options(whole, checkpoint_minutes=0.0)
    board = Schedule(cells(), {}, options, lambda board: None).run(LocalEngine(1))
    assert len(board.done) == 3
    for cell in cells():
        assert learned(place / cell.place) == learned(whole / cell.place)


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "own.toml").write_text(FILE)
    where = ("--dir", tmp_path / "ray", "--preset", "smoke")
    said = fails(capsys, "experiment", tmp_path / "own.toml", "--engine", "ray", *where)
    assert "pip install 'ibol[ray]'" in said


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:x", "127.0.0.1:99999999"])
def test_a_cluster_that_is_not_there_is_one_sentence(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="Ray is missing: pip install 'ibol[ray]'")
    (tmp_path / "own.toml").write_text(FILE)
    where = ("--dir", tmp_path / "ray", "--preset", "smoke", "--address", address)
    said = fails(capsys, "experiment", tmp_path / "own.toml", "--engine", "ray", *where)
    assert f"there is no Ray cluster to use at {address}" in said
