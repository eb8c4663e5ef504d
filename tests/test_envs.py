import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import ibol
from ibol import IbolError
from ibol.envs import ENVS, ROBOTS, TASKS, make, names
from ibol.envs.rendering import Renderer
from ibol.envs.robots import has_fallen, load_model, quiet_mujoco, untimed_mujoco
from ibol.envs.single import SingleEnv
from ibol.envs.symmetry import symmetries
from ibol.gl import find_backend
from ibol.seeding import derive
from ibol.skills.env import SkillEnv

# name: qpos, qvel, actions, horizon, seconds in a step, location dimensions, actuator limit
FACTS = {
    "ant": (15, 14, 8, 200, 0.05, (0, 1), 1.0),
    "half_cheetah": (9, 9, 6, 200, 0.05, (0,), 1.0),
    "hopper": (6, 6, 3, 500, 0.008, (0,), 1.0),
    "humanoid": (24, 23, 17, 1000, 0.015, (0, 1), 0.4),
}
ENV_IDS = {
    "ant": "ibol/Ant-v0",
    "half_cheetah": "ibol/HalfCheetah-v0",
    "hopper": "ibol/Hopper-v0",
    "humanoid": "ibol/Humanoid-v0",
    "dkitty": "ibol/Dkitty-v0",
    "point": "ibol/Point-v0",
}


def random_actions(env, steps, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (steps, *env.action_space.shape))


def run(env, actions):
    """Observations (steps, N, n) and rewards (steps, N)."""
    obs, rewards = [], []
    for action in actions:
        o, r, *_ = env.step(action)
        obs.append(o)
        rewards.append(r)
    return np.array(obs), np.array(rewards)


def assets():
    return Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"


# What the robots are


def test_names_and_registered_ids():
    assert names() == list(ENV_IDS)
    assert list(ENVS) == [*ENV_IDS, *TASKS]
    assert {name: ENVS[name].gym_id for name in names()} == ENV_IDS
    assert set(ENV_IDS.values()) <= set(gymnasium.registry)
    assert ibol.make is make


@pytest.mark.parametrize("name", FACTS)
def test_robot_sizes(name):
    nq, nv, nu, horizon, dt, location_dims, limit = FACTS[name]
    env = make(name, num_envs=2, num_threads=1)
    assert (env.model.nq, env.model.nv, env.model.nu) == (nq, nv, nu)
    assert env.observation_space.shape == (2, nq + nv)
    assert env.action_space.shape == (2, nu)
    assert np.all(env.action_space.low == -1)
    assert np.all(env.action_space.high == 1)
    assert env.horizon == horizon
    assert env.dt == pytest.approx(dt)
    assert env.location_dims == location_dims
    np.testing.assert_allclose(env.model.actuator_ctrlrange, np.tile([-limit, limit], (nu, 1)))
    assert env.num_threads == 1


@pytest.mark.parametrize("name", [name for name in ENVS if name != "half_cheetah_imitation"])
def test_what_the_registry_says_is_so(name):
    entry, env = ENVS[name], make(name)
    assert (env.name, env.horizon, env.location_dims) == (name, entry.horizon, entry.location_dims)
    if entry.robot is not None:
        assert entry.robot.num_positions == load_model(entry.robot).nq
        assert entry.robot is ROBOTS[name if entry.task is None else entry.task.robot]


def test_half_cheetah_weighs_14_kg_as_its_file_asks():
    with quiet_mujoco():
        direct = mujoco.MjModel.from_xml_path(str(assets() / "half_cheetah.xml"))
    ours = load_model(ROBOTS["half_cheetah"])
    assert ours.body_mass.sum() == pytest.approx(14.0, abs=1e-12)
    for field in ("body_mass", "body_inertia", "body_subtreemass", "dof_invweight0", "body_invweight0", "dof_M0"):
        np.testing.assert_allclose(getattr(ours, field), getattr(direct, field), rtol=1e-12, err_msg=field)


# Initial states


@pytest.mark.parametrize("name", FACTS)
def test_initial_states_are_the_models_plus_noise(name):
    robot, (nq, nv, *_) = ROBOTS[name], FACTS[name]
    env = make(name, num_envs=400, num_threads=1)
    obs, _ = env.reset(seed=3)
    noise = obs - np.concatenate([env.model.qpos0, np.zeros(nv)])
    positions, velocities = noise[:, :nq], noise[:, nq:]
    if name in ("ant", "humanoid"):
        np.testing.assert_allclose(np.linalg.norm(obs[:, 3:7], axis=1), 1.0, rtol=1e-12)
        positions = np.delete(positions, range(3, 7), axis=1)
    # The largest of 400 x 6 or more uniform draws reaches 0.99 of the range but for a chance below 1e-10.
    size = {"ant": 0.1, "half_cheetah": 0.1, "hopper": 0.005, "humanoid": 0.01}[name]
    assert robot.qpos_noise == size
    assert 0.99 * size < np.abs(positions).max() <= size
    if name in ("ant", "half_cheetah"):
        # 3600 normal draws or more: the standard error of their standard deviation is below 1.2 %.
        assert velocities.std() == pytest.approx(0.1, rel=0.05)
        assert np.abs(velocities).max() > 0.25
    else:
        assert 0.99 * size < np.abs(velocities).max() <= size


