"""Bundled skills: found by name, used like a run, and never written into."""

import json
from pathlib import Path

import numpy as np
import pytest

import ibol
from conftest import call, fails
from ibol import zoo
from ibol.envs import names as envs
from ibol.evaluation import rollouts
from ibol.evaluation.loading import load_run
from ibol.evaluation.rollouts import skill_rollouts
from ibol.skills.env import SkillEnv

WEAK = {"humanoid"}  # sampled skills are told apart no better than by chance, and the card has to say so


def content(name: str) -> dict[str, bytes]:
    entry = zoo.locate(name)
    return {str(file.relative_to(entry)): file.read_bytes() for file in sorted(entry.rglob("*")) if file.is_file()}


def test_every_environment_has_skills_and_two_have_those_of_another_method() -> None:
    assert set(envs()) <= set(zoo.names())
    assert {"ant:diayn", "half_cheetah:diayn"} <= set(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_cards_say_what_is_there(name: str) -> None:
    card, skills = zoo.card(name), ibol.load_skills(name)
    run = load_run(zoo.locate(name)).directory
    assert (card["env"], card["method"], card["seed"]) == (skills.env, run.method, run.config["seed"])
    assert len(list(run.metrics())) == card["epochs"] == run.config["settings"]["epochs"]
    assert card["limits"]
    assert (zoo.locate(name) / zoo.PICTURE).read_bytes().startswith(b"\x89PNG")
    # What the references score is chance: a card that confused policies, or skills that learned nothing, would show.
    information = {policy: scores["neighbour_information"] for policy, scores in card["scores"].items()}
    assert information["skills"] > 0.2 + max(information["untrained"], information["random"])
    accuracy = {policy: scores["accuracy"] for policy, scores in card["scores"].items()}
    if name in WEAK:
        assert "no better than by chance" in card["limits"]
    else:
        assert accuracy["skills"] > 2 * max(accuracy["untrained"], accuracy["random"])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies act on whole batches, however few episodes are asked for."""
    monkeypatch.setattr(rollouts, "BATCH", 16)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("name", zoo.names())
def test_scores_of_the_cards_can_be_repeated(name: str) -> None:
    few = skill_rollouts(zoo.locate(name), which="eight", trajectories=8, seed=999)
    spread = float(np.sqrt(few.ends.var(axis=0).sum()))
    # 8 latents on a circle are farther apart than random ones, by no more than a few times.
    assert zoo.card(name)["scores"]["skills"]["spread"] / 3 < spread < zoo.card(name)["scores"]["skills"]["spread"] * 3


@pytest.mark.usefixtures("small_batches")
def test_a_name_stands_wherever_a_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    before = content("point")
    scores = tmp_path / "scores.json"
    call("evaluate", "point", "--trajectories", 16, "--json", scores, "--quiet")
    assert {row["run"] for row in json.loads(scores.read_text())} == {"point"}
    call("plot", "point", "--output", tmp_path / "a.png", "--trajectories", 16, "--quiet")
    call("report", "point", "--output", tmp_path / "a.html", "--trajectories", 16, "--no-films", "--quiet")
    assert "point-ibol" in (tmp_path / "a.html").read_text()
    call("imitation-set", "half_cheetah", "--output", tmp_path / "i.safetensors", "--trajectories", 2, "--quiet")
    call(
        "downstream", "point_goal", "--skills", "point", "--preset", "smoke", "--run-dir", tmp_path / "task", "--quiet"
    )
    assert content("point") == before
    assert "cannot be resumed" in fails(capsys, "resume", "point")
    call("zoo")
    call("zoo", "point")
    assert "neighbour I(Z; S) (nats)" in capsys.readouterr().out
    assert "unknown name of bundled skills 'poin'" in fails(capsys, "zoo", "poin")


def test_skills_by_name_as_an_environment() -> None:
    env = SkillEnv("point")
    env.reset(seed=0)
    observation, *_ = env.step(np.array([1.5, 0.0], np.float32))
    assert np.linalg.norm(observation) > 0.05


def test_a_directory_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert zoo.locate("ant").parent == zoo.DIRECTORY
    (tmp_path / "ant").mkdir()
    assert zoo.locate("ant") == Path("ant")
    assert zoo.locate("./hopper") == Path("hopper")
    assert zoo.locate(tmp_path / "hopper") == tmp_path / "hopper"


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(ibol.IbolError, match="bundled skills are called ant, ant:diayn"):
        ibol.load_skills("nobody")


def test_other_versions_are_told_once(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    monkeypatch.setattr(zoo, "_version", lambda package: "9.9")
    monkeypatch.setattr(zoo, "_warned", set())
    with pytest.warns(UserWarning, match=r"trained with mujoco 4.0.0 \(here 9.9\) and jax"):
        ibol.load_skills("point")
    ibol.load_skills("point")
    assert len(recwarn) == 0


def test_entries_are_small() -> None:
    for name in zoo.names():
        assert sum(map(len, content(name).values())) < 1_500_000
