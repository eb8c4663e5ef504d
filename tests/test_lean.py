"""Models without what their physics has no use for: the same numbers, to the last bit."""

import copy
from typing import Any

import mujoco
import numpy as np
import pytest

import ibol
from ibol.envs import GYMNASIUM
from ibol.envs.lean import has_plain_motors
from ibol.envs.robots import load_model, quiet_mujoco

STEPS = 40


def stepped(model: Any, env: Any, ctrl: np.ndarray) -> Any:
    """A simulation with the whole model that does the same as the environment's first one."""
    data = mujoco.MjData(model)
    nq = model.nq
    data.qpos[:], data.qvel[:] = env._state[0, :nq], env._state[0, nq:]
    mujoco.mj_forward(model, data)
    with quiet_mujoco():
        for now in ctrl:
            data.ctrl[:] = now
            mujoco.mj_step(model, data, env.robot.frame_skip)
    return data


@pytest.mark.parametrize("name", GYMNASIUM)
def test_it_moves_as_the_whole_model_to_the_last_bit(name: str) -> None:
    env = ibol.make(name, 2, 1, terminate=False)
    env.reset(seed=3)
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, 2, env.action_dim))
    low, high = env.control_range()
    expected = stepped(env.model, env, actions[:, 0] * ((high - low) / 2) + (high + low) / 2)
    for now in actions:
        env.step(now)
    np.testing.assert_array_equal(env._state[0], [*expected.qpos, *expected.qvel])
    np.testing.assert_array_equal(env._batch.bind("qacc_warmstart")[0], expected.qacc_warmstart)


def test_what_it_leaves_out() -> None:
    walker, hopper = ibol.make("Walker2d-v5", 2, 1), ibol.make("Hopper-v5", 2, 1)
    assert walker._lean.npair == 7, "the floor with each part"
    assert not walker._lean.geom_contype.any()
    assert (walker._lean.nu, walker._lean.ncam) == (0, 0)
    assert not hopper._lean.npair, "its parts touch each other"
    assert hopper._lean.geom_contype.any()
    assert walker.model.ncam, "the model that others read is whole"
    assert walker.model.nu == 6


def test_motors_that_are_more_than_a_force_stay() -> None:
    model = load_model(GYMNASIUM["Walker2d-v5"].robot)
    assert has_plain_motors(model)
    for field, value in (("actuator_gainprm", 2.0), ("actuator_biastype", 1), ("actuator_dyntype", 1)):
        other = copy.copy(model)
        getattr(other, field)[:] = value
        assert not has_plain_motors(other)
