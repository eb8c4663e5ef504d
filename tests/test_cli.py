"""The command line as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ibol
from conftest import call, fails
from ibol.cli import COMMANDS, HELP
from ibol.learners.rollout import collect
from ibol.seeding import derive


@pytest.fixture(scope="module")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "smoke"
    call("sac", "point", "--preset", "smoke", "--run-dir", path, "--quiet")
    return path


def test_help_names_every_command_and_needs_no_jax() -> None:
    code = "import sys; from ibol.cli import main; main(['--help']); assert 'jax' not in sys.modules"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == HELP
    for command in COMMANDS:
        assert f"\n  {command} " in HELP


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        call(command, "--help")
    assert stop.value.code == 0
    assert f"usage: ibol {command}" in capsys.readouterr().out


def test_every_setting_of_sac_is_a_flag_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call("sac", "--help-all")
    shown = capsys.readouterr().out
    for flag in ("--learning-rate", "--hidden", "--replay-size", "--seed", "--run-dir", "--overwrite", "--horizon"):
        assert flag in shown
    assert "Adam's learning rate" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    call("--version")
    assert capsys.readouterr().out.strip() == f"ibol {ibol.__version__}"


def test_wrong_names_get_the_list_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'resume'? choose one of completion, discover, doctor, downstream" in fails(capsys, "resum")
    assert "did you mean 'half_cheetah'?" in fails(capsys, "sac", "half_chetah")
    assert "did you mean 'smoke'? choose one of fast, paper, smoke" in fails(capsys, "sac", "point", "--preset", "smok")
    assert "did you mean 'sac'?" in fails(capsys, "presets", "sacc")
    assert "did you mean 'ibol'?" in fails(capsys, "discover", "point", "--method", "ibl")
    assert "unknown environment 'nowhere'" in fails(capsys, "normalize", "nowhere")


def test_wrong_values_are_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "--learning-rate" in fails(capsys, "sac", "point", "--learning-rate", "fast")
    assert "is not a run" in fails(capsys, "resume", tmp_path)
    assert "is not a run" in fails(capsys, "evaluate", tmp_path)
    assert "at least one run" in fails(capsys, "evaluate")
    assert "horizon is 0" in fails(capsys, "sac", "point", "--horizon", 0, "--run-dir", tmp_path / "a")
    said = fails(capsys, "sac", "point", "--batch-size", 0, "--run-dir", tmp_path / "b")
    assert "goes with --replay-size 0" in said
    for flag, value, said in (
        ("--seed", -1, "--seed is -1, but at least 0 is needed"),
        ("--discount", 2, "--discount is 2, but at most 1 is allowed"),
        ("--learning-rate", "nan", "--learning-rate is nan, but a finite number is needed"),
        ("--keep-checkpoints", 0, "--keep-checkpoints is 0, but at least 1 is needed"),
        ("--hidden", 0, "hidden is 0"),
    ):
        assert said in fails(capsys, "sac", "point", flag, value, "--run-dir", tmp_path / "c")
    assert "bins is 0" in fails(capsys, "evaluate", tmp_path, "--bins", 0)
    assert "unknown environment 'nowhere'" in fails(capsys, "discover", "nowhere", "--run-dir", tmp_path / "d")
    squeeze = ("--distortion", "squeeze_y", "--run-dir", tmp_path / "e")
    assert "does not move in the plane" in fails(capsys, "discover", "half_cheetah", *squeeze)
    assert "needs a linearizer" in fails(capsys, "discover", "point", *squeeze)
    assert list(tmp_path.iterdir()) == []


def test_training_leaves_a_complete_run(smoke_run: Path) -> None:
    config = json.loads((smoke_run / "config.json").read_text())
    assert config["command"] == "sac"
    assert config["env"] == "point"
    assert config["settings"]["hidden"] == [16, 16]
    assert {"mujoco", "jax", "ibol"} <= set(config["versions"])
    rows = [json.loads(line) for line in (smoke_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert [row["env_steps"] for row in rows] == [100, 200, 300]
    assert "evaluation/return" in rows[-1]


def test_flags_override_the_preset_wherever_the_environment_stands(tmp_path: Path) -> None:
    call("sac", "--epochs", 1, "--hidden", 8, "--quiet", "--preset=smoke", "point", "--run-dir", tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert settings["epochs"] == 1
    assert settings["hidden"] == [8]
    assert settings["batch_size"] == 32


def test_the_default_directory_is_named_after_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call("sac", "point", "--preset", "smoke", "--seed", 4, "--epochs", 1, "--quiet")
    assert (tmp_path / "runs" / "sac-point-smoke-seed4" / "config.json").exists()


def test_an_existing_run_is_not_overwritten(smoke_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (smoke_run / "metrics.jsonl").read_bytes()
    said = fails(capsys, "sac", "point", "--preset", "smoke", "--run-dir", smoke_run)
    assert "already holds a run" in said
    assert (smoke_run / "metrics.jsonl").read_bytes() == before


def test_resume_extends_a_finished_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    call("sac", "point", "--preset", "smoke", "--run-dir", run, "--quiet", "--epochs", 2)
    call("resume", run, "--epochs", 4, "--quiet")
    rows = (run / "metrics.jsonl").read_text().splitlines()
    assert len(rows) == 4
    assert json.loads((run / "config.json").read_text())["settings"]["epochs"] == 4
    assert capsys.readouterr().out.startswith("done: ")
    assert "has done 4 epochs already" in fails(capsys, "resume", run, "--epochs", 3)
    assert json.loads((run / "config.json").read_text())["settings"]["epochs"] == 4


def test_evaluate_compares_with_random_actions(
    smoke_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("evaluate", smoke_run, smoke_run, "--episodes", 4, "--json", tmp_path / "e.json")
    rows = json.loads((tmp_path / "e.json").read_text())
    assert len(rows) == 1  # a run that is named twice is one run
    assert rows[0]["random_return_mean"] != rows[0]["return_mean"]
    assert "point" in capsys.readouterr().out


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    call("envs")
    out = capsys.readouterr().out
    assert "ibol/HalfCheetah-v0" in out
    assert "29" in out
    call("presets")
    out = capsys.readouterr().out
    assert "gradient_steps" in out
    assert "from the paper" in out
    call("presets", "sac", "--env", "half_cheetah")
    assert "tuned" in capsys.readouterr().out
    call("presets", "linearize", "--env", "ant", "--all")
    assert "action_cost" in capsys.readouterr().out
    call("normalize", "point", "--trajectories", 20)
    assert "point under random actions" in capsys.readouterr().out


def test_an_own_environment_by_gymnasium_id(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("sac", "Pendulum-v1", "--preset", "smoke", "--epochs", 1, "--horizon", 20, "--run-dir", run, "--quiet")
    policy = ibol.load_agent(str(run))
    assert policy.rollout(2).states.shape == (2, 21, 3)


CART = """
import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Cart(gymnasium.Env):
    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, speed=1.0):
        self.speed = speed

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0.1 * self.np_random.standard_normal(2).astype(np.float32)
        return self.state, {}

    def step(self, action):
        self.state = self.state + np.array([self.speed * action[0], 0.1], np.float32)
        return self.state, 0.0, False, False, {}
