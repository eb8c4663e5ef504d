"""Skills at work: the meta-controller, the planner, the imitation set, and the command line around them."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import call, copy_run, fails
from ibol import downstream, load_agent, load_linearizer
from ibol.downstream.hierarchy import EVALUATION_SEED, Hierarchy
from ibol.downstream.meta import MetaController
from ibol.downstream.planner import Plans
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation.downstream import evaluate_downstream
from ibol.films.episodes import load_episodes
from ibol.learners.normalizer import Normalizer
from ibol.learners.rollout import collect
from ibol.nn.networks import TanhGaussianPolicy
from ibol.presets import build
from ibol.runs import checkpoint
from ibol.runs.directory import RunDirectory
from ibol.seeding import derive
from ibol.skills.policy import LINEARIZER_FILE, SKILLS_PREFIX, SkillDescription


def write_skills(run: Path, about: SkillDescription, policy: Any) -> Path:
    """A run of 'ibol discover' that was never trained."""
    settings = {"linearizer": "none", "encoder_sees": "all", "policy_sees": "all"}
    config = {"command": "ibol", "env": about.env, "preset": "smoke", "seed": 0, "settings": settings}
    made = RunDirectory.create(run, {**config, "env_settings": {}, "skills": dataclasses.asdict(about)})
    arrays = {**checkpoint.flatten(policy, SKILLS_PREFIX), **Normalizer(about.state_dim).state()}
    made.save_checkpoint(1, arrays, keep=1)
    if about.linearized:
        load_linearizer(about.env).save(run / LINEARIZER_FILE, {})
    return run


@pytest.fixture(scope="module")
def steering(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skills of the point that go where the latent points: tanh(tanh(z)) at every step, whatever the state."""
    policy = TanhGaussianPolicy(4, 2, (2,), jax.random.key(0))
    for where, value in (
        (lambda p: p.network.trunk.layers[0].weight, jnp.array([[0, 0], [0, 0], [1, 0], [0, 1]], jnp.float32)),
        (lambda p: p.network.heads[0].weight, jnp.eye(2)),
    ):
        policy = eqx.tree_at(where, policy, value)
    about = SkillDescription("point", EnvSettings(), 2, 2, 2, (0, 1), (), (2,), "tanh_gaussian", linearized=False)
    return write_skills(tmp_path_factory.mktemp("skills") / "steering", about, policy)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained skills of HalfCheetah on the bundled linearizer."""
    about = SkillDescription("half_cheetah", EnvSettings(), 18, 18, 2, (0,), (), (8,))
    return write_skills(tmp_path_factory.mktemp("skills") / "running", about, about.policy_template())


def config_of(preset: str = "smoke", **changes: Any) -> Any:
    return dataclasses.replace(build(downstream.DownstreamConfig, "downstream", preset, "point_goal"), **changes)


def trained(run: Path, skills: Path | str, *args: object) -> list[dict[str, Any]]:
    call("downstream", "point_goal", "--skills", skills, "--preset", "smoke", "--run-dir", run, "--quiet", *args)
    return list(RunDirectory.open(run).metrics())


def without_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]


def test_a_latent_is_held_for_ten_steps_times_l_m(steering: Path) -> None:
    stack = Hierarchy("point_goal", EnvSettings(), config_of(skills=str(steering), l_m=2))
    assert (stack.hold, stack.decisions, stack.decision_dim) == (20, 3, 2)
    seen: list[int] = []

    def choose(observations: Any, decision: int) -> Any:
        seen.append(decision)
        assert observations.shape == (4, 4)  # the state and the goal
        return np.full((4, 2), [0.0, 0.25, -0.5][decision], np.float32)

    steps, chosen = stack.rollout(stack.make_env(4), choose, 0)
    assert seen == [0, 1, 2]
    np.testing.assert_array_equal(chosen[0, :, 0], [0.0, 0.25, -0.5])
    speed = 0.1 * np.tanh(np.tanh(2 * np.array([0.0, 0.25, -0.5])))  # latents reach to 2
    x = steps.states[:, :, 0] - steps.states[:, :1, 0]
    np.testing.assert_allclose(x[:, 20], 20 * speed[0], atol=1e-5)
    np.testing.assert_allclose(x[:, 40], 20 * (speed[0] + speed[1]), atol=1e-5)
    np.testing.assert_allclose(x[:, 50], 20 * (speed[0] + speed[1]) + 10 * speed[2], atol=1e-5)
    whole = stack.by_decision(steps, chosen)
    np.testing.assert_array_equal(whole.states, steps.states[:, [0, 20, 40, 50]])
    np.testing.assert_array_equal(whole.lengths, [3] * 4)
    np.testing.assert_allclose(whole.rewards[:, 2], steps.returns)
    np.testing.assert_array_equal(whole.ends(time_limits=True)[0], [False, False, True])


def test_rewards_on_the_way_are_summed_for_their_decision(steering: Path) -> None:
    stack = Hierarchy("point_goal", EnvSettings(), config_of(skills=str(steering), l_m=2))
    steps, chosen = stack.rollout(stack.make_env(2), lambda observations, decision: np.zeros((2, 2)), 0)
    counted = dataclasses.replace(steps, rewards=np.tile(np.arange(50, dtype=np.float32), (2, 1)))
    found = stack.by_decision(counted, chosen).rewards[0]
    np.testing.assert_array_equal(found, [sum(range(20)), sum(range(20, 40)), sum(range(40, 50))])


def test_with_a_linearizer_l_m_counts_macro_steps(running: Path) -> None:
    stack = Hierarchy("half_cheetah_goal", EnvSettings(), config_of(skills=str(running), l_m=5))
    assert (stack.hold, stack.decisions, stack.decision_dim, stack.state_dim) == (50, 4, 2, 19)
    assert Hierarchy("ant_goal", EnvSettings(), config_of(skills="none")).decision_dim == 8
    with pytest.raises(IbolError, match=r"are those of half_cheetah, but this task is for ant"):
        Hierarchy("ant_goal", EnvSettings(), config_of(skills=str(running)))
    # The skills' own roll-out goes the same way as the held latent: the targets change nothing below.
    latents = np.array([[1.0, -0.5]], np.float32)
    direct = load_agent(running).rollout(latents, seed=3, deterministic=True)
    whole = Hierarchy("half_cheetah_goal", EnvSettings(), config_of(skills=str(running), l_m=20))
    steps, _ = whole.rollout(whole.make_env(1), lambda observations, decision: latents / 2, derive(3, "episodes"))
    np.testing.assert_allclose(steps.states[:, :, :18], direct.states, atol=1e-4)


def test_goals_are_seen_from_the_robot_and_scaled() -> None:
    stack = Hierarchy("point_goal", EnvSettings(), config_of(skills="none", goal_range=2.0))
    seen = stack.seen(np.array([[0.5, -1.0, 2.0, 2.0]]))
    np.testing.assert_allclose(seen, [[0.5, -1.0, 1.5, 3.0]])
    np.testing.assert_allclose(stack.normalizer()(seen), seen / (2 / np.sqrt(3)), rtol=1e-6)
    plain = Hierarchy("point_goal", EnvSettings(), config_of(skills="none", relative_goals=False, normalizer="ema"))
    np.testing.assert_array_equal(plain.seen(np.ones((1, 4))), np.ones((1, 4)))
    np.testing.assert_array_equal(plain.normalizer().std, 1.0)


def test_the_preset_of_the_paper_is_the_papers() -> None:
    for task, l_m in (("ant_goal", 20), ("ant_multi_goals", 5), ("half_cheetah_goal", 20)):
        config = build(downstream.DownstreamConfig, "downstream", "paper", task)
        assert (config.l_m, config.goal_range, config.latent_range, config.reward_scale) == (l_m, None, 2.0, 1.0)
        assert (config.replay_size, config.batch_size, config.gradient_steps, config.episodes_per_epoch) == (
            0,
            0,
            4,
            10,
        )
        assert (config.temperature, config.learn_temperature, config.learning_rate) == (0.01, False, 3e-4)
        assert not config.target_every_step
        assert not config.relative_goals
    assert build(downstream.DownstreamConfig, "downstream", "fast", "ant_goal", "none").gradient_steps == 1000


@pytest.mark.slow
def test_the_meta_controller_learns_and_the_planner_is_better_still(steering: Path, tmp_path: Path) -> None:
    options = ("--skills", steering, "--preset", "fast", "--quiet")
    call("downstream", "point_goal", *options, "--epochs", 15, "--evaluate-every", 5, "--run-dir", tmp_path / "sac")
    search = ("--controller", "planner", "--candidates", 64, "--elites", 8, "--iterations", 6)
    call("downstream", "point_goal", *options, *search, "--run-dir", tmp_path / "planner")
    sac, planner = evaluate_downstream([tmp_path / "sac", tmp_path / "planner"])
    assert (sac["method"], planner["method"]) == ("IBOL", "IBOL planner")
    assert sac["untrained_distance"] > 1.0
    assert sac["final_distance"] < 0.25 * sac["untrained_distance"]
    assert planner["untrained_distance"] > 1.0  # random latents
    assert planner["final_distance"] < 0.05
    rows = list(RunDirectory.open(tmp_path / "sac").metrics())
    assert [row["epoch"] for row in rows if "evaluation/goal_distance" in row] == [5, 10, 15]
    assert rows[-1]["env_steps"] == 15 * 64 * 50
    # What was logged is what the loaded controller does.
    policy = load_agent(tmp_path / "sac")
    assert isinstance(policy, MetaController)
    act = policy.hierarchy.controller(policy.choose)
    again = collect(policy.make_env(64), act, seed=EVALUATION_SEED)
    assert again.returns.mean() == pytest.approx(rows[-1]["evaluation/return"], rel=1e-5)
    plans = load_agent(tmp_path / "planner")
    assert isinstance(plans, Plans)
    assert plans.rollout(64).returns.mean() == pytest.approx(planner["final_return"], rel=1e-4)
    assert len(plans.rollout(65).states) == 64  # a plan is for its own episode


def test_a_run_without_skills_acts_at_every_step(tmp_path: Path) -> None:
    rows = trained(tmp_path / "none", "none")
    assert [row["env_steps"] for row in rows] == [200, 400, 600]
    assert load_agent(tmp_path / "none").rollout(2).actions.shape == (2, 50, 2)
    assert evaluate_downstream([tmp_path / "none"])[0]["method"] == "SAC"
    assert not (tmp_path / "none" / "skills").exists()


@pytest.mark.parametrize("controller", ["sac", "planner"])
def test_a_resumed_run_is_the_same_and_needs_no_other_run(controller: str, steering: Path, tmp_path: Path) -> None:
    skills = shutil.copytree(steering, tmp_path / "skills")
    flag = ("--controller", controller)
    steps = ("--iterations",) if controller == "planner" else ("--epochs",)
    whole = trained(tmp_path / "whole", skills, *flag, *steps, 4)
    trained(tmp_path / "broken", skills, *flag, *steps, 4, "--checkpoint-minutes", 0, "--keep-checkpoints", 4)
    broken = RunDirectory.open(tmp_path / "broken")
    for file in broken.checkpoints()[2:]:
        file.unlink()
    shutil.rmtree(skills)
    moved = shutil.move(tmp_path / "broken", tmp_path / "moved")
    call("resume", moved, "--quiet")
    found = RunDirectory.open(Path(moved))
    assert without_time(list(found.metrics())) == without_time(whole)
    ours, theirs = found.load_checkpoint()[0], RunDirectory.open(tmp_path / "whole").load_checkpoint()[0]
    assert {name: value.tobytes() for name, value in ours.items()} == {n: v.tobytes() for n, v in theirs.items()}
    assert load_agent(moved).rollout(2).states.shape == (2, 51, 4)


def test_overwriting_leaves_nothing_of_the_run_before(steering: Path, tmp_path: Path) -> None:
    trained(tmp_path / "run", steering)
    assert (tmp_path / "run" / "skills").exists()
    trained(tmp_path / "run", "none", "--overwrite")
    assert load_agent(tmp_path / "run").hierarchy.skills is None


def test_a_run_cannot_replace_what_it_is_to_use(
    steering: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    skills = shutil.copytree(steering, tmp_path / "skills")
    options = ("--preset", "smoke", "--run-dir", skills, "--overwrite")
    assert "which this run is to use" in fails(capsys, "downstream", "point_goal", "--skills", skills, *options)
    assert load_agent(skills).latent_dim == 2


def test_a_planners_run_is_extended_by_iterations(steering: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(run, steering, "--controller", "planner", "--iterations", 1)
    call("resume", run, "--epochs", 2, "--quiet")
    found = RunDirectory.open(run)
    assert found.config["settings"]["iterations"] == 2
    assert [row["epoch"] for row in found.metrics()] == [1, 2]


def test_decisions_name_discrete_skills(tmp_path: Path) -> None:
    about = SkillDescription("point", EnvSettings(), 2, 2, 3, (0, 1), (), (2,), linearized=False, prior="one_hot")
    skills = write_skills(tmp_path / "discrete", about, about.policy_template())
    hierarchy = Hierarchy("point_goal", EnvSettings(), config_of(skills=str(skills)))
    chosen = hierarchy.latents(np.array([[0.1, 0.3, -1.0], [-0.5, -0.9, -0.2]]))
    np.testing.assert_array_equal(chosen, [[0, 1, 0], [0, 0, 1]])


def test_tables_curves_films_and_pages_know_tasks(
    steering: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [tmp_path / name for name in ("a", "b", "none", "planner")]
    trained(runs[0], steering)
    trained(runs[1], steering, "--seed", 1)
    trained(runs[2], "none")
    trained(runs[3], steering, "--controller", "planner", "--evaluation-episodes", 5)
    capsys.readouterr()
    call("evaluate", *runs, "--json", tmp_path / "table.json")
    shown = capsys.readouterr().out
    for word in ("last return", "final distance", "mean of 2 runs", "IBOL planner", "SAC", "point_goal"):
        assert word in shown
    rows = json.loads((tmp_path / "table.json").read_text())
    mean = next(row for row in rows if row["run"] == "mean of 2 runs")
    assert mean["final_return"] == pytest.approx(np.mean([row["final_return"] for row in rows[:2]]))
    logged = list(RunDirectory.open(runs[0]).metrics())
    assert rows[0]["last_return"] == logged[-1]["return"], "the last tenth of 3 epochs"
    assert rows[0]["untrained_distance"] == logged[0]["untrained/goal_distance"]
    call("plot", *runs, "--figure", "curves", "--output", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000
    for run, count in ((runs[0], 8), (runs[3], 5)):
        found = load_episodes(str(run))
        assert found.env == "point"
        assert found.goals is not None
        assert found.goals.shape == (count, 51, 2)
        off = np.linalg.norm(found.states[:, -1, :2] - found.goals[:, -1], axis=1)
        assert found.labels == tuple(f"{distance:.1f} m off" for distance in off)
    call("video", runs[0], "--output", tmp_path / "film.png", "--size", 80, "--quiet")
    call("report", runs[0], runs[2], "--output", tmp_path / "page.html", "--no-films", "--quiet")
    page = (tmp_path / "page.html").read_text()
    assert "final distance" in page
    assert "ibol downstream point_goal --preset smoke --seed 0 --skills none" in page


def test_the_imitation_set_is_decided_by_its_seed_and_says_what_made_it(
    steering: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy_run(steering, tmp_path / "other", seed=1)
    files = [tmp_path / f"{name}.safetensors" for name in "abc"]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        options = ("--output", file, "--trajectories", 30, "--seed", seed, "--quiet")
        call("imitation-set", steering, other, *options)
    assert "60 paths" in capsys.readouterr().out
    (first, about), (same, _), (another, _) = (checkpoint.load(file) for file in files)
    assert first["locations"].shape == (60, 6, 2)
    np.testing.assert_array_equal(first["run"], [0] * 30 + [1] * 30)
    np.testing.assert_array_equal(first["locations"], same["locations"])
    assert (first["locations"] != another["locations"]).any()
    assert (first["locations"][:30] != first["locations"][30:]).any()
    assert [run["seed"] for run in about["imitation_set"]["runs"]] == [0, 1]
    assert about["imitation_set"]["versions"]["mujoco"]
    assert "exists" in fails(capsys, "imitation-set", steering, "--output", files[0])


def test_wrong_calls_are_explained(steering: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ("downstream", "point_goal", "--preset", "smoke", "--run-dir", tmp_path / "run")
    assert "--skills RUN, or give --skills none" in fails(capsys, *start)
    assert "is not a run" in fails(capsys, *start, "--skills", tmp_path)
    assert "did you mean 'ant_goal'" in fails(capsys, "downstream", "ant_gaol", "--skills", "none")
    assert "unknown task 'point'" in fails(capsys, "downstream", "point", "--skills", "none")
    assert "this task is for ant" in fails(capsys, "downstream", "ant_goal", "--skills", steering)
    assert "--l-m is 0, but at least 1" in fails(capsys, *start, "--skills", steering, "--l-m", 0)
    assert "--goal-range is 0, but more than 0" in fails(capsys, *start, "--skills", "none", "--goal-range", 0)
    assert "chooses among skills" in fails(capsys, *start, "--skills", "none", "--controller", "planner")
    planner = (*start, "--skills", steering, "--controller", "planner")
    assert "from 2 to all 6 candidates" in fails(capsys, *planner, "--elites", 7)
    imitate = ("downstream", "half_cheetah_imitation", "--skills", "none")
    assert "ibol imitation-set" in fails(capsys, *imitate)
    assert "there is no imitation set nowhere" in fails(capsys, *imitate, "--imitation-set", "nowhere")
    assert "at least one run" in fails(capsys, "imitation-set")
    assert "at least 1 is needed" in fails(capsys, "imitation-set", steering, "--trajectories", 0)
    assert not (tmp_path / "run").exists()
