"""Where a training is written down besides metrics.jsonl: nothing of it changes the run, and nothing stops it."""

import csv
import json
import sqlite3
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from conftest import call, copy_run, fails
from ibol.errors import IbolError
from ibol.runs.directory import RunDirectory
from ibol.training import loggers
from ibol.training.launch import resume

TINY = ("discover", "point", "--preset", "smoke", "--quiet", "--evaluation-trajectories", "8")

OTHERS_WARN = pytest.mark.filterwarnings("ignore", "error:wandb failed", "error:mlflow failed")


class Recorder:
    """A logger that keeps what it is given; `broken` calls of it fail."""

    def __init__(self, run: RunDirectory, done: int, broken: tuple[str, ...] = ()) -> None:
        self.run, self.first, self.broken = run, done, broken
        self.calls: list[Any] = []
        self._call("open", done)

    def _call(self, name: str, *given: Any) -> None:
        self.calls.append((name, *given))
        if name in self.broken:
            raise ConnectionError("the service\nis gone")

    def log(self, epoch: int, row: dict[str, float]) -> None:
        self._call("log", epoch, row)

    def picture(self, epoch: int, file: Path) -> None:
        self._call("picture", epoch, file.name)

    def close(self) -> None:
        self._call("close")


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """The loggers that are opened in the place of Weights & Biases."""
    made: list[Recorder] = []

    def open_one(run: RunDirectory, done: int) -> Recorder:
        made.append(Recorder(run, done))
        return made[-1]

    monkeypatch.setitem(loggers._KINDS, "wandb", open_one)
    monkeypatch.setattr(loggers, "check", lambda names: None)
    return made


def numbers(run: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def test_loggers_get_all_and_change_nothing(recorders: list[Recorder], tmp_path: Path) -> None:
    call(*TINY, "--epochs", "2", "--run-dir", tmp_path / "plain")
    call(*TINY, "--epochs", "2", "--run-dir", tmp_path / "logged", "--log", "wandb")
    (recorder,) = recorders
    assert [entry[0] for entry in recorder.calls] == ["open", "log", "log", "picture", "close"]
    rows = [entry[2] for entry in recorder.calls if entry[0] == "log"]
    assert rows == [json.loads(line) for line in (tmp_path / "logged" / "metrics.jsonl").read_text().splitlines()]
    assert recorder.calls[3] == ("picture", 2, "epoch-000002.png")
    assert numbers(tmp_path / "plain") == numbers(tmp_path / "logged")
    ends = [tmp_path / run / "checkpoints" / "epoch-0000000002.safetensors" for run in ("plain", "logged")]
    assert ends[0].read_bytes() == ends[1].read_bytes()


def test_a_resumed_run_logs_on_unless_told_otherwise(recorders: list[Recorder], tmp_path: Path) -> None:
    run = tmp_path / "run"
    call(*TINY, "--epochs", "1", "--evaluate-every", "0", "--run-dir", run, "--log", "wandb")
    call("resume", run, "--epochs", "2", "--quiet")
    assert recorders[1].first == 1
    assert [entry[1] for entry in recorders[1].calls if entry[0] == "log"] == [2]
    call("resume", run, "--epochs", "3", "--quiet", "--log", "none")
    assert len(recorders) == 2


def test_a_run_of_before_goes_on_with_tensorboard() -> None:
    assert loggers.names_of({"tensorboard": True}) == ["tensorboard"]
    assert loggers.names_of({"tensorboard": False}) == loggers.names_of({}) == []
    assert loggers.names_of({"log": ["mlflow", "os.abort", 3]}) == ["mlflow"]


@pytest.mark.parametrize("broken", ["open", "log", "picture", "close"])
def test_a_logger_that_fails_does_not_stop_the_training(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loggers._KINDS, "mlflow", lambda run, done: Recorder(run, done, (broken,)))
    monkeypatch.setattr(loggers, "check", lambda names: None)
    with pytest.warns(RuntimeWarning, match="mlflow failed, so the training goes on without it: ConnectionError: the"):
        call(*TINY, "--epochs", "2", "--run-dir", tmp_path / "run", "--log", "mlflow")
    assert len(numbers(tmp_path / "run")) == 2


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_one_sentence_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, loggers._PACKAGES[name], None)  # type: ignore[arg-type]
    said = fails(capsys, *TINY, "--run-dir", tmp_path / "run", "--log", name)
    assert f"pip install 'ibol[{name}]'" in said
    assert not (tmp_path / "run").exists()