def test_point_starts_near_the_origin():
    obs, _ = make("point", num_envs=1000).reset(seed=0)
    assert obs.shape == (1000, 2)
    assert 0.049 < np.abs(obs).max() <= 0.05


# Steps


def test_point_dynamics():
    env = make("point", num_envs=2)
    start, _ = env.reset(seed=0)
    obs, reward, terminated, truncated, _ = env.step([[1.0, -0.5], [0.25, 7.0]])
    np.testing.assert_array_equal(obs, start + 0.1 * np.array([[1.0, -0.5], [0.25, 1.0]]))
    np.testing.assert_allclose(reward, [0.1, 0.025], rtol=1e-15)
    assert not (terminated | truncated).any()
    assert env.horizon == 50


@pytest.mark.parametrize("name", FACTS)
def test_batched_physics_is_a_plain_mujoco_loop(name):
    env = make(name, num_envs=3, num_threads=2, **({"terminate": False} if name == "humanoid" else {}))
    start, _ = env.reset(seed=7)
    actions = random_actions(env, 12)
    obs, _ = run(env, actions)
    model, nq, scale = env.model, env.model.nq, FACTS[name][-1]
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start[1, :nq], start[1, nq:]
    for action, reached in zip(actions[:, 1], obs[:, 1], strict=True):
        data.ctrl[:] = scale * action
        for _ in range(ROBOTS[name].frame_skip):
            mujoco.mj_step(model, data)
        expected = np.concatenate([data.qpos, data.qvel])
        if name == "hopper":
            expected[nq:] = expected[nq:].clip(-10, 10)
        np.testing.assert_array_equal(reached, expected)


@pytest.mark.parametrize(
    ("name", "forward", "alive", "cost"),
    [("ant", 1, 1, 0.5), ("half_cheetah", 1, 0, 0.1), ("hopper", 1, 1, 1e-3), ("humanoid", 1.25, 5, 0.1)],
)
def test_external_reward_is_its_formula(name, forward, alive, cost):
    env = make(name, num_envs=4, num_threads=1)
    start, _ = env.reset(seed=1)
    actions = random_actions(env, 5)
    obs, rewards = run(env, actions)
    x = np.concatenate([start[None], obs])[:, :, 0]
    dt, scale = FACTS[name][4], FACTS[name][-1]
    expected = forward * np.diff(x, axis=0) / dt + alive - cost * np.sum((scale * actions) ** 2, axis=-1)
    np.testing.assert_allclose(rewards, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FACTS)
def test_actions_are_clipped_and_mapped_to_the_actuators(name):
    env, wild = make(name, num_envs=2, num_threads=1), make(name, num_envs=2, num_threads=1)
    env.reset(seed=0)
    wild.reset(seed=0)
    actions = np.sign(random_actions(env, 1)[0])
    obs, reward, *_ = env.step(actions)
    np.testing.assert_array_equal(env._ctrl, FACTS[name][-1] * actions)
    obs_wild, reward_wild, *_ = wild.step(5 * actions)
    np.testing.assert_array_equal(obs, obs_wild)
    np.testing.assert_array_equal(reward, reward_wild)


def test_hopper_velocities_are_clipped_in_the_observation_only():
    env = make("hopper", num_envs=1)
    env.reset(seed=0)
    env._state[0, 6:] = [12, 0, 0, 0, 0, -30]
    obs, *_ = env.step(np.zeros((1, 3)))
    assert obs[0, 6] == 10.0
    assert obs[0, 11] == -10.0
    assert env._state[0, 6] > 10.0
    assert np.abs(obs[0, 7:11]).max() < 10.0


@pytest.mark.parametrize("height", [0.9, 2.2])
def test_humanoid_terminates_outside_its_heights(height):
    for terminate in (True, False):
        env = make("humanoid", num_envs=2, num_threads=1, terminate=terminate)
        env.reset(seed=0)
        env._state[1, 2] = height
        _, _, terminated, truncated, info = env.step(np.zeros((2, 17)))
        assert terminated.tolist() == [False, terminate]
        assert not truncated.any()
        assert ("final_obs" in info) == terminate
        if terminate:
            assert abs(info["final_obs"][1, 2] - height) < 0.1


def test_the_exchanges_of_ants_limbs_leave_its_physics_as_it_is():
    env = make("ant", 8, autoreset=AutoresetMode.DISABLED)
    exchanges = symmetries(env.robot, env.model)
    assert len(exchanges) == 8, "four turns, each with its mirror image"
    np.testing.assert_array_equal(exchanges.state_index[0], np.arange(29))
    env.reset(seed=0)
    run(env, random_actions(env, 30))
    start, actions = env._state[0].copy(), random_actions(env, 10)[:, 0]
    env._state[:] = start[exchanges.state_index] * exchanges.state_sign
    obs, _ = run(env, actions[:, exchanges.action_index] * exchanges.action_sign)
    turned = obs[:, 0][:, exchanges.state_index] * exchanges.state_sign
    np.testing.assert_allclose(obs, turned, atol=1e-9)
    assert np.abs(obs[-1, 1] - obs[-1, 0]).max() > 0.1, "the exchange changes something"


