"""Roll-outs of a run's skills: what they hold, and that they are simulated once."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from conftest import copy_run
from ibol import zoo
from ibol.cli import main
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation import rollouts
from ibol.evaluation.loading import load_run
from ibol.evaluation.rollouts import Rollouts, skill_rollouts
from ibol.linearizer.env import squeeze_y
from ibol.methods.ibol import IBOLConfig, IBOLTrainer
from ibol.presets import build
from ibol.runs import checkpoint
from ibol.runs.progress import WorkProgress
from ibol.seeding import generator
from ibol.skills import load_skills
from ibol.skills.latents import Gaussian, OneHot, Prior, Sphere
from ibol.training.launch import initial_agent


@pytest.fixture
def run(point_skills: Path, tmp_path: Path) -> Path:
    return copy_run(point_skills, tmp_path / "run")


@pytest.fixture
def simulations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the simulations, one entry each."""
    calls: list[int] = []
    simulate = rollouts.simulate

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(1)
        return simulate(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(rollouts, "simulate", counted)
    return calls


def same(a: Rollouts, b: Rollouts) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_they_are_simulated_once_for_all_that_decides_them(run: Path, simulations: list[int]) -> None:
    first = skill_rollouts(run, trajectories=20)
    assert first.latents.shape == (20, 2)
    assert first.locations.shape == (20, 51, 2)
    assert first.lengths.tolist() == [50] * 20
    assert np.allclose(first.returns, first.ends[:, 0] - first.locations[:, 0, 0], atol=1e-5)
    assert same(skill_rollouts(run, trajectories=20), first)
    assert len(simulations) == 1
    others = [{"policy": "untrained"}, {"policy": "random"}, {"which": "eight"}, {"which": "line"}, {"seed": 1}]
    others += [{"deterministic": True}, {"state_dims": (0,)}]
    for count, other in enumerate(others, start=2):
        assert not same(skill_rollouts(run, trajectories=20, **other), first)  # type: ignore[arg-type]
        assert len(simulations) == count


def test_latents_are_those_of_the_figures(run: Path) -> None:
    found = skill_rollouts(run, which="eight", trajectories=24)
    assert np.array_equal(found.latents, np.tile(Gaussian(2).shown(), (3, 1))), "in turn"
    ordered = found.by_latent()
    assert np.array_equal(ordered.latents, np.repeat(Gaussian(2).shown(), 3, axis=0))
    assert np.array_equal(ordered.ends[:3], found.ends[[0, 8, 16]])
    line = skill_rollouts(run, which="line", trajectories=9)
    assert np.allclose(line.latents[:, 0], np.arange(-4, 5))
    assert np.all(line.latents[:, 1] == 0)
    with pytest.raises(IbolError, match="at least 8"):
        skill_rollouts(run, which="eight", trajectories=7)


def first(found: Rollouts, count: int) -> Rollouts:
    return found.chosen(slice(count))


@pytest.mark.parametrize("which", ["random", "eight"])
@pytest.mark.parametrize("policy", rollouts.POLICIES)
def test_fewer_are_the_first_of_many(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulations: list[int], policy: str, which: str
) -> None:
    """Whether they are simulated alone, taken from a larger file, or the start of what is simulated later."""
    monkeypatch.setattr(rollouts, "BATCH", 32)
    fresh = [copy_run(run, tmp_path / f"copy{count}") for count in (24, 80)]
    options = {"policy": policy, "which": which}
    few = skill_rollouts(fresh[0], trajectories=24, **options)  # type: ignore[arg-type]
    many = skill_rollouts(fresh[1], trajectories=80, **options)  # type: ignore[arg-type]
    assert len(many.latents) == 80
    assert same(first(many, 24), few)
    assert len(simulations) == 2
    assert same(skill_rollouts(fresh[1], trajectories=24, **options), few)  # type: ignore[arg-type]
    assert len(simulations) == 2, "from the larger file"
    assert same(skill_rollouts(fresh[0], trajectories=80, **options), many)  # type: ignore[arg-type]
    assert len(simulations) == 3
    assert len(list((fresh[0] / "evaluation").iterdir())) == 1, "the larger takes the smaller one's place"


def test_only_what_is_missing_is_simulated(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "BATCH", 8)
    batches: list[int] = []
    collect = rollouts.collect

    def counted(env: object, *args: object, **kwargs: object) -> object:
        batches.append(env.num_envs)  # type: ignore[attr-defined]
        return collect(env, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(rollouts, "collect", counted)
    skill_rollouts(run, trajectories=20)
    assert batches == [8, 8, 4]
    skill_rollouts(run, trajectories=30)
    assert batches[3:] == [8, 6]


@pytest.mark.parametrize("prior", [Gaussian(2), Gaussian(3), OneHot(5), Sphere(2)])
def test_few_latents_are_the_first_of_many(prior: Prior) -> None:
    few, many = (prior.draw(np.random.default_rng(7), count) for count in (37, 500))
    assert np.array_equal(many[:37], few)


def test_the_modes_path_is_that_of_the_loaded_skills(run: Path) -> None:
    found = skill_rollouts(run, trajectories=4, deterministic=True)
    skills = load_skills(run)
    act = skills.controller(found.latents, deterministic=True)
    step = found.locations[:, 1] - found.locations[:, 0]
    assert np.allclose(step, 0.1 * act(found.locations[:, 0], 0), atol=1e-6)


def test_a_damaged_or_outdated_cache_is_redone(run: Path, simulations: list[int]) -> None:
    first = skill_rollouts(run, trajectories=20)
    (file,) = (run / "evaluation").iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    assert same(skill_rollouts(run, trajectories=20), first)
    file.write_bytes(b"nothing")
    assert same(skill_rollouts(run, trajectories=20), first)
    assert len(simulations) == 3
    main(["resume", str(run), "--epochs", "3", "--quiet"])
    assert not same(skill_rollouts(run, trajectories=20), first)
    assert len(simulations) == 4
    assert len(list((run / "evaluation").iterdir())) == 1


def test_a_directory_that_cannot_be_written_is_no_obstacle(run: Path, simulations: list[int]) -> None:
    (run / "evaluation").write_text("in the way")
    assert same(skill_rollouts(run, trajectories=20), skill_rollouts(run, trajectories=20))
    assert len(simulations) == 2


def test_references_that_are_the_same_are_simulated_once_for_all_runs(
    run: Path, tmp_path: Path, simulations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random answers for each environment, untrained policies for each seed; skills are each run's own."""
    alone = {policy: skill_rollouts(run, policy=policy, trajectories=20) for policy in rollouts.POLICIES}
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(rollouts.cache, "directory", lambda name: tmp_path / "cache")
    copies = [copy_run(run, tmp_path / f"{count}", **changes) for count, changes in enumerate(
        ({}, {"beta": 0.5}, {"seed": 1})
    )]  # fmt: skip
    simulations.clear()
    found = [{policy: skill_rollouts(one, policy=policy, trajectories=20) for policy in alone} for one in copies]
    # Of skills three runs, of untrained policies two seeds, of random answers one environment.
    assert len(simulations) == 3 + 2 + 1
    assert all(same(one[policy], alone[policy]) for one in found[:2] for policy in alone)
    assert same(found[2]["random"], alone["random"])
    assert not same(found[2]["untrained"], alone["untrained"])
    assert len(list((tmp_path / "cache").iterdir())) == 3
    shorter = copy_run(run, tmp_path / "shorter")
    config = json.loads((shorter / "config.json").read_text())
    config["skills"]["env_settings"]["horizon"] = 20
    (shorter / "config.json").write_text(json.dumps(config))
    assert skill_rollouts(shorter, policy="random", trajectories=20).locations.shape == (20, 21, 2)
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"damaged")
    fresh = copy_run(run, tmp_path / "fresh")
    assert same(skill_rollouts(fresh, policy="random", trajectories=20), alone["random"])
    more = skill_rollouts(copies[2], policy="random", trajectories=100)
    assert same(first(more, 20), alone["random"])


def test_what_a_run_brings_along_is_not_shared(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    honest = skill_rollouts(run, policy="random", trajectories=70)
    stranger = copy_run(run, tmp_path / "stranger")
    shutil.copytree(run / "evaluation", stranger / "evaluation")
    (file,) = (stranger / "evaluation").iterdir()
    arrays, key = checkpoint.load(file)
    checkpoint.save(file, arrays | {"locations": arrays["locations"] + 1}, key)
    monkeypatch.setattr(rollouts.cache, "directory", lambda name: tmp_path / "cache")
    assert not same(skill_rollouts(stranger, policy="random", trajectories=70), honest), "what it says of itself"
    assert same(first(skill_rollouts(stranger, policy="random", trajectories=100), 70), honest)
    assert same(skill_rollouts(copy_run(run, tmp_path / "own"), policy="random", trajectories=70), honest)


def test_bundled_skills_are_simulated_once(
    tmp_path: Path, simulations: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = zoo.locate("point")
    monkeypatch.setattr(rollouts.cache, "directory", lambda name: tmp_path)
    one, other = (skill_rollouts(bundled, trajectories=8) for _ in range(2))
    assert same(one, other)
    assert len(simulations) == 1


def test_progress_counts_what_is_simulated(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ibol.runs.progress._PLAIN_INTERVAL", 0.0)
    for said in ("20/40 episodes", ""):
        with WorkProgress(40, "episodes") as progress:
            skill_rollouts(run, trajectories=20, progress=progress)
        assert said in capsys.readouterr().err
        assert progress._total == (40 if said else 20)


def test_untrained_is_the_policy_that_the_run_started_from(run: Path) -> None:
    found = skill_rollouts(run, policy="untrained", trajectories=6, deterministic=True)
    initial = initial_agent(run)
    rest = rollouts.batch_of(load_run(run)) - 6
    z, starts = (np.pad(rows, ((0, rest), (0, 0)), mode="edge") for rows in (found.latents, found.locations[:, 0]))
    moved = np.asarray(initial.act(starts, z, deterministic=True))[:6] * 0.1  # a step of the point
    np.testing.assert_allclose(found.locations[:, 1], found.locations[:, 0] + moved, atol=1e-6)


def test_the_random_reference_of_a_distorted_run_acts_in_its_world(tmp_path: Path) -> None:
    goals: list[NDArray[np.float32]] = []
    config = build(IBOLConfig, "ibol", "smoke", "ant", overrides={"distortion": "squeeze_y", "episodes_per_epoch": 2})
    skills = IBOLTrainer("ant", EnvSettings(horizon=20), config, 0).agent()
    assert skills.linearizer is not None
    act = skills.linearizer._actions
    skills.linearizer._actions = lambda obs, goal: (goals.append(goal), act(obs, goal))[1]  # type: ignore[method-assign]
    answers = np.random.default_rng(0).uniform(-1, 1, (2, 29)).astype(np.float32)
    skills.act_on(lambda obs, step: answers)(np.zeros((2, 29), np.float32), 0)
    np.testing.assert_allclose(goals[0], squeeze_y(answers))
    assert np.abs(goals[0] - answers).max() > 0.1
    made = rollouts._random(skills, np.zeros((2, 2), np.float32), 0)
    made(np.zeros((2, 29), np.float32), 0)
    drawn = generator(0, "random policy").uniform(-1, 1, (2, 29)).astype(np.float32)
    np.testing.assert_allclose(goals[1], squeeze_y(drawn))
