"""Run directories and checkpoints: what is written is read back, and what is broken is told apart."""

import json
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from ibol.errors import IbolError
from ibol.runs import checkpoint
from ibol.runs.checkpoint import BadCheckpoint
from ibol.runs.directory import RunDirectory
from ibol.training import loop
from ibol.training.loop import RunSettings, train
from ibol.training.trainer import Epoch, Trainer, TrainingConfig

CONFIG = {
    "command": "sac", "method": "sac", "env": "point", "preset": "smoke", "seed": 0, "settings": {}, "env_settings": {},
}  # fmt: skip


class Counter(Trainer):
    """A trainer that adds up its epoch numbers."""

    headline = ("total",)

    def __init__(self, epochs: int = 5, break_at: int | None = None, break_state: bool = False) -> None:
        super().__init__(TrainingConfig(epochs=epochs), seed=0)
        self.break_at, self.break_state = break_at, break_state
        self.total = np.zeros(3)

    def run_epoch(self, epoch: int) -> Epoch:
        self.total = self.total + epoch
        broken = epoch == self.break_at
        if broken and self.break_state:
            self.total[1] = np.inf
        return Epoch(1, {"total": float("nan") if broken and not self.break_state else self.total[0]})

    def agent(self) -> None:
        return None

    def learned(self) -> dict[str, np.ndarray]:
        return {"learner/total": self.total}

    def restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        self.total = arrays["learner/total"]

    def prepare(self, directory: Path) -> None:
        assert (directory / "config.json").exists()


def new_run(path: Path, **options: bool) -> RunDirectory:
    return RunDirectory.create(path, CONFIG, **options)


QUIET = RunSettings(quiet=True, checkpoint_minutes=0)


def test_checkpoint_round_trip(tmp_path: Path) -> None:
    tree = {"a": (jnp.arange(6.0).reshape(2, 3).T, np.array(7)), "b": np.zeros((0, 4), np.float32)}
    arrays = checkpoint.flatten(tree, "learner/")
    assert set(arrays) == {"learner/a/0", "learner/a/1", "learner/b"}
    checkpoint.save(tmp_path / "c.safetensors", arrays, {"epoch": 3})
    loaded, meta = checkpoint.load(tmp_path / "c.safetensors")
    assert meta == {"epoch": 3}
    back = checkpoint.unflatten(tree, loaded, "learner/")
    np.testing.assert_array_equal(back["a"][0], tree["a"][0])
    assert back["a"][1] == 7
    assert back["b"].shape == (0, 4)
    only, _ = checkpoint.load(tmp_path / "c.safetensors", lambda name: name.endswith("1"))
    assert set(only) == {"learner/a/1"}


def test_any_altered_or_missing_byte_is_detected(tmp_path: Path) -> None:
    good = tmp_path / "good.safetensors"
    checkpoint.save(good, {"weight": np.arange(50.0), "bias": np.ones(3)}, {"epoch": 1})
    content = good.read_bytes()
    bad = tmp_path / "bad.safetensors"
    rng = np.random.default_rng(0)
    for position in rng.integers(len(content), size=60):
        flipped = bytearray(content)
        flipped[position] ^= 0xFF
        bad.write_bytes(flipped)
        with pytest.raises(BadCheckpoint):
            checkpoint.load(bad)
    for length in (0, 7, 100, len(content) - 1):
        bad.write_bytes(content[:length])
        with pytest.raises(BadCheckpoint):
            checkpoint.load(bad)


def test_other_files_are_no_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": np.ones(3)}, path)
    with pytest.raises(BadCheckpoint, match="not a checkpoint of ibol"):
        checkpoint.load(path)
    with pytest.raises(BadCheckpoint, match="cannot be read"):
        checkpoint.load(tmp_path / "absent.safetensors")


def test_unflatten_refuses_what_does_not_fit() -> None:
    template = {"weight": np.zeros((2, 2))}
    with pytest.raises(BadCheckpoint, match="lacks weight"):
        checkpoint.unflatten(template, {})
    with pytest.raises(BadCheckpoint, match=r"float64\[3\].*need float64\[2, 2\]"):
        checkpoint.unflatten(template, {"weight": np.zeros(3)})