def test_humanoids_mirror_image_moves_nearly_as_it_does():
    env = make("humanoid", 2, autoreset=AutoresetMode.DISABLED)
    exchanges = symmetries(env.robot, env.model)
    assert len(exchanges) == 2
    env.reset(seed=0)
    run(env, random_actions(env, 10))
    start, actions = env._state[0].copy(), random_actions(env, 3)[:, 0]
    env._state[:] = start[exchanges.state_index] * exchanges.state_sign
    obs, _ = run(env, actions[:, exchanges.action_index] * exchanges.action_sign)
    mirrored = obs[-1, 0][exchanges.state_index[1]] * exchanges.state_sign[1]
    positions = slice(env.model.nq)
    np.testing.assert_allclose(obs[-1, 1, positions], mirrored[positions], atol=0.01)
    assert np.abs(obs[-1, 1, positions] - obs[-1, 0, positions]).max() > 0.3


def test_a_robot_without_generators_has_only_the_identity():
    env = make("half_cheetah")
    assert len(symmetries(env.robot, env.model)) == 1


def test_a_fall_ends_an_episode_only_on_request():
    for asked in (False, True):
        env = make("ant", 2, autoreset=AutoresetMode.DISABLED, end_when_fallen=asked)
        env.reset(seed=0)
        env._state[1, 2:7] = [1.0, 0.0, 1.0, 0.0, 0.0]  # half a turn about x
        _, _, terminated, _, _ = env.step(np.zeros((2, 8)))
        assert terminated.tolist() == [False, asked]
    assert has_fallen(ROBOTS["ant"], np.eye(29)[3:7]).tolist() == [False, True, True, False]
    assert has_fallen(ROBOTS["hopper"], np.eye(12)[2] * np.array([[0.9], [-1.1]])).tolist() == [False, True]
    assert not has_fallen(ROBOTS["half_cheetah"], np.ones((3, 18))).any()


def test_humanoid_falls_on_its_own_but_other_robots_never_terminate():
    humanoid = make("humanoid", num_envs=4, autoreset=AutoresetMode.DISABLED)
    humanoid.reset(seed=0)
    for action in random_actions(humanoid, 100):
        obs, _, terminated, truncated, _ = humanoid.step(action)
    assert terminated.all()
    assert not truncated.any()
    assert (obs[:, 2] < 1.0).all()
    hopper = make("hopper", num_envs=4, autoreset=AutoresetMode.DISABLED, horizon=150)
    hopper.reset(seed=0)
    for action in random_actions(hopper, 150):
        obs, _, terminated, truncated, _ = hopper.step(action)
    assert (obs[:, 1] < 0.7).any(), "a hopper lies on the ground"
    assert not terminated.any()
    assert truncated.all()


# Reproducibility


@pytest.mark.parametrize("name", ["ant", "hopper", "point"])
def test_trajectories_do_not_depend_on_the_batch(name):
    steps, seed = 20, 5
    threads = {} if name == "point" else {"num_threads": 1}
    env = make(name, num_envs=4, **threads)
    start, _ = env.reset(seed=seed)
    actions = random_actions(env, steps)
    obs, rewards = run(env, actions)

    wide = make(name, num_envs=9, **({} if name == "point" else {"num_threads": 3}))
    wide_start, _ = wide.reset(seed=seed)
    more = np.concatenate([actions, random_actions(make(name, num_envs=5), steps, seed=1)], axis=1)
    wide_obs, wide_rewards = run(wide, more)
    np.testing.assert_array_equal(start, wide_start[:4])
    np.testing.assert_array_equal(obs, wide_obs[:, :4])
    np.testing.assert_array_equal(rewards, wide_rewards[:, :4])

    single = gymnasium.make(ENV_IDS[name])
    for i in (0, 3):
        first, _ = single.reset(seed=seed + i)
        np.testing.assert_array_equal(first, start[i])
        for t in range(steps):
            o, r, *_ = single.step(actions[t, i].astype(np.float64))
            np.testing.assert_array_equal(o, obs[t, i])
            assert r == rewards[t, i]


def test_a_reset_leaves_nothing_of_the_past():
    env = make("ant", num_envs=2, num_threads=1)
    start, _ = env.reset(seed=0)
    actions = random_actions(env, 15)
    obs, _ = run(env, actions)
    again, _ = env.reset(seed=0)
    np.testing.assert_array_equal(start, again)
    np.testing.assert_array_equal(obs, run(env, actions)[0])