"""


def test_an_own_environment_beside_the_user_keeps_its_horizon_and_location_from_linearizer_to_skills(
    tmp_path: Path,
) -> None:
    (tmp_path / "own_cart.py").write_text(CART)
    smoke = "--preset smoke --epochs 1 --quiet"
    for words in (
        f"linearize own_cart:Cart --horizon 20 --location-dims 0 --env-kwargs speed=100 --run-dir lin {smoke}",
        f"discover own_cart:Cart --linearizer lin --run-dir skills {smoke}",
        "evaluate skills --trajectories 16 --json scores.json --quiet --trust-env own_cart:Cart",
    ):
        # -P: as the command `ibol`, Python itself does not look for modules in the working directory.
        subprocess.run([sys.executable, "-P", "-m", "ibol", *words.split()], cwd=tmp_path, check=True)
    kept = json.loads((tmp_path / "skills" / "config.json").read_text())["env_settings"]
    assert (kept["horizon"], kept["location_dims"], kept["env_kwargs"]) == (20, [0], ["speed=100"])
    rows = json.loads((tmp_path / "scores.json").read_text())
    assert {row["policy"]: row["spread"] > 10 for row in rows} == dict.fromkeys(("skills", "untrained", "random"), True)


def test_a_loaded_policy_acts_as_it_was_trained(smoke_run: Path) -> None:
    policy = ibol.load_agent(str(smoke_run))
    states = np.random.default_rng(0).normal(size=(5, 2))
    actions = policy.act(states)
    assert actions.shape == (5, 2)
    np.testing.assert_allclose(policy.act(states[0]), actions[0], rtol=1e-5)
    np.testing.assert_array_equal(
        policy.act(states, deterministic=False, seed=1), policy.act(states, deterministic=False, seed=1)
    )
    assert not np.array_equal(policy.act(states, deterministic=False, seed=1), actions)
    # The evaluation that training logged last is the same policy on the same initial states.
    logged = json.loads((smoke_run / "metrics.jsonl").read_text().splitlines()[-1])["evaluation/return"]
    again = collect(
        policy.make_env(2), lambda obs, step: policy.act(obs), seed=derive(0, "evaluation", 2)
    ).returns.mean()
    assert again == pytest.approx(logged, rel=1e-6)


def test_ctrl_c_from_outside_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "ibol", "sac", "point", "--preset", "smoke", "--epochs", "1000000"]
    process = subprocess.Popen(
        [*command, "--run-dir", str(run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()  # the first progress line: it trains
    process.send_signal(2)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"continue with: ibol resume {run}" in out
    assert "Traceback" not in err
    assert list((run / "checkpoints").glob("*.safetensors"))


def test_a_linearizer_is_drawn_and_its_picture_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, picture = tmp_path / "run", tmp_path / "traces.png"
    call("linearize", "point", "--preset", "smoke", "--epochs", 1, "--run-dir", run, "--quiet")
    call("plot", run, run, "--output", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "already" not in capsys.readouterr().err
    assert "exists: choose another --output" in fails(capsys, "plot", run, "--output", picture)
    assert "could not write" in fails(capsys, "plot", run, "--output", tmp_path / "traces.docx")
    assert "at least one run" in fails(capsys, "plot", "--output", tmp_path / "b.png")
    assert "nobody is not a run" in fails(capsys, "plot", "nobody", "--output", tmp_path / "b.png")
    call("linearize", "half_cheetah", "--preset", "smoke", "--epochs", 1, "--run-dir", tmp_path / "c", "--quiet")
    call("plot", tmp_path / "c", "--output", tmp_path / "c.svg")
    assert b"<svg" in (tmp_path / "c.svg").read_bytes()