def test_a_run_is_never_overwritten_unasked(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(), run, QUIET)
    with pytest.raises(IbolError, match=r"already holds a run.*ibol resume.*--overwrite"):
        new_run(tmp_path / "run")
    assert len(list(run.metrics())) == 5
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "linearizer.safetensors").write_text("of the run before")
    again = new_run(tmp_path / "run", overwrite=True)
    assert list(again.metrics()) == []
    assert again.checkpoints() == []
    assert not (tmp_path / "run" / "linearizer.safetensors").exists()
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(IbolError, match="not empty and is not a run"):
        new_run(tmp_path, overwrite=True)
    with pytest.raises(IbolError, match="is a file"):
        new_run(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_what_a_process_killed_at_once_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    assert train(Counter(), new_run(tmp_path / "run"), QUIET)
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "checkpoints" / "precious.safetensors").touch()
    with pytest.raises(IbolError, match="is not a run"):
        new_run(tmp_path / "other", overwrite=True)


def test_an_unwritable_place_fails_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(IbolError, match=r"cannot write to .*Permission denied; choose another --run-dir"):
        new_run(tmp_path / "run")


def test_a_nearly_full_disk_fails_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "run")
    monkeypatch.setattr(loop.shutil, "disk_usage", lambda path: _Usage(free=10))
    with pytest.raises(IbolError, match="may need 0 MB, but only 0 MB are free"):
        train(Counter(), run, QUIET)
    assert list(run.metrics()) == []


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_a_full_disk_keeps_the_earlier_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = new_run(tmp_path / "run")
    run.save_checkpoint(1, {"learner/total": np.ones(3)}, keep=2)

    def fail(arrays: object, path: Path, metadata: object) -> None:
        Path(path).write_bytes(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(IbolError, match="No space left on device; earlier checkpoints are untouched"):
        run.save_checkpoint(2, {"learner/total": np.ones(3)}, keep=2)
    assert run.load_checkpoint()[1] == 1
    assert [p.name for p in (tmp_path / "run" / "checkpoints").iterdir()] == ["epoch-0000000001.safetensors"]


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(epochs=6), run, QUIET)
    assert [p.name for p in run.checkpoints()] == ["epoch-0000000005.safetensors", "epoch-0000000006.safetensors"]


def test_a_broken_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(epochs=4), run, QUIET)
    newest = run.checkpoints()[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    with pytest.warns(RuntimeWarning, match="cannot be read.*falling back"):
        arrays, epoch = run.load_checkpoint()
    assert epoch == 3
    assert arrays["learner/total"][0] == 0 + 1 + 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(Counter(epochs=4), run, QUIET, resume=True)
    assert [row["total"] for row in run.metrics()] == [0, 1, 3, 6]


def test_all_checkpoints_broken_is_one_sentence(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with pytest.raises(IbolError, match="no checkpoint yet"):
        run.load_checkpoint()
    run.save_checkpoint(1, {"learner/total": np.ones(3)}, keep=2)
    run.checkpoints()[0].write_bytes(b"")
    with pytest.warns(RuntimeWarning), pytest.raises(IbolError, match="none of the 1 checkpoints"):
        run.load_checkpoint()


@pytest.mark.parametrize("in_state", [False, True])
def test_a_number_that_is_not_finite_stops_the_run(tmp_path: Path, in_state: bool) -> None:
    run = new_run(tmp_path / "run")
    name = "learner/total" if in_state else "total"
    with pytest.raises(IbolError, match=rf"{name} is not finite after epoch 4.*last good checkpoint is .*0000000003"):
        train(Counter(break_at=3, break_state=in_state), run, QUIET)
    assert run.load_checkpoint()[1] == 3
    assert np.isfinite(run.load_checkpoint()[0]["learner/total"]).all()


def test_metrics_beyond_the_checkpoint_and_torn_lines_are_dropped(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(epochs=2), run, QUIET)
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 3, "total": 99}) + "\n" + '{"epoch": 4, "to')
    assert train(Counter(epochs=4), run, QUIET, resume=True)
    assert [(row["epoch"], row["total"]) for row in run.metrics()] == [(1, 0), (2, 1), (3, 3), (4, 6)]


def test_ctrl_c_saves_and_resume_continues(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Counter):
        def run_epoch(self, epoch: int) -> Epoch:
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)
            return super().run_epoch(epoch)

    run, before = new_run(tmp_path / "run"), signal.getsignal(signal.SIGINT)
    rarely = RunSettings(quiet=True, checkpoint_minutes=60)
    assert train(Interrupted(), run, rarely) is False
    assert "stopping after this epoch" in capfd.readouterr().err, "an epoch may take long"
    assert run.load_checkpoint()[1] == 3
    assert train(Counter(), run, rarely, resume=True)
    assert [row["total"] for row in run.metrics()] == [0, 1, 3, 6, 10]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    class Impatient(Counter):
        def run_epoch(self, epoch: int) -> Epoch:
            done = super().run_epoch(epoch)
            if epoch == 2:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            return done

    run = new_run(tmp_path / "run")
    assert train(Impatient(), run, QUIET) is False
    assert run.load_checkpoint()[1] == 2  # the epoch that was cut short is given up
    assert train(Counter(), run, QUIET, resume=True)
    assert [row["total"] for row in run.metrics()] == [0, 1, 3, 6, 10]