def test_seeds():
    env = make("point", num_envs=3, seed=11)
    first, _ = env.reset()
    second, _ = env.reset()
    assert not np.isclose(first, second).any(), "the generators move on"
    np.testing.assert_array_equal(first, env.reset(seed=11)[0])
    np.testing.assert_array_equal(first[::-1], env.reset(seed=[13, 12, 11])[0])
    # None keeps that environment's generator, which has drawn once since it was seeded with 12.
    mixed, _ = env.reset(seed=[11, None, 13])
    np.testing.assert_array_equal(mixed[[0, 2]], first[[0, 2]])
    np.testing.assert_array_equal(mixed[1], second[1])


def test_returned_arrays_are_the_callers():
    env, expected = make("point", num_envs=2), make("point", num_envs=2)
    action = np.full((2, 2), 0.5)
    env.reset(seed=0)[0][:] = 99
    *arrays, info = env.step(action)
    for array in (*arrays, info["divergences"]):
        array[:] = 99
    expected.reset(seed=0)
    expected.step(action)
    for ours, theirs in zip(env.step(action)[:4], expected.step(action)[:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert env.divergences.tolist() == [0, 0]


# The ends of episodes


def test_same_step_keeps_the_final_observation():
    env = make("point", num_envs=2, horizon=3)
    start, _ = env.reset(seed=0)
    fresh = make("point", num_envs=2)
    fresh.reset(seed=0)
    next_start, _ = fresh.reset()
    action = np.full((2, 2), 0.5)
    for _ in range(2):
        *_, truncated, info = env.step(action)
        assert not truncated.any()
        assert "final_obs" not in info
    obs, reward, terminated, truncated, info = env.step(action)
    assert truncated.all()
    assert not terminated.any()
    assert info["_final_obs"].all()
    np.testing.assert_allclose(info["final_obs"], start + 0.15, rtol=1e-12)
    np.testing.assert_array_equal(obs, next_start)
    np.testing.assert_allclose(reward, 0.05)
    obs, _, _, truncated, _ = env.step(action)
    np.testing.assert_allclose(obs, next_start + 0.05, rtol=1e-12)
    assert not truncated.any()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_episode_ends_are_those_of_gymnasiums_own_vectorisation(mode):
    ours = make("point", num_envs=2, horizon=3, autoreset=mode)
    theirs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("ibol/Point-v0", horizon=3)] * 2, autoreset_mode=mode
    )
    np.testing.assert_array_equal(ours.reset(seed=4)[0], theirs.reset(seed=4)[0])
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    action = np.ones((2, 2), np.float32)
    for step in range(11):
        obs, reward, terminated, truncated, info = ours.step(action)
        obs2, reward2, terminated2, truncated2, info2 = theirs.step(action)
        np.testing.assert_array_equal(reward, reward2)
        np.testing.assert_array_equal(terminated, terminated2)
        np.testing.assert_array_equal(truncated, truncated2)
        np.testing.assert_array_equal(obs, obs2)
        assert ("final_obs" in info) == ("final_obs" in info2)
        if step == 2 and mode == AutoresetMode.SAME_STEP:
            np.testing.assert_array_equal(info["final_obs"], np.stack(info2["final_obs"]))
            np.testing.assert_array_equal(info["_final_obs"], info2["_final_obs"])


def fallen_humanoids(mode):
    """Two humanoids, the second of which has just terminated, and what the first does with the same seed alone."""
    env = make("humanoid", num_envs=2, num_threads=1, autoreset=mode)
    alone = make("humanoid", num_envs=1, num_threads=1)
    env.reset(seed=0)
    alone.reset(seed=0)
    env._state[1, 2] = 0.9
    actions = random_actions(env, 3)
    expected, _ = run(alone, actions[:, :1])
    obs, _, terminated, _, _ = env.step(actions[0])
    assert terminated.tolist() == [False, True]
    return env, obs, actions[1:], expected[1:, 0]


def test_next_step_starts_anew_at_the_following_step():
    env, ended, actions, expected = fallen_humanoids(AutoresetMode.NEXT_STEP)
    assert ended[1, 2] < 1.0
    obs, reward, terminated, truncated, _ = env.step(actions[0])
    assert not (terminated | truncated).any()
    assert reward[1] == 0.0
    assert np.abs(obs[1] - np.concatenate([env.model.qpos0, np.zeros(23)])).max() <= 0.0101, "an initial state"
    np.testing.assert_array_equal(obs[0], expected[0])
    moved, reward, *_ = env.step(actions[1])
    assert reward[1] != 0.0
    assert not np.isclose(moved[1], obs[1]).all()
    np.testing.assert_array_equal(moved[0], expected[1])


