"""Gymnasium's robots in a batch are exactly Gymnasium's own: states, rewards and terminations."""

import copy
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import ibol
from ibol.envs import GYMNASIUM, GymEnv, find_entry
from ibol.envs.robots import quiet_mujoco
from ibol.errors import IbolError

STEPS = 25


def own(name: str, **arguments: Any) -> Any:
    """Gymnasium's own environment, without its wrappers."""
    with quiet_mujoco():
        return gymnasium.make(name, disable_env_checker=True, **arguments).unwrapped


def continue_from(env: Any, state: np.ndarray) -> None:
    """Put Gymnasium's environment where an episode of the batch begins."""
    env.reset(seed=0)
    env.data.time, env.data.ctrl[:] = 0.0, 0.0
    env.data.qacc_warmstart[:] = 0.0
    env.set_state(state[: env.model.nq], state[env.model.nq :])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GYMNASIUM)
def test_states_rewards_and_terminations_are_those_of_gymnasium(name: str) -> None:
    batch, reference = ibol.make(name, 2, 1), own(name)
    assert batch.horizon == gymnasium.spec(name).max_episode_steps
    assert batch.dt == pytest.approx(reference.dt, abs=1e-12)
    clip = GYMNASIUM[name].robot.velocity_clip
    states, _ = batch.reset(seed=5)
    rng = np.random.default_rng(0)
    for i in range(2):
        continue_from(reference, batch._state[i])
        again = copy.deepcopy(batch)
        ended = False
        for _ in range(STEPS):
            actions = rng.uniform(-1, 1, (2, batch.action_dim))
            states, rewards, terminated, _, info = again.step(actions)
            if ended:
                break
            low, high = again.control_range()
            _, reward, over, _, _ = reference.step(actions[i] * (high - low) / 2 + (high + low) / 2)
            expected = reference.state_vector()
            if clip is not None:
                expected[reference.model.nq :] = expected[reference.model.nq :].clip(-clip, clip)
            reached = info["final_obs"][i] if terminated[i] else states[i]
            np.testing.assert_allclose(reached, expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(rewards[i], reward, rtol=1e-9, atol=1e-9)
            assert terminated[i] == over
            ended = bool(over)


def test_arguments_of_the_environment_are_understood_or_left_to_gymnasium() -> None:
    batch = ibol.make("Walker2d-v5", env_kwargs={"forward_reward_weight": 2.0, "frame_skip": 5})
    assert batch.robot.forward_weight == 2.0
    assert batch.dt == pytest.approx(0.01)
    assert not ibol.make("Walker2d-v5", env_kwargs={"terminate_when_unhealthy": False}).terminate
    with pytest.raises(IbolError, match="frame_skip in env_kwargs is 0"):
        ibol.make("Walker2d-v5", env_kwargs={"frame_skip": 0})
    other = ibol.make(
        "Walker2d-v5", env_kwargs={"exclude_current_positions_from_observation": False}, location_dims=(0,)
    )
    assert isinstance(other, GymEnv)
    other.close()


def test_it_ends_as_asked_and_falls() -> None:
    standing = ibol.make("Walker2d-v5", 4, 1, horizon=400, terminate=False)
    standing.reset(seed=0)
    ended = np.zeros(4, bool)
    walking = ibol.make("Walker2d-v5", 4, 1, autoreset="Disabled")
    walking.reset(seed=0)
    for _ in range(200):
        *_, truncated, _ = standing.step(np.zeros((4, 6)))
        ended |= walking.step(np.zeros((4, 6)))[2]
        assert not truncated.any()
    assert ended.all()


def test_targets_are_drawn_as_gymnasium_does() -> None:
    reacher, _ = ibol.make("Reacher-v5", 50, 1).reset(seed=0)
    assert (np.linalg.norm(reacher[:, 2:4], axis=1) < 0.2).all()
    assert not reacher[:, -2:].any()
    pusher, _ = ibol.make("Pusher-v5", 50, 1).reset(seed=0)
    assert (np.linalg.norm(pusher[:, 7:9], axis=1) > 0.17).all()
    assert not pusher[:, -4:].any()


def test_each_of_them_has_the_task_of_reaching_a_location() -> None:
    task = find_entry("Walker2d-v5_goal")
    assert task is not None
    assert task.task is not None
    assert task.task.robot == "Walker2d-v5"
    env = ibol.make("Walker2d-v5_goal", 2, 1, goal_range=3.0)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 19)
    assert (abs(obs[:, -1]) <= 3).all()
    assert find_entry("Walker2d-v5_goal_goal") is None


def test_the_models_are_gymnasiums_files() -> None:
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    assert all((folder / entry.robot.model_file).is_file() for entry in GYMNASIUM.values() if entry.robot)