def test_two_processes_cannot_train_in_one_directory(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with (
        run.locked(),
        pytest.raises(IbolError, match="another process is training"),
    ):
        train(Counter(), RunDirectory.open(run.path), QUIET)


def test_progress_is_plain_lines_without_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(Counter(), new_run(tmp_path / "run"), RunSettings(checkpoint_minutes=0))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 1/5: total 0,")
    assert lines[-1].startswith("epoch 5/5: total 10,")
    assert "left" in lines[0]


def test_progress_is_a_bar_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    train(Counter(), new_run(tmp_path / "run"), RunSettings(checkpoint_minutes=0))
    assert "5/5" in capsys.readouterr().err


def test_tensorboard_files_are_written_on_request(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(Counter(), run, RunSettings(quiet=True, log=("tensorboard",)))
    assert list((run.path / "tensorboard").glob("events*"))


def test_tensorboard_without_the_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(IbolError, match=r"pip install 'ibol\[tensorboard\]'"):
        train(Counter(), new_run(tmp_path / "run"), RunSettings(quiet=True, log=("tensorboard",)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", "is not the configuration of a run"),
        ("[]", "is not the configuration of a run"),
        ("[" * 100_000, "is not the configuration of a run"),
        ("{}", "has no command"),
        ('{"command": "ibol"}', "has no env"),
    ],
)
def test_a_broken_configuration_is_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(IbolError, match="is not a run"):
        RunDirectory.open(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(IbolError, match=said):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("seed", -1, "seed is -1"),
        ("seed", True, "seed is True"),
        ("env", 3, "env is 3"),
        ("env", "", "not the name of an environment"),
        ("preset", "\x1b[2J", "not the name of a preset"),
        ("settings", [], "settings is"),
        ("env_settings", None, "env_settings is"),
    ],
)
def test_every_value_of_a_configuration_is_checked(tmp_path: Path, name: str, value: Any, said: str) -> None:
    run = new_run(tmp_path / "run")
    (run.path / "config.json").write_text(json.dumps({**run.config, name: value}))
    with pytest.raises(IbolError, match=said):
        RunDirectory.open(run.path)


@pytest.mark.parametrize(
    "dirt",
    [b"not json\n", b"\xff\xfe\n", b"[1]\n", b'{"epoch": "1"}\n', b'{"epoch": true, "total": 0}\n',
     b'{"epoch": 2, "total": []}\n', b'{"total": 1}\n', b'{"epoch": 1000000000000000000000000000000}\n'],
)  # fmt: skip
def test_damaged_rows_are_said_and_kept_aside_and_the_run_goes_on(tmp_path: Path, dirt: bytes) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(epochs=3), run, QUIET)
    file = run.path / "metrics.jsonl"
    first, _, third = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(damaged := first + dirt + third + third)
    with pytest.warns(RuntimeWarning) as said:
        assert [row["epoch"] for row in run.metrics()] == [1, 3]
    assert "2 of 4 lines" in str(said[0].message)
    assert "lacks 1 epochs between 2 and 2" in str(said[1].message)
    with pytest.warns(RuntimeWarning, match=r"2 of 4 lines|lacks 1 of the 3 epochs before the checkpoint"):
        assert train(Counter(epochs=5), run, QUIET, resume=True)
    assert (run.path / "metrics.damaged-1.jsonl").read_bytes() == damaged
    with pytest.warns(RuntimeWarning, match="lacks 1 epochs"):
        assert [(row["epoch"], row["total"]) for row in run.metrics()] == [(1, 0), (3, 3), (4, 6), (5, 10)]


def test_without_metrics_the_epoch_is_the_checkpoints(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    train(Counter(epochs=3), run, QUIET)
    (run.path / "metrics.jsonl").unlink()
    with pytest.warns(RuntimeWarning, match="lacks 3 of the 3 epochs"):
        assert train(Counter(epochs=4), run, QUIET, resume=True)
    with pytest.warns(RuntimeWarning, match="lacks 3 epochs between 1 and 3"):
        assert [(row["epoch"], row["total"]) for row in run.metrics()] == [(4, 6)]


def test_no_file_of_others_is_written_over_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "ways.tmp").write_text("mine")
    checkpoint.save(tmp_path / "ways.safetensors", {"a": np.zeros(1)}, {})
    assert (tmp_path / "ways.tmp").read_text() == "mine"