def test_disabled_rests_at_no_cost_until_it_is_reset(monkeypatch):
    env, ended, actions, expected = fallen_humanoids(AutoresetMode.DISABLED)
    stepped, step = [], env._batch.step
    monkeypatch.setattr(env._batch, "step", lambda ids, nstep: (stepped.append(ids), step(ids, nstep)))
    clock = env._batch.time[1]
    obs, reward, terminated, truncated, info = env.step(actions[0])
    assert [ids.tolist() for ids in stepped] == [[0]]
    assert env._batch.time[1] == clock
    assert "final_obs" not in info
    assert terminated.tolist() == [False, True]
    assert not truncated.any()
    assert reward[1] == 0.0
    np.testing.assert_array_equal(obs[1], ended[1])
    np.testing.assert_array_equal(obs[0], expected[0])

    fresh, _ = env.reset(options={"reset_mask": np.array([False, True])})
    np.testing.assert_array_equal(fresh[0], obs[0])
    assert abs(fresh[1, 2] - 1.4) <= 0.01
    moved, _, terminated, _, _ = env.step(actions[1])
    assert not terminated.any()
    np.testing.assert_array_equal(moved[0], expected[1])


def test_all_may_rest():
    env = make("hopper", num_envs=2, num_threads=1, horizon=1, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    obs, _, _, truncated, _ = env.step(np.ones((2, 3)))
    assert truncated.all()
    again, reward, terminated, truncated, _ = env.step(np.ones((2, 3)))
    np.testing.assert_array_equal(again, obs)
    assert reward.tolist() == [0.0, 0.0]
    assert truncated.all()
    assert not terminated.any()


def test_termination_and_truncation_are_told_apart():
    env = make("humanoid", num_envs=3, num_threads=1, horizon=2, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.step(np.zeros((3, 17)))
    env._state[1, 2] = 0.9
    _, _, terminated, truncated, _ = env.step(np.zeros((3, 17)))
    assert terminated.tolist() == [False, True, False]
    assert truncated.tolist() == [True, True, True]


# Simulations that diverge


@pytest.mark.parametrize("name", [*FACTS, "dkitty"])
@pytest.mark.parametrize("bad", [np.nan, 1e11])
def test_a_divergence_stays_in_its_simulation(name, bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env, sane = (make(name, num_envs=3, num_threads=2) for _ in range(2))
    env.reset(seed=0)
    sane.reset(seed=0)
    actions = random_actions(env, 8)
    before = run(env, actions[:2])[0][-1]
    run(sane, actions[:2])
    env._state[1, env.model.nq] = bad
    with pytest.warns(RuntimeWarning, match=f"{name} diverged in environment 1: .*1 so far"):
        obs, reward, terminated, truncated, info = env.step(actions[2])
    assert truncated.tolist() == [False, True, False]
    assert not terminated.any()
    assert info["divergences"].tolist() == [0, 1, 0]
    assert reward[1] == 0.0
    np.testing.assert_array_equal(info["final_obs"][1], before[1])
    assert np.isfinite(obs).all()
    expected = sane.step(actions[2])[0]
    np.testing.assert_array_equal(obs[[0, 2]], expected[[0, 2]])
    obs, expected = run(env, actions[3:])[0], run(sane, actions[3:])[0]
    np.testing.assert_array_equal(obs[:, [0, 2]], expected[:, [0, 2]])
    assert np.isfinite(obs).all()
    assert env.divergences.tolist() == [0, 1, 0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_divergence_of_a_simulation_is_noticed(mode):
    env = make("hopper", num_envs=2, num_threads=1, autoreset=mode)
    env.reset(seed=0)
    for count in (1, 2, 3):
        env._state[1, 0] = np.nan
        with pytest.warns(RuntimeWarning, match=f"{count} so far"):
            _, _, _, truncated, info = env.step(np.zeros((2, 3)))
        assert truncated.tolist() == [False, True]
        assert info["divergences"].tolist() == [0, count]
        if mode == AutoresetMode.DISABLED:
            assert env.step(np.zeros((2, 3)))[-1]["divergences"].tolist() == [0, count]
            env.reset(options={"reset_mask": truncated})
        if mode == AutoresetMode.NEXT_STEP:
            env.step(np.zeros((2, 3)))


def test_mujoco_writes_no_log_and_no_warning(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    env = make("half_cheetah", num_envs=2, num_threads=2)
    env.reset(seed=0)
    env._state[0, 9] = np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env.step(np.zeros((2, 6)))
    assert env.divergences.tolist() == [1, 0]
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_steps_do_not_ask_for_the_time_and_give_mujocos_clock_back():
    env = ibol.make("ant", num_envs=1)
    env.reset(seed=0)
    data = mujoco.MjData(env.model)
    with untimed_mujoco():
        mujoco.mj_step(env.model, data)
        assert data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration == 0
    env.step(np.zeros((1, 8)))
    mujoco.mj_step(env.model, data)
    assert data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration > 0


def test_quiet_mujoco_gives_the_callers_settings_back():
    before = mujoco.MjLogConfig.get()
    with quiet_mujoco():
        assert not mujoco.MjLogConfig.get().logto_file
    after = mujoco.MjLogConfig.get()
    assert after.logto_file
    assert (after.logto_file, after.logto_console) == (before.logto_file, before.logto_console)


# Wrong use


def test_actions_must_be_finite_and_of_the_right_shape():
    env = make("ant", num_envs=2, num_threads=1)
    with pytest.raises(IbolError, match="call reset"):
        env.step(np.zeros((2, 8)))
    start, _ = env.reset(seed=0)
    for shape in [(8,), (2, 7), (3, 8), (2, 8, 1)]:
        with pytest.raises(IbolError, match=r"actions have shape .* needs \(2, 8\)"):
            env.step(np.zeros(shape))
    for bad in (np.nan, np.inf):
        action = np.zeros((2, 8))
        action[1, 3] = bad
        with pytest.raises(IbolError, match="action of environment 1 of ant is not finite"):
            env.step(action)
    np.testing.assert_array_equal(env._obs, start)


@pytest.mark.parametrize("name", ["ant", "point"])
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"num_envs": 0}, "num_envs is 0"),
        ({"num_envs": -2}, "num_envs is -2"),
        ({"seed": -1}, "seed is -1"),
        ({"horizon": 0}, "horizon is 0"),
        ({"location_dims": (0,)}, "location_dims are for own environments"),
    ],
)
def test_wrong_arguments_are_explained(name, wrong, match):
    with pytest.raises(IbolError, match=match):
        make(name, **wrong)


@pytest.mark.parametrize(
    ("env", "wrong", "match"),
    [
        ("ant", {"randomize": False}, "^unknown option of ant 'randomize': choose one of end_when_fallen, terminate$"),
        ("dkitty", {"randomise": False}, "^unknown option of dkitty 'randomise': did you mean 'randomize'"),
        ("point", {"terminate": False}, "^unknown option of point 'terminate': choose one of none$"),
        ("Pendulum-v1", {"terminate": False}, "^unknown option of own environments 'terminate': .*processes$"),
        ("half_chetah", {"terminate": False}, "^unknown environment 'half_chetah'"),
    ],
)
def test_unknown_options_are_explained(env, wrong, match):
    with pytest.raises(IbolError, match=match):
        make(env, **wrong)
    if env in ENVS:
        with pytest.raises(IbolError, match=match.removesuffix("$").split(": choose")[0]):
            gymnasium.make(ENVS[env].gym_id, **wrong)


@pytest.mark.parametrize("env", ["ant", "point", "point_goal", "Pendulum-v1"])
@pytest.mark.parametrize("size", ["num_envs", "horizon", "num_threads"])
@pytest.mark.parametrize("wrong", [0, -1, 2.5, 2.0, "3", True, float("nan"), [2]])
def test_sizes_are_whole_numbers(env, size, wrong):
    if env == "Pendulum-v1" and size == "num_threads":
        return  # own environments have none
    with pytest.raises(IbolError, match=f"^{size} is .*, but a whole number of at least 1 is needed$"):
        make(env, **{size: wrong})
    assert make(env, **{size: np.int64(2)}).horizon == (2 if size == "horizon" else make(env).horizon)


@pytest.mark.parametrize("env", ["ant", "point", "Pendulum-v1"])
@pytest.mark.parametrize("wrong", [-1, 2.5, 2.0, "3", True, float("nan"), [0, 1.5], ["0", 1], {"a": 1}])
def test_seeds_are_whole_numbers(env, wrong):
    match = "^seed is .*, but a whole number of at least 0 is needed$"
    made = make(env, 2)
    with pytest.raises(IbolError, match=match):
        made.reset(seed=wrong)
    with pytest.raises(IbolError, match=match):
        make(env, 2, seed=wrong)
    if env in ENVS and not isinstance(wrong, list):
        with pytest.raises(IbolError, match=match):
            gymnasium.make(ENVS[env].gym_id).reset(seed=wrong)
    np.testing.assert_array_equal(made.reset(seed=np.array([3, 4]))[0], made.reset(seed=np.int64(3))[0])


@pytest.mark.parametrize("env", ["point", "Pendulum-v1"])
@pytest.mark.parametrize(
    "wrong",
    ["go", None, {"a": 1}, [["1", "1"], ["1", "1"]], [[1.0], [1.0, 2.0]], [[None, 1.0]] * 2, np.zeros((2, 2), complex)],
)
def test_actions_are_numbers(env, wrong):
    made = make(env, 2)
    made.reset(seed=0)
    with pytest.raises(IbolError, match=rf"^actions have type \w+, but {env} needs numbers of shape \(2, "):
        made.step(wrong)


@pytest.mark.parametrize("env", ["point", "ant", "ant_goal", "Pendulum-v1"])
def test_a_mode_of_automatic_resets_may_be_named(env):
    for mode in AutoresetMode:
        for name in (mode, mode.name, mode.value):
            made = make(env, autoreset=name)
            assert made.autoreset is made.metadata["autoreset_mode"] is mode
    for wrong in ("same", "", "SameStep ", None, 1, True):
        with pytest.raises(IbolError, match=r"autoreset is .* must be one of NextStep, SameStep, Disabled"):
            make(env, autoreset=wrong)


def test_a_named_mode_acts_as_it_says():
    envs = {mode: make("point", horizon=2, autoreset=mode.value) for mode in AutoresetMode}
    starts = {mode: env.reset(seed=0)[0] for mode, env in envs.items()}
    for _ in range(2):
        results = {mode: env.step(np.ones((1, 2))) for mode, env in envs.items()}
    assert [mode for mode in envs if "final_obs" in results[mode][4]] == [AutoresetMode.SAME_STEP]
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED):
        np.testing.assert_allclose(results[mode][0], starts[mode] + 0.2)
        assert envs[mode].step(np.ones((1, 2)))[3].all() == (mode is AutoresetMode.DISABLED)


