"""The downstream tasks: their goals, rewards and observations against closed forms."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from ibol import IbolError, make
from ibol.envs import ENVS, ROBOTS, TASKS, DKittyEnv, Task, TaskEnv
from ibol.envs.registry import task_entry
from ibol.learners.rollout import Trajectories, collect
from ibol.runs import checkpoint

IDS = {
    "ant_goal": "ibol/AntGoal-v0",
    "ant_multi_goals": "ibol/AntMultiGoals-v0",
    "half_cheetah_goal": "ibol/HalfCheetahGoal-v0",
    "half_cheetah_imitation": "ibol/HalfCheetahImitation-v0",
    "point_goal": "ibol/PointGoal-v0",
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three paths of HalfCheetah at 21 moments."""
    file = tmp_path_factory.mktemp("set") / "paths.safetensors"
    locations = np.linspace(0, 1, 21)[None, :, None] * np.array([-10.0, 0.0, 20.0])[:, None, None]
    about = {"env": "half_cheetah", "every": 10}
    checkpoint.save(file, {"locations": locations.astype(np.float32)}, {"imitation_set": about})
    return file


def task(name: str, num_envs: int = 3, paths: Path | None = None, **options: object) -> TaskEnv:
    given = {"imitation_set": paths} if name == "half_cheetah_imitation" else {}
    env = make(name, num_envs, 1, autoreset=AutoresetMode.DISABLED, **given, **options)
    assert isinstance(env, TaskEnv)
    return env


def episodes(env: TaskEnv, seed: int = 0) -> Trajectories:
    rng = np.random.default_rng(seed)
    return collect(env, lambda states, step: rng.uniform(-1, 1, env.action_space.shape), seed=seed)


def test_every_task_is_registered() -> None:
    assert list(TASKS) == list(IDS)
    assert set(IDS.values()) <= set(gymnasium.registry)


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_is_content(name: str, paths: Path) -> None:
    given = {"imitation_set": str(paths)} if name == "half_cheetah_imitation" else {}
    check_env(gymnasium.make(IDS[name], **given).unwrapped, skip_render_check=True)


@pytest.mark.parametrize(
    ("name", "targets", "goal_range"),
    [("ant_goal", 2, 50), ("ant_multi_goals", 2, 15), ("half_cheetah_goal", 1, 60), ("half_cheetah_imitation", 20, 0)],
)
def test_the_observation_is_the_state_and_then_the_targets(
    name: str, targets: int, goal_range: float, paths: Path
) -> None:
    env = task(name, 300, paths)
    obs, _ = env.reset(seed=5)
    robot = make(TASKS[name].robot, 300, 1, autoreset=AutoresetMode.DISABLED)
    np.testing.assert_array_equal(obs[:, :-targets], robot.reset(seed=5)[0])
    assert env.horizon == ROBOTS[TASKS[name].robot].horizon == 200
    assert env.robot_dim + targets == obs.shape[1]
    if goal_range:  # the largest of 300 draws or more
        assert 0.97 * goal_range < np.abs(obs[:, -targets:]).max() <= goal_range
        assert obs[:, -targets:].std() == pytest.approx(env.spread, rel=0.1)
        assert np.abs(task(name, 300, goal_range=2.0).reset(seed=0)[0][:, -targets:]).max() <= 2.0


@pytest.mark.parametrize("name", ["ant_goal", "half_cheetah_goal", "point_goal"])
def test_a_goal_rewards_the_distance_at_the_end_alone(name: str) -> None:
    env = task(name)
    rollouts = episodes(env)
    goals = rollouts.states[:, 0, env.robot_dim :]
    places = rollouts.states[:, -1, list(env.location_dims)]
    distance = np.sqrt(((goals - places) ** 2).sum(axis=1))
    assert not rollouts.rewards[:, :-1].any()
    np.testing.assert_allclose(rollouts.rewards[:, -1], -distance, rtol=1e-5)
    np.testing.assert_allclose(env.distance(rollouts.returns), distance, rtol=1e-5)
    np.testing.assert_array_equal(env.targets(rollouts.states), np.repeat(goals[:, None], env.horizon + 1, axis=1))


