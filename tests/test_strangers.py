"""A run directory from a stranger: it executes nothing, changes nothing outside of itself, and is whole or refused."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ibol
from conftest import call, copy_run, fails
from ibol import trust
from ibol.errors import IbolError
from ibol.runs import checkpoint, files
from ibol.runs.directory import RunDirectory
from ibol.training import launch

HOSTILE = ("os:abort", "http.server:test", "planted:make", "planted:Planted-v0", "GymV26Environment-v0")


def change_config(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((run / "config.json").read_text())
    change(config)
    (run / "config.json").write_text(json.dumps(config))


def set_env(config: dict[str, Any], env: str) -> None:
    config["env"] = config["skills"]["env"] = env


def code_of(*args: object) -> int:
    """How a command ends."""
    try:
        call(*args)
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


# What a run may execute.


@pytest.mark.parametrize("env", HOSTILE)
@pytest.mark.parametrize("command", ["evaluate", "plot", "report", "video", "resume", "imitation-set"])
def test_an_environment_of_others_is_made_only_if_trusted(
    command: str, env: str, point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    change_config(run, lambda config: set_env(config, env))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "planted.py").write_text("raise SystemExit('executed')")
    said = fails(capsys, command, run)
    assert repr(env) in said
    assert f"--trust-env '{env}'" in said
    assert "planted" not in sys.modules


def test_the_users_word_is_for_one_call(point_skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_point.py").write_text("import gymnasium, ibol\ndef make(): return gymnasium.make('ibol/Point-v0')")
    monkeypatch.syspath_prepend(tmp_path)
    run = copy_run(point_skills, tmp_path / "run")
    change_config(run, lambda config: set_env(config, "own_point:make"))
    change_config(run, lambda config: config["skills"]["env_settings"].update(location_dims=[0, 1]))
    with pytest.raises(IbolError, match="own_point:make"):
        ibol.load_skills(run)
    skills = ibol.load_skills(run, trust_env="own_point:make")
    assert skills.rollout(skills.sample_latents(3)).states.shape[0] == 3
    assert ibol.load_agent(run, trust_env=["other", "own_point:make"]).kind == "skills"
    with pytest.raises(IbolError, match="own_point:make"):
        ibol.load_skills(run)
    with pytest.raises(IbolError, match=r"trust_env is \[3\]"):
        ibol.load_skills(run, trust_env=[3])  # type: ignore[list-item]


def test_a_linearizer_file_is_as_strange_as_a_run(tmp_path: Path) -> None:
    arrays, meta = checkpoint.load(Path(ibol.__file__).parent / "linearizer" / "bundled" / "ant-0.safetensors")
    meta["linearizer"]["env"] = "os:abort"
    checkpoint.save(tmp_path / "lone.safetensors", arrays, meta)
    with pytest.raises(IbolError, match="os:abort"):
        ibol.load_linearizer(tmp_path / "lone.safetensors")


def test_the_description_may_not_name_another_environment(point_skills: Path, tmp_path: Path) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    change_config(run, lambda config: config["skills"].update(env="os:abort"))
    with pytest.raises(IbolError, match="no description of skills in point"):
        ibol.load_skills(run)


def test_environments_of_ours_and_of_gymnasium_are_known() -> None:
    for env in ("ant", "Pendulum-v1", "ibol/Ant-v0", "never-heard-of"):
        trust.check_env(env, "run")
    for wrong in (None, 3, "", "a\x1b[2J", ["ant"]):
        with pytest.raises(IbolError, match="not the name of an environment"):
            trust.check_env(wrong, "run")


def test_an_experiment_file_names_environments_like_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grid.toml").write_text('[grid]\nruns = [{ env = "os:abort", method = "ibol", beta = 0.1 }]')
    said = fails(capsys, "experiment", tmp_path / "grid.toml", "--dir", tmp_path / "results")
    assert "--trust-env 'os:abort'" in said
    assert not (tmp_path / "results").exists()


def test_an_experiment_writes_nothing_through_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a directory that somebody else prepared, with links where runs, leases and the page would be."""
    outside, results = tmp_path / "outside", tmp_path / "results"
    outside.mkdir()
    results.mkdir()
    for name in ("leases", "failures", "a", "index.html", "claims.json"):
        (results / name).symlink_to(outside / name)
    (results / "runs").symlink_to(outside)
    (tmp_path / "own.toml").write_text('[a]\nruns = [{ method = "sac", env = "point", epochs = 1 }]')
    said = fails(capsys, "experiment", tmp_path / "own.toml", "--dir", results, "--preset", "smoke", "--quiet")
    assert "is a symbolic link" in said
    assert list(outside.iterdir()) == []