def test_wrong_resets_are_explained():
    env = make("point", num_envs=2, autoreset=AutoresetMode.DISABLED)
    with pytest.raises(IbolError, match="reset all environments once"):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(IbolError, match="3 seeds were given for 2"):
        env.reset(seed=[1, 2, 3])
    env.reset(seed=0)
    for mask, shape, kind in (
        ([True], r"\(1,\)", "bool"),
        (np.ones((2, 1), bool), r"\(2, 1\)", "bool"),
        ([1, 0], r"\(2,\)", "int64"),
        (np.array([0, 1]), r"\(2,\)", "int64"),
        (True, r"\(\)", "bool"),
    ):
        with pytest.raises(IbolError, match=rf"^reset_mask has shape {shape} and type {kind}, but 2 .* \(2,\) and"):
            env.reset(options={"reset_mask": mask})


def test_a_seed_with_a_mask_is_for_the_masked_alone():
    env, untouched = (make("point", 3, autoreset=AutoresetMode.DISABLED) for _ in range(2))
    first, _ = env.reset(seed=0)
    untouched.reset(seed=0)
    some, _ = env.reset(seed=50, options={"reset_mask": [False, True, False]})
    np.testing.assert_array_equal(some[[0, 2]], first[[0, 2]])
    np.testing.assert_array_equal(some[1], make("point", seed=51).reset()[0][0])
    np.testing.assert_array_equal(env.reset()[0][[0, 2]], untouched.reset()[0][[0, 2]])
    # None of them: nothing happens.
    again, _ = env.reset(seed=9, options={"reset_mask": np.zeros(3, bool)})
    np.testing.assert_array_equal(again, env._obs)