def test_multi_goals_come_every_50_steps_around_the_robot() -> None:
    env = task("ant_multi_goals", 16, goal_range=4.0)
    rollouts = episodes(env)
    goals, places = rollouts.states[:, :, env.robot_dim :], rollouts.states[:, :, :2]
    moments = [50, 100, 150, 200]
    assert not np.delete(rollouts.rewards, [m - 1 for m in moments], axis=1).any()
    total = np.zeros(16)
    for m in moments:
        distance = np.linalg.norm(goals[:, m - 1] - places[:, m], axis=1)
        np.testing.assert_allclose(rollouts.rewards[:, m - 1], -distance, rtol=1e-4)
        total += distance
        assert (goals[:, m - 1] == goals[:, m - 50]).all()
        if m < 200:
            offset = goals[:, m] - places[:, m]
            assert 3.5 < np.abs(offset).max() <= 4.0 + 1e-5
            assert abs(offset.mean()) < 1.6  # four standard errors of the mean of 32
    np.testing.assert_allclose(env.distance(rollouts.returns), total / 4, rtol=1e-5)


def test_imitation_rewards_squared_distances_every_10_steps(paths: Path) -> None:
    env = task("half_cheetah_imitation", 8, paths)
    rollouts = episodes(env)
    path, x = rollouts.states[:, 0, 18:], rollouts.states[:, 10::10, 0]
    squared = (path - x) ** 2
    np.testing.assert_allclose(rollouts.rewards[:, 9::10], -squared / 20 / 30, rtol=1e-4, atol=1e-6)
    assert not np.delete(rollouts.rewards, np.arange(9, 200, 10), axis=1).any()
    np.testing.assert_allclose(env.distance(rollouts.returns), np.sqrt(squared.mean(axis=1)), rtol=1e-4)
    ends = set(path[:, -1].tolist())
    assert ends <= {-10.0, 0.0, 20.0}
    assert len(ends) > 1
    places = env.targets(rollouts.states)
    assert places.shape == (8, 201, 1)
    np.testing.assert_array_equal(places[:, [0, 1, 10, 11, 200], 0], path[:, [0, 0, 0, 1, 19]])


@pytest.mark.parametrize("name", ["ant_multi_goals", "half_cheetah_imitation"])
def test_an_environment_of_a_batch_is_the_single_one_with_its_seed(name: str, paths: Path) -> None:
    batch, single = task(name, 3, paths), task(name, 1, paths)
    actions = np.random.default_rng(0).uniform(-1, 1, (60, 3, batch.action_space.shape[1]))
    batch.reset(seed=7)
    single.reset(seed=9)
    for action in actions:
        many, rewards, *_ = batch.step(action)
        one, reward, *_ = single.step(action[2:])
        np.testing.assert_array_equal(many[2], one[0])
        assert rewards[2] == reward[0]


def test_episodes_start_anew_by_themselves_with_another_goal() -> None:
    env = make("point_goal", 2, horizon=5)
    first, _ = env.reset(seed=0)
    for _ in range(5):
        obs, _, _, truncated, info = env.step(np.zeros((2, 2)))
    assert truncated.all()
    np.testing.assert_array_equal(info["final_obs"][:, 2:], first[:, 2:])
    assert (obs[:, 2:] != first[:, 2:]).all()


def test_wrong_options_are_explained(paths: Path, tmp_path: Path) -> None:
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(IbolError, match="more than 0 metres"):
            make("ant_goal", goal_range=wrong)
    with pytest.raises(IbolError, match="ibol imitation-set RUN"):
        make("half_cheetah_imitation")
    with pytest.raises(IbolError, match=r"^unknown option of half_cheetah_imitation 'goal_range': .*imitation_set"):
        make("half_cheetah_imitation", imitation_set=paths, goal_range=3.0)
    with pytest.raises(IbolError, match=r"^unknown option of ant_goal 'imitation_set': .*goal_range"):
        make("ant_goal", imitation_set=paths)
    with pytest.raises(IbolError, match="have 200 steps"):
        make("half_cheetah_imitation", imitation_set=paths, horizon=100)
    with pytest.raises(IbolError, match="there is no imitation set"):
        make("half_cheetah_imitation", imitation_set=tmp_path / "nothing")
    checkpoint.save(tmp_path / "other.safetensors", {"a": np.zeros(1)}, {})
    with pytest.raises(IbolError, match="is not an imitation set"):
        make("half_cheetah_imitation", imitation_set=tmp_path / "other.safetensors")
    about = {"env": "ant", "every": 10}
    checkpoint.save(tmp_path / "ant.safetensors", {"locations": np.zeros((1, 21, 2))}, {"imitation_set": about})
    with pytest.raises(IbolError, match="are those of ant"):
        make("half_cheetah_imitation", imitation_set=tmp_path / "ant.safetensors")
    with pytest.raises(IbolError, match="did you mean 'ant_goal'"):
        make("ant_gol")