# What a run may change.


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory of the user's, which must stay as it is."""
    place = tmp_path / "outside"
    (place / "folder").mkdir(parents=True)
    for name in ("file", "folder/a.safetensors", "folder/epoch-000001.png"):
        (place / name).write_text("precious")
    return place


def content(place: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() if path.is_file() else b"" for path in place.rglob("*") if path.name != ".lock"
    }


LINKS = [
    (".lock", "file"), (".config.json.tmp", "file"), (".metrics.jsonl.tmp", "file"), ("metrics.jsonl", "file"),
    ("config.json", None), ("pictures", "folder"), ("pictures/epoch-000003.png", "file"), ("checkpoints", "folder"),
    ("checkpoints/.epoch-0000000003.safetensors.tmp", "file"), ("checkpoints/epoch-0000000003.safetensors", "file"),
    ("evaluation", "folder"), ("skills", "folder"), ("tensorboard", "folder"), ("linearizer.safetensors", "file"),
    ("wandb", "folder"), ("loggers.json", "file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "target"), LINKS)
@pytest.mark.parametrize("doing", ["resume", "overwrite", "evaluate"])
def test_nothing_is_written_or_deleted_through_a_link(
    doing: str, name: str, target: str | None, point_skills: Path, outside: Path, tmp_path: Path, recwarn: Any
) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    link = run / name
    link.parent.mkdir(exist_ok=True)
    if target is None:
        shutil.copy(link, outside / "config")
    if link.is_dir():
        shutil.rmtree(link)
    else:
        link.unlink(missing_ok=True)
    link.symlink_to(outside / (target or "config"))
    before, kept = content(outside), content(run)
    commands: dict[str, list[object]] = {
        "resume": ["resume", run, "--epochs", "3", "--log", "tensorboard"],
        "overwrite": ["discover", "point", "--preset", "smoke", "--epochs", "1", "--run-dir", run, "--overwrite"],
        "evaluate": ["evaluate", run, "--trajectories", "100", "--no-references"],
    }
    code = code_of(*commands[doing], "--quiet")
    assert code in (0, 2)
    assert code == 0 or doing != "overwrite" or content(run) == kept, "checked before anything is deleted"
    assert content(outside) == before


def test_a_run_may_be_reached_by_a_link(point_skills: Path, tmp_path: Path) -> None:
    copy_run(point_skills, tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")
    call("resume", tmp_path / "latest", "--epochs", "3", "--quiet")
    assert [row["epoch"] for row in RunDirectory.open(tmp_path / "run").metrics()] == [1, 2, 3]


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", ".lock", "checkpoints/epoch-0000000002.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "socket", "device"])
def test_what_is_no_plain_file_is_refused_at_once(
    name: str, kind: str, point_skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    (run / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "directory":
        (run / name).mkdir()
    elif kind == "socket":
        monkeypatch.chdir((run / name).parent)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(Path(name).name)
    else:
        (run / name).symlink_to("/dev/zero")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert code_of("resume", run, "--epochs", "3", "--quiet") == 2


# What a checkpoint may hold.


def deep(levels: int) -> Any:
    return [] if levels == 0 else [deep(levels - 1)]


WRONG: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "no epoch": lambda arrays, meta: meta.clear(),
    "a negative epoch": lambda arrays, meta: meta.update(epoch=-1),
    "another epoch": lambda arrays, meta: meta.update(epoch=10**9),
    "text for an epoch": lambda arrays, meta: meta.update(epoch="2"),
    "a true epoch": lambda arrays, meta: meta.update(epoch=True),
    "no arrays": lambda arrays, meta: arrays.clear(),
    "no normaliser": lambda arrays, meta: [arrays.pop(name) for name in list(arrays) if "normalizer" in name],
    "other shapes": lambda arrays, meta: arrays.update({name: value[..., None] for name, value in arrays.items()}),
    "other types": lambda arrays, meta: arrays.update({name: value.astype(np.int8) for name, value in arrays.items()}),
    "no numbers": lambda arrays, meta: arrays.update({n: v * np.nan for n, v in arrays.items() if v.dtype.kind == "f"}),
    "negative variances": lambda arrays, meta: arrays.update({"normalizer/var": -arrays["normalizer/var"]}),
    "a narrow normaliser": lambda arrays, meta: arrays.update({"normalizer/mean": np.zeros(1)}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_content_with_right_checksums_falls_back(wrong: str, point_skills: Path, tmp_path: Path) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    call("resume", run, "--epochs", "3", "--quiet")
    previous = ibol.load_skills(point_skills)
    newest = RunDirectory.open(run).checkpoints()[-1]
    arrays, meta = checkpoint.load(newest)
    WRONG[wrong](arrays, meta)
    checkpoint.save(newest, arrays, meta)
    with pytest.warns(RuntimeWarning, match="falling back"):
        skills = ibol.load_skills(run)
    latents = previous.sample_latents(4)
    np.testing.assert_array_equal(skills.rollout(latents).states, previous.rollout(latents).states)
    with pytest.warns(RuntimeWarning, match="falling back"):
        call("resume", run, "--quiet")
    assert RunDirectory.open(run).load_checkpoint()[1] == 3


def test_deep_nesting_in_a_header_is_a_bad_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "deep.safetensors", {"a": np.zeros(1)}, {"epoch": deep(900)})
    text = json.dumps({"meta": {}, "sha256": {}})[:-1] + ', "x": ' + "[" * 50_000 + "]" * 50_000 + "}"
    from safetensors.numpy import save_file

    header = {checkpoint.FORMAT: checkpoint._text_digest(text) + text}
    save_file({}, tmp_path / "deeper.safetensors", metadata=header)
    with pytest.raises(checkpoint.BadCheckpoint):
        checkpoint.load(tmp_path / "deeper.safetensors")


@pytest.mark.parametrize("hidden", [[10**6, 10**6], [2**40], [30_000, 30_000]])
def test_a_forged_size_allocates_nothing(hidden: list[int], point_skills: Path, tmp_path: Path) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    change_config(run, lambda config: config["skills"].update(hidden=hidden))
    change_config(run, lambda config: config["settings"].update(hidden=hidden))
    with pytest.warns(RuntimeWarning, match="larger than it can be"), pytest.raises(IbolError, match="none of the"):
        ibol.load_skills(run)
    with pytest.raises(IbolError, match="larger than it can be"):
        launch.initial_agent(run)


def test_a_replay_buffer_that_does_not_fit_is_a_bad_checkpoint(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("sac", "point", "--preset", "smoke", "--epochs", "2", "--quiet", "--run-dir", run, "--checkpoint-minutes", "0")
    newest = RunDirectory.open(run).checkpoints()[-1]
    good, meta = checkpoint.load(newest)
    for change in (
        {"replay/position": np.array(-1)},
        {"replay/position": np.array(10**12)},
        {"replay/position": np.zeros(2, np.int64)},
        {"replay/rewards": good["replay/rewards"][:-1]},
        {"replay/inputs": good["replay/inputs"][:, :1]},
    ):
        checkpoint.save(newest, {**good, **change}, meta)
        with pytest.warns(RuntimeWarning, match="the replay buffer in the checkpoint.*falling back"):
            launch.resume(run, epochs=2, quiet=True)


# Faults.


def test_equal_content_makes_equal_bytes(tmp_path: Path) -> None:
    program = (
        "import sys, numpy as np; from pathlib import Path; from ibol.runs import checkpoint;"
        "checkpoint.save(Path(sys.argv[1]), {f'a{i}': np.full(i, i) for i in range(20)}, {'epoch': 3, 'b': [1]})"
    )
    for name in ("a", "b", "c"):
        subprocess.run([sys.executable, "-c", program, tmp_path / name], check=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_files_of_the_first_format_are_read(tmp_path: Path) -> None:
    import hashlib

    from safetensors.numpy import save_file

    checkpoint.save(tmp_path / "new.safetensors", {"a": np.arange(3.0)}, {"epoch": 1})
    text = json.dumps({"meta": {"epoch": 1}, "sha256": {"a": checkpoint._digest(np.arange(3.0))}})
    header = {"format": "ibol-checkpoint-1", "json": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    save_file({"a": np.arange(3.0)}, tmp_path / "old.safetensors", metadata=header)
    old, new = (checkpoint.load(tmp_path / f"{name}.safetensors") for name in ("old", "new"))
    np.testing.assert_array_equal(old[0]["a"], new[0]["a"])
    assert old[1] == new[1]


def test_a_run_that_cannot_be_written_is_one_sentence(
    point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    opened = os.open

    def read_only(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if str(path).startswith(str(run)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(30, "Read-only file system", str(path))
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", read_only)
    assert "Read-only file system" in fails(capsys, "resume", run, "--epochs", "3", "--quiet")


def test_a_full_disk_at_the_start_is_one_sentence_and_loses_nothing(
    point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_run(point_skills, tmp_path / "run")
    before = content(run)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(files, "replace_bytes", full)
    assert "No space left on device" in fails(capsys, "resume", run, "--quiet")
    assert content(run) == before


def test_resume_keeps_what_the_run_was_given(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train = ["discover", "point", "--preset", "smoke", "--epochs", "2", "--quiet", "--run-dir", run]
    call(*train, "--checkpoint-minutes", "0", "--keep-checkpoints", "5")
    call("resume", run, "--epochs", "6", "--quiet")
    assert len(RunDirectory.open(run).checkpoints()) == 5
    call("resume", run, "--epochs", "7", "--quiet", "--keep-checkpoints", "1")
    assert len(RunDirectory.open(run).checkpoints()) == 1


def start(*args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ibol", *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("after", [0.1, 0.5, 1.0, 2.0])
def test_ctrl_c_while_it_starts_is_one_line(after: float, tmp_path: Path) -> None:
    process = start("discover", "point", "--preset", "smoke", "--epochs", "100000", "--run-dir", tmp_path / "run")
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert "Traceback" not in error
    if process.returncode != -signal.SIGINT:  # Python itself had not yet begun
        assert process.returncode == 130
        assert "stopped" in out + error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_saves_and_resume_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("discover", "point", "--preset", "smoke", "--epochs", "100000", "--run-dir", run, "--quiet")
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "stopped and saved" in out
    rows = RunDirectory.open(run).metrics()
    assert RunDirectory.open(run).load_checkpoint()[1] == len(rows) > 0


def test_an_epoch_that_takes_too_long_is_given_up_after_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the replay buffer is as it was before, also where the epoch had overwritten its oldest rows."""
    from ibol.training import loop

    monkeypatch.setattr(loop, "GRACE", 0.2)
    train = ["sac", "point", "--preset", "smoke", "--epochs", "4", "--replay-size", "300", "--quiet", "--run-dir"]
    call(*train, tmp_path / "whole")
    trainer = launch.find("sac").trainer
    learned = trainer.run_epoch  # type: ignore[attr-defined]

    def slow(self: Any, epoch: int) -> Any:
        done = learned(self, epoch)
        if epoch == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "run_epoch", slow)
        with pytest.raises(SystemExit) as stop:
            call(*train, tmp_path / "cut")
    assert stop.value.code == 130
    assert RunDirectory.open(tmp_path / "cut").load_checkpoint()[1] == 3
    call("resume", tmp_path / "cut", "--quiet")
    ends = [RunDirectory.open(tmp_path / name).checkpoints()[-1].read_bytes() for name in ("whole", "cut")]
    assert ends[0] == ends[1]