# Gymnasium's view of us


def can_render():
    try:
        return bool(find_backend())
    except IbolError:
        return False


@pytest.mark.parametrize("env_id", ENV_IDS.values())
def test_gymnasium_accepts_the_registered_environments(env_id):
    env = gymnasium.make(env_id)
    check_env(env.unwrapped, skip_render_check=not can_render())
    env.close()


@pytest.mark.parametrize("name", ["point", "hopper", "humanoid", "ant_goal"])
@pytest.mark.parametrize("horizon", [None, 3, 1100])
def test_an_episode_is_cut_once_at_its_horizon_which_the_spec_knows(name, horizon):
    env = gymnasium.make(ENVS[name].gym_id, **({} if horizon is None else {"horizon": horizon}))
    steps = horizon or ENVS[name].horizon
    assert env.spec.max_episode_steps == env.unwrapped.spec.max_episode_steps == steps
    again = gymnasium.make(env.spec)
    assert again.spec.max_episode_steps == steps
    if name != "point" and horizon != 3:
        return  # the same code, but it takes its time
    for made in (env, again):
        made.reset(seed=0)
        ends = [made.step(made.action_space.sample())[2:4] for _ in range(steps)]
        assert ends == [(False, False)] * (steps - 1) + [(False, True)]


@pytest.mark.parametrize("name", ["point", "dkitty", "ant_multi_goals", "humanoid"])
def test_later_episodes_of_a_batch_are_those_of_a_single_environment(name):
    given = {"horizon": 60 if name == "ant_multi_goals" else 7}
    batch = make(name, 3, autoreset="SameStep", **given)
    single = gymnasium.make(ENVS[name].gym_id, **given)
    many, _ = batch.reset(seed=4)
    one, _ = single.reset(seed=6)
    for action in random_actions(batch, 3 * given["horizon"]):
        np.testing.assert_array_equal(one, many[2])
        many, rewards, *_ = batch.step(action)
        one, reward, terminated, truncated, _ = single.step(action[2])
        assert reward == rewards[2]
        if terminated or truncated:
            one, _ = single.reset()


def test_only_a_batch_has_a_seed_before_one_is_given():
    np.testing.assert_array_equal(make("point").reset()[0], make("point").reset(seed=0)[0])
    first, other = (gymnasium.make("ibol/Point-v0").reset()[0] for _ in range(2))
    assert (first != other).all()


def test_seeds_of_batches_that_follow_each_other_overlap():
    env = make("point", 5)
    np.testing.assert_array_equal(env.reset(seed=0)[0][1:], env.reset(seed=1)[0][:-1])
    far, other = (env.reset(seed=derive(seed, "episodes"))[0] for seed in (0, 1))
    assert not np.isin(far, other).any()