@pytest.fixture
def dkitty_goals(monkeypatch: pytest.MonkeyPatch) -> str:
    """A task for D'Kitty, for the time of a test."""
    added = Task("dkitty_goals", "be at a random place every 5 steps", "dkitty", 2.0, 5)
    monkeypatch.setitem(ENVS, added.name, task_entry(added, ENVS["dkitty"]))
    return added.name


def test_a_task_has_its_robots_own_class_and_options(dkitty_goals: str) -> None:
    env = task(dkitty_goals, 3)
    assert isinstance(env.body, DKittyEnv)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (3, 45)
    masses = [env.body.dynamics(i).body_mass.sum() for i in range(3)]
    assert len(set(masses)) == 3, "random dynamics"
    alone = make("dkitty", 3, 1, autoreset=AutoresetMode.DISABLED)
    np.testing.assert_array_equal(alone.reset(seed=0)[0], obs[:, :43])
    assert masses == [alone.dynamics(i).body_mass.sum() for i in range(3)]
    actions = 0.3 * np.random.default_rng(0).uniform(-1, 1, (3, 12))
    np.testing.assert_array_equal(alone.step(actions)[0], env.step(actions)[0][:, :43])
    fixed = task(dkitty_goals, 2, randomize=False)
    assert fixed.body.dynamics(0) is fixed.body.model
    with pytest.raises(IbolError, match="unknown option of ant_goal 'randomize'"):
        make("ant_goal", randomize=False)


def test_to_fall_early_does_not_pay(dkitty_goals: str) -> None:
    env = task(dkitty_goals, 2, horizon=20)
    env.reset(seed=0)
    for _ in range(6):
        env.step(np.zeros((2, 12)))
    env.body._state[1, 3] = 0.5
    obs, reward, terminated, _, _ = env.step(np.zeros((2, 12)))
    assert terminated.tolist() == [False, True]
    # Goals count after 5, 10, 15 and 20 steps: three of them were to come.
    assert reward[1] == pytest.approx(-3 * np.linalg.norm(obs[1, 43:] - obs[1, :2]))
    assert reward[0] == 0.0
    generator = env._rngs[1].bit_generator.state
    for _ in range(4):
        resting, reward, *_ = env.step(np.zeros((2, 12)))
    np.testing.assert_array_equal(resting[1], obs[1])
    assert (resting[0, 43:] != obs[0, 43:]).all(), "a new goal"
    assert reward[1] == 0.0
    assert env._rngs[1].bit_generator.state == generator, "an ended episode draws nothing"


@pytest.mark.parametrize("name", [name for name in IDS if name != "point_goal"])
def test_a_diverged_simulation_is_judged_as_if_it_stayed(name: str, paths: Path) -> None:
    env = task(name, 2, paths)
    env.reset(seed=0)
    still = np.zeros(env.action_space.shape)
    for _ in range(60):
        before = env.step(still)[0][1]
    env.body._state[1, env.body.model.nq] = np.nan
    with pytest.warns(RuntimeWarning, match="diverged in environment 1"):
        _, reward, _, truncated, _ = env.step(still)
    assert truncated.tolist() == [False, True]
    place, targets = before[list(env.location_dims)], before[env.robot_dim :]
    if name == "half_cheetah_imitation":
        expected = -((targets - place)[6:] ** 2).sum() / 20 / 30  # moments 70, 80, ... 200 were to come
    else:
        due = 3 if name == "ant_multi_goals" else 1
        expected = -due * np.linalg.norm(targets - place)
    assert reward[1] == pytest.approx(expected)
    assert reward[1] < 0