def test_tensorboard_has_numbers_settings_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="needs the extra tensorboard")
    run = tmp_path / "run"
    call(*TINY, "--epochs", "2", "--run-dir", run, "--log", "tensorboard")
    call("resume", run, "--epochs", "3", "--quiet")
    (first,), (second,) = ((run / "tensorboard").glob(f"events*.from{epochs}") for epochs in (0, 2))
    assert b"objective" in first.read_bytes()
    assert b"skills" in first.read_bytes()
    assert b"evaluation_trajectories" in first.read_bytes()
    assert b"objective" in second.read_bytes()


@OTHERS_WARN
def test_wandb_keeps_an_offline_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("wandb") is None:
        pytest.skip("wandb is not installed: pip install 'ibol[wandb]'")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = tmp_path / "run"
    call(*TINY, "--epochs", "2", "--run-dir", run, "--log", "wandb")
    call("resume", run, "--epochs", "3", "--quiet")
    name = json.loads((run / "loggers.json").read_text())["wandb"]
    records = sorted((run / "wandb").glob(f"offline-run-*-{name}"))
    assert len(records) == 2, "a directory for each start, with the same id"
    assert b"objective" in next(records[0].glob("*.wandb")).read_bytes()
    assert list(records[0].rglob("*.png"))
    assert not [place for place in (run / "wandb").rglob("*") if place.is_symlink()]
    (run / "wandb" / "settings").write_text("[default]\nbase_url = http://elsewhere")
    with pytest.warns(RuntimeWarning, match="settings is not from here"):
        call("resume", run, "--epochs", "4", "--quiet")


@OTHERS_WARN
def test_mlflow_keeps_a_record_in_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("mlflow") is None:
        pytest.skip("mlflow is not installed: pip install 'ibol[mlflow]'")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "run"
    call(*TINY, "--epochs", "2", "--run-dir", run, "--log", "mlflow")
    call("resume", run, "--epochs", "3", "--quiet")
    name = json.loads((run / "loggers.json").read_text())["mlflow"]
    with sqlite3.connect(run / "mlflow" / "mlflow.db") as database:
        steps = database.execute("SELECT step FROM metrics WHERE key = 'objective' AND run_uuid = ?", (name,))
        assert sorted(step for (step,) in steps) == [1, 2, 3]
        params = dict(database.execute("SELECT key, value FROM params WHERE run_uuid = ?", (name,)).fetchall())
        (count,) = database.execute("SELECT count(*) FROM runs").fetchone()
    assert (params["method"], params["latent_dim"], count) == ("ibol", "2", 1)
    assert sorted(place.name for place in (run / "mlflow").rglob("*.png")) == ["epoch-000002.png", "epoch-000003.png"]
    moved = tmp_path / "moved"
    run.rename(moved)
    resume(moved, epochs=4, quiet=True)
    assert not run.exists(), "pictures of a run that was moved are not written to where it was"


def test_identities_of_strangers_are_not_believed(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, {})
    (tmp_path / "loggers.json").write_text('{"wandb": "../../x", "mlflow": "abcdef0123"}')
    assert loggers._identity(run, "wandb", lambda: "0123abcd") == "0123abcd"
    assert loggers._identity(run, "mlflow", lambda: "0123abcd") == "abcdef0123"
    assert loggers._identity(run, "wandb", lambda: "never") == "0123abcd"
    (tmp_path / "loggers.json").unlink()
    (tmp_path / "loggers.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IbolError, match="symbolic link"):
        loggers._identity(run, "wandb", lambda: "0123abcd")


def test_metrics_become_csv(point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("export", point_skills, "--format", "csv", "--output", tmp_path / "out")
    with (tmp_path / "out" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    logged = [json.loads(line) for line in (point_skills / "metrics.jsonl").read_text().splitlines()]
    assert list(rows[0]) == list(dict.fromkeys(name for row in logged for name in row)), "the union, in their order"
    assert rows[0]["evaluation/spread"] == "", "an epoch without an evaluation"
    for row, written in zip(logged, rows, strict=True):
        assert {name: float(value) for name, value in written.items() if value} == row
    assert "is not empty" in fails(capsys, "export", point_skills, "--format", "csv", "--output", tmp_path / "out")
    (tmp_path / "out" / "other.txt").write_text("stays")
    call("export", point_skills, "--format", "csv", "--output", tmp_path / "out", "--overwrite")
    assert (tmp_path / "out" / "other.txt").read_text() == "stays"
    (tmp_path / "out" / "metrics.csv").unlink()
    empty = copy_run(point_skills, tmp_path / "empty")
    (empty / "metrics.jsonl").unlink()
    assert "has no metrics" in fails(capsys, "export", empty, "--format", "csv", "--output", tmp_path / "none")
    assert not (tmp_path / "none").exists()
