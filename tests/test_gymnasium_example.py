"""Gymnasium's own robots, driven by ours: the same observations, the same motion, the same directions."""

import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import ibol
from ibol import zoo
from ibol.envs.robots import quiet_mujoco

pytest.importorskip("imageio", reason="Gymnasium's robots need it: pip install 'gymnasium[mujoco]'")
EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "skills_in_gymnasium.py"))


def gymnasiums(robot: str, horizon: int, **options: Any) -> Any:
    with quiet_mujoco(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Gymnasium's, of other versions of it
        return EXAMPLE["make"](robot, horizon, **options)


def degrees_between(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


@pytest.mark.parametrize("robot", list(EXAMPLE["ROBOTS"]))
def test_states_and_actions_are_the_same(robot: str) -> None:
    ours, theirs = ibol.make(robot, 1, autoreset=AutoresetMode.DISABLED), gymnasiums(robot, 20)
    state = ours.reset(seed=3)[0][0]
    theirs.reset(seed=0)
    nq = ours.model.nq
    theirs.unwrapped.set_state(state[:nq], state[nq:])
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.uniform(-1, 1, ours.action_dim)
        here = ours.step(action[None])[0][0]
        there = theirs.step(action * theirs.action_space.high)[0]
        np.testing.assert_allclose(there, here, atol=1e-7)
    assert np.abs(here - state).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0, 120, 240])
def test_an_ant_walks_as_ours(degrees: float) -> None:
    linearizer = ibol.load_linearizer("ant")
    goals = np.zeros((4, linearizer.goal_dim), np.float32)
    goals[:, :2] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    ours = linearizer.rollout(goals, seed=0).states[:, -1, :2].mean(axis=0)
    states = EXAMPLE["drive"](gymnasiums("ant", 200), lambda obs, step: linearizer.act(obs, goals[:1]))
    assert len(states) == 201
    assert np.linalg.norm(states[-1, :2]) > 20  # metres
    assert degrees_between(states[-1, :2], ours) < 15


@pytest.mark.slow
@pytest.mark.skipif("ant" not in zoo.names(), reason="there are no bundled skills of Ant")
@pytest.mark.parametrize("number", [0, 3, 5])
def test_bundled_skills_of_ant_go_where_ours_go(number: int) -> None:
    skills = ibol.load_skills("ant")
    latents = np.tile(skills.prior.shown()[number], (8, 1))
    ours = skills.rollout(latents, deterministic=True).states[:, -1, :2].mean(axis=0)
    ends = [
        EXAMPLE["drive"](gymnasiums("ant", 200), skills.controller(latents[:1], deterministic=True), seed)[-1, :2]
        for seed in range(4)
    ]
    assert degrees_between(np.mean(ends, axis=0), ours) < 15
