"""Starting, resuming and loading runs: bounds, where a run started from, old run directories, the paper's variants."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ibol
from conftest import call, copy_run, fails
from ibol import bounds, presets
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.methods.ibol import IBOLConfig
from ibol.runs import checkpoint
from ibol.skills.policy import SkillDescription
from ibol.training import launch
from ibol.training.loop import RunSettings

DISCOVERY = launch.discovery_methods()


def start(method: str, env: str, path: Path, preset: str = "smoke", **overrides: Any) -> Path:
    config = presets.build(launch.find(method).config, method, preset, env, overrides=overrides)
    settings = RunSettings(seed=7, run_dir=path, quiet=True)
    launch.start(method, env, config, preset=preset, env_settings=EnvSettings(), run_settings=settings)
    return path


def test_all_methods_are_there() -> None:
    assert {"ibol", "diayn", "valor", "dads", "edl", "sectar", "metra", "lsd", "csd", "csf"} <= set(DISCOVERY)
    assert not set(DISCOVERY) & set(launch.COMMANDS)
    with pytest.raises(IbolError, match="did you mean 'diayn'"):
        launch.find("dyain")


@pytest.mark.parametrize("method", DISCOVERY)
def test_the_initial_policy_is_exactly_what_the_run_started_from(method: str, tmp_path: Path) -> None:
    overrides = {"latent_weight": 3.0, "concentration": 2.0, "epochs": 1, "evaluate_every": 0}
    run = start(method, "point", tmp_path / "run", **overrides)
    config = presets.build(launch.find(method).config, method, "smoke", "point", overrides=overrides)
    before = launch.find(method).trainer("point", EnvSettings(), config, 7).agent()
    initial, trained = launch.initial_agent(run), launch.load_agent(run)
    for name, value in checkpoint.flatten(before.network).items():
        np.testing.assert_array_equal(checkpoint.flatten(initial.network)[name], value, err_msg=name)
    for name, value in before.normalizer.state().items():
        np.testing.assert_array_equal(initial.normalizer.state()[name], value, err_msg=name)
    obs, z = np.ones((2, 2)), trained.sample_latents(2)
    np.testing.assert_array_equal(initial.act(obs, z), before.act(obs, z))
    assert (initial.act(obs, z) != trained.act(obs, z)).any()


@pytest.mark.parametrize(
    ("setting", "value"), [("epochs", -1), ("hidden", (16, 0)), ("learning_rate", float("nan")), ("latent_dim", 0)]
)
def test_bounds_hold_wherever_a_run_is_started(setting: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(IbolError, match=f"{setting} is .*is needed"):
        start("ibol", "point", tmp_path / "run", **{setting: value})
    assert not (tmp_path / "run").exists()


def test_bounds_hold_for_what_a_run_directory_says(point_skills: Path, tmp_path: Path) -> None:
    damaged = copy_run(point_skills, tmp_path / "run", latent_samples=0)
    with pytest.raises(IbolError, match="latent_samples is 0"):
        launch.resume(damaged, quiet=True, epochs=3)


def test_bounds_are_written_next_to_their_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        few: tuple[bounds.Count, ...] | None = None
        part: bounds.Fraction = 0.5
        rate: bounds.Positive = 1.0

    bounds.check(Settings(few=(1, 2), part=1.0))
    for wrong in ({"few": (1, 0)}, {"part": 1.01}, {"part": float("nan")}, {"rate": 0.0}):
        with pytest.raises(IbolError, match=f"{next(iter(wrong))} is"):
            bounds.check(Settings(**wrong))


def test_runs_of_the_first_version_are_read(point_skills: Path, tmp_path: Path) -> None:
    old = copy_run(point_skills, tmp_path / "old")
    config = json.loads((old / "config.json").read_text())
    del config["method"], config["skills"]["prior"]
    config["command"], config["skills"]["discrete"], config["settings"]["normalizer"] = "ibol", False, "preset"
    (old / "config.json").write_text(json.dumps(config))
    skills, same = ibol.load_skills(old), ibol.load_skills(point_skills)
    latents = same.sample_latents(3)
    np.testing.assert_array_equal(skills.rollout(latents).states, same.rollout(latents).states)
    launch.resume(old, quiet=True, epochs=3)
    assert ibol.load_agent(old).kind == "skills"
    assert SkillDescription.from_json({**config["skills"], "discrete": True}, "a file").prior == "one_hot"


def test_neighbouring_seeds_share_no_initial_state(point_skills: Path) -> None:
    skills, linearizer = ibol.load_skills(point_skills), ibol.load_linearizer("half_cheetah")
    for agent, asked in ((skills, np.zeros((4, 2))), (linearizer, np.zeros((4, 18)))):
        starts = [{tuple(state) for state in agent.rollout(asked, seed=seed).states[:, 0]} for seed in (0, 1)]
        assert len(starts[0]) == len(starts[1]) == 4
        assert not starts[0] & starts[1]


def test_act_controller_and_rollout_sample_unless_asked_for_the_mode(point_skills: Path) -> None:
    skills = ibol.load_skills(point_skills)
    z = skills.sample_latents(3)
    states = skills.rollout(z).states
    obs = states[:, 0]
    for deterministic in (False, True):
        act = skills.controller(z, deterministic=deterministic)
        np.testing.assert_array_equal(act(obs, 0), skills.act(obs, z, deterministic=deterministic))
    np.testing.assert_array_equal(skills.controller(z)(obs, 0), skills.rollout(z).actions[:, 0])
    assert (skills.act(obs, z) != skills.act(obs, z, deterministic=True)).all()


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("xy", ("location", "all", 2, "none")),
        ("xyo", ("location", "no_location", 2, "none")),
        ("orientation", ("no_location", "no_location", 1, "none")),
        ("distorted", ("location", "location", 2, "squeeze_y")),
    ],
)
def test_the_papers_variants_have_names(variant: str, expected: tuple[str, str, int, str], tmp_path: Path) -> None:
    tiny = [
        "--epochs",
        1,
        "--episodes-per-epoch",
        2,
        "--evaluate-every",
        0,
        "--hidden",
        8,
        8,
        "--horizon",
        40,
        "--quiet",
    ]
    call("discover", "ant", "--variant", variant, *tiny, "--run-dir", tmp_path / "run", "--quiet")
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    found = tuple(settings[name] for name in ("encoder_sees", "policy_sees", "latent_dim", "distortion"))
    assert found == expected


def test_flags_override_a_variant_and_unknown_ones_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(
        "discover", "point", "--preset", "smoke", "--variant", "xy", "--policy-sees", "location", "--epochs", 1,
        "--run-dir", tmp_path / "run", "--quiet",
    )  # fmt: skip
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (settings["encoder_sees"], settings["policy_sees"]) == ("location", "location")
    assert "orientation" in fails(capsys, "discover", "point", "--variant", "yx", "--run-dir", tmp_path / "other")


def test_every_preset_builds_with_every_variant() -> None:
    for env in ("ant", "point"):
        for variant in presets.variants("discover").values():
            assert isinstance(presets.build(IBOLConfig, "ibol", "fast", env, overrides=variant), IBOLConfig)
    linearizer = launch.find("linearize")
    for variant in presets.variants("linearize").values():
        config = presets.build(linearizer.config, "linearize", "fast", "ant", overrides=variant)
        config = dataclasses.replace(config, episodes_per_epoch=1, hidden=(8, 8), replay_size=100)
        linearizer.trainer("ant", EnvSettings(horizon=20), config, 100)