# Copies and pictures


@pytest.mark.parametrize("name", [*ENV_IDS, "ant_multi_goals"])
def test_copies_go_on_as_the_original_does(name):
    env = gymnasium.make(ENVS[name].gym_id, horizon=12)
    env.reset(seed=0)
    actions = random_actions(make(name), 30)[:, 0]
    for action in actions[:5]:
        env.step(action)
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    for made in copies:
        assert made.spec.max_episode_steps == 12
    for action in actions[5:]:
        obs, reward, terminated, truncated, _ = env.step(action)
        for made in copies:
            again = made.step(action)
            np.testing.assert_array_equal(again[0], obs)
            assert again[1:4] == (reward, terminated, truncated)
        if terminated or truncated:
            start, _ = env.reset()
            for made in copies:
                np.testing.assert_array_equal(made.reset()[0], start)


def test_copies_are_apart_from_the_original():
    env = make("dkitty", 2, 1)
    env.reset(seed=0)
    made = copy.deepcopy(env)
    before, mass = env._batch.state.copy(), env.dynamics(0).body_mass.sum()
    run(made, random_actions(made, 3))
    made.reset(seed=7)
    np.testing.assert_array_equal(env._batch.state, before)
    assert env.dynamics(0).body_mass.sum() == mass != made.dynamics(0).body_mass.sum()
    np.testing.assert_array_equal(made.reset(seed=0)[0], env.reset(seed=0)[0])
    assert made.num_threads == 1


@pytest.mark.parametrize("name", ["ant", "half_cheetah", "dkitty", "ant_goal"])
def test_robots_are_rendered(name):
    if not can_render():
        pytest.skip("no OpenGL library works here")
    env = gymnasium.make(ENVS[name].gym_id, render_mode="rgb_array", width=64, height=48)
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (48, 64, 3)
    assert first.dtype == np.uint8
    assert first.std() > 15  # floor, sky, robot
    for action in random_actions(make(name), 5)[:, 0]:
        env.step(action)
    assert abs(env.render().astype(int) - first).mean() > 0.5
    other = copy.deepcopy(env)
    assert abs(other.render().astype(int) - env.render()).mean() < 0.5
    del other  # its own context, not that of env
    np.testing.assert_array_equal(env.render(), env.render())
    assert env.metadata["render_fps"] == {"dkitty": 10}.get(name, 20)
    env.close()


def blue_pixels(picture):
    return np.argwhere((picture[..., 2] > 150) & (picture[..., 0] < 100)).mean(axis=0)


def test_the_point_is_where_it_is_in_its_picture():
    env = gymnasium.make("ibol/Point-v0", render_mode="rgb_array", width=101, height=101, horizon=10)
    env.reset(seed=0)
    for _ in range(10):
        (x, y), *_ = env.step(np.array([1.0, -0.5], np.float32))
    # 101 pixels are the 2.1 m that the point can be in after 10 steps.
    np.testing.assert_allclose(blue_pixels(env.render()), [50 - y / 2.1 * 101, 50 + x / 2.1 * 101], atol=1)
    goal = gymnasium.make("ibol/PointGoal-v0", render_mode="rgb_array")
    goal.reset(seed=0)
    red = (goal.render()[..., 0] > 200) & (goal.render()[..., 2] < 100)
    assert red.sum() > 20


def test_skills_are_rendered(point_skills):
    env = SkillEnv(str(point_skills), hold=2, render_mode="rgb_array")
    with pytest.raises(IbolError, match="reset"):
        env.render()
    env.reset(seed=0)
    before = blue_pixels(env.render())
    env.step(env.action_space.sample())
    assert env.render().shape == (360, 480, 3)
    assert (blue_pixels(env.render()) != before).any()
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert env.metadata["render_fps"] == round(20 / (2 * env.skills.macro_length))
    env.close()
    blind = SkillEnv(str(point_skills))
    blind.reset(seed=0)
    assert blind.render() is None


def test_wrong_pictures_are_explained():
    with pytest.raises(IbolError, match="render_mode is 'ascii', but it must be 'rgb_array'"):
        SingleEnv("point", render_mode="ascii")
    with pytest.raises(IbolError, match="width is 0, but"):
        SingleEnv("point", render_mode="rgb_array", width=0)
    with pytest.raises(IbolError, match="only our own environments have pictures, not Pendulum-v1"):
        Renderer(make("Pendulum-v1"), "rgb_array")
    with pytest.raises(IbolError, match="reset"):
        SingleEnv("ant", render_mode="rgb_array").render()
    env = gymnasium.make("ibol/Ant-v0")
    env.reset(seed=0)
    assert env.unwrapped.render() is None


def test_opengl_is_opened_for_pictures_only():
    code = (
        "import sys, gymnasium, ibol; env = gymnasium.make('ibol/Ant-v0', render_mode='rgb_array'); env.reset(seed=0);"
        "print([name for name in sys.modules if name.split('.')[0] == 'OpenGL'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
