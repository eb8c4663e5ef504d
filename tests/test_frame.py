"""The goal's frame: what a turn of the world or another first leg does not change, and the reward that it keeps."""

import dataclasses

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from ibol.envs import make
from ibol.envs.settings import EnvSettings
from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError
from ibol.learners import sac
from ibol.learners.normalizer import find_normalizer
from ibol.linearizer.frame import GoalFrame, goal_frame, seen_transitions, world_frame
from ibol.linearizer.settings import LinearizerConfig
from ibol.linearizer.training import LinearizerTrainer
from ibol.presets import build

COUNT = 64


def frame_of(env: str) -> GoalFrame:
    return goal_frame(env, find_normalizer(env, EnvSettings(), 10, 0))


def random_states(env: str) -> NDArray[np.float32]:
    """Tumbled states with any heading."""
    rng = np.random.default_rng(0)
    model = make(env, 1).model
    states = rng.normal(size=(COUNT, model.nq + model.nv))
    states[:, 3:7] = [1, 0, 0, 0] + 0.3 * rng.normal(size=(COUNT, 4))
    return turned(states, rng.uniform(0, 2 * np.pi, COUNT), model.nq)


def turned(states: NDArray[np.float64], angle: NDArray[np.float64], num_positions: int) -> NDArray[np.float32]:
    """The same states in a world that is turned about the vertical."""
    result = states.copy()
    for a, b, by in (
        (0, 1, angle),
        (num_positions, num_positions + 1, angle),
        (3, 6, angle / 2),
        (4, 5, angle / 2),
    ):
        result[:, a] = np.cos(by) * states[:, a] - np.sin(by) * states[:, b]
        result[:, b] = np.sin(by) * states[:, a] + np.cos(by) * states[:, b]
    return result.astype(np.float32)


def goals_along(frame: GoalFrame, angle: NDArray[np.float64]) -> NDArray[np.float32]:
    """Location goals that ask for the same way in metres, whatever the direction."""
    goals = np.zeros((len(angle), len(frame.mean)), np.float32)
    goals[:, 0], goals[:, 1] = np.cos(angle) * frame.world.std[0], np.sin(angle) * frame.world.std[1]
    return goals


@pytest.mark.parametrize("env", ["ant", "humanoid"])
def test_a_turned_world_looks_the_same(env: str) -> None:
    frame, states, rng = frame_of(env), random_states(env), np.random.default_rng(1)
    way, by = rng.uniform(0, 2 * np.pi, (2, COUNT))
    here, _ = frame.observe(states, goals_along(frame, way))
    there, _ = frame.observe(turned(states, by, frame.num_positions), goals_along(frame, way + by))
    np.testing.assert_allclose(here, there, atol=2e-4)


def angles_of(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """The angles about x, y and z whose turns one after the other are these rotations (N, 3, 3)."""
    x = np.arctan2(-matrices[:, 1, 2], matrices[:, 2, 2])
    z = np.arctan2(-matrices[:, 0, 1], matrices[:, 0, 0])
    return np.stack([x, np.arcsin(matrices[:, 0, 2]), z], axis=1)


def rotations(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rotations (N, 3, 3) of angles about x, y and z."""
    result = np.tile(np.eye(3), (len(angles), 1, 1))
    for axis, angle in enumerate(angles.T):
        a, b = (axis + 1) % 3, (axis + 2) % 3
        turn = np.tile(np.eye(3), (len(angle), 1, 1))
        turn[:, a, a] = turn[:, b, b] = np.cos(angle)
        turn[:, b, a], turn[:, a, b] = np.sin(angle), -np.sin(angle)
        result = result @ turn
    return result


def test_a_turned_world_looks_the_same_to_a_robot_with_angles() -> None:
    frame, rng = frame_of("dkitty"), np.random.default_rng(0)
    states = rng.normal(size=(COUNT, 43))
    states[:, 3:5] = 0.05 * rng.uniform(-1, 1, (COUNT, 2))
    way, by, states[:, 5] = rng.uniform(0, 2 * np.pi, (3, COUNT))
    there = states.copy()
    there[:, 3:6] = angles_of(rotations(np.eye(3)[2] * by[:, None]) @ rotations(states[:, 3:6]))
    assert np.abs(there[:, 3:6] - states[:, 3:6]).max() > 0.09
    here_seen, _ = frame.observe(states.astype(np.float32), goals_along(frame, way))
    there_seen, _ = frame.observe(there.astype(np.float32), goals_along(frame, way + by))
    # Tilts t turn as vectors do but for terms of t^2 / 2 = 0.00125 and their share of the heading.
    np.testing.assert_allclose(here_seen, there_seen, atol=0.00125 / 0.08)
    heading = states[:, 5] - way
    np.testing.assert_allclose(
        here_seen[:, [0, 1, 5]], np.stack([np.cos(heading), np.sin(heading), 0 * way], 1), atol=1e-5
    )


def test_renamed_legs_look_the_same_and_act_renamed() -> None:
    frame, states = frame_of("ant"), random_states("ant")
    env = make("ant", 1)
    found = symmetries(env.robot, env.model)
    way = np.random.default_rng(1).uniform(0, 2 * np.pi, COUNT)
    here, back = frame.observe(states, goals_along(frame, way))
    decided = np.random.default_rng(2).uniform(-1, 1, (COUNT, 8)).astype(np.float32)
    for which in range(8):
        index, sign = found.state_index[which], found.state_sign[which]
        if np.linalg.det(np.eye(2)[:, index[:2]] * sign[:2]) < 0:
            continue  # a mirror image looks mirrored
        renamed = (states[:, index] * sign).astype(np.float32)
        direction = np.stack([np.cos(way), np.sin(way)], -1)[:, index[:2]] * sign[:2]
        there, back_there = frame.observe(renamed, goals_along(frame, np.arctan2(direction[:, 1], direction[:, 0])))
        np.testing.assert_allclose(here, there, atol=2e-4)
        expected = np.asarray(back(decided))[:, found.action_index[which]] * found.action_sign[which]
        np.testing.assert_allclose(back_there(decided), expected, atol=1e-6)


def test_the_goal_lies_ahead_within_an_eighth_of_a_turn_for_ant() -> None:
    frame, states = frame_of("ant"), random_states("ant")
    goals = goals_along(frame, np.random.default_rng(1).uniform(0, 2 * np.pi, COUNT))
    view = frame._view(states, goals)
    seen, turned_goals = np.asarray(frame._turn(states, view)), np.asarray(frame._goals(goals, view))
    heading = np.degrees(2 * np.arctan2(seen[:, 6], seen[:, 3]))
    assert np.abs(heading).max() <= 45.01
    assert np.abs(heading).max() > 30, "the cases are not all easy"
    assert (seen[:, 3] > 0).all(), "one of a rotation's two quaternions"
    np.testing.assert_allclose(turned_goals[:, 1], 0, atol=1e-5)
    assert (turned_goals[:, 0] > 0).all()


@pytest.mark.parametrize(("env", "width"), [("ant", 29), ("ant", 15), ("dkitty", 43), ("dkitty", 18)])
def test_the_reward_of_a_transition_is_kept(env: str, width: int) -> None:
    frame, rng = frame_of(env), np.random.default_rng(1)
    states = random_states(env) if env == "ant" else rng.normal(size=(COUNT, 43)).astype(np.float32)
    goals = rng.uniform(-1, 1, (COUNT, width)).astype(np.float32)
    columns = {
        "states": (states - frame.world.mean) / frame.world.std,
        "next_states": rng.normal(size=states.shape).astype(np.float32),
        "features": rng.normal(size=goals.shape).astype(np.float32),
        "actions": rng.uniform(-1, 1, (COUNT, 8 if env == "ant" else 12)).astype(np.float32),
    }
    seen = seen_transitions(frame, columns, goals)
    rewards = (columns["features"] * goals).sum(-1)
    np.testing.assert_allclose((seen.features * seen.goals).sum(-1), rewards, atol=1e-4)
    assert np.abs(seen.features - columns["features"]).max() > 1
    inputs, back = frame.observe(states, goals)
    np.testing.assert_allclose(seen.inputs, inputs, atol=2e-3)
    np.testing.assert_allclose(back(seen.actions), columns["actions"], atol=1e-6)


@pytest.mark.parametrize("env", ["ant", "humanoid"])
def test_targets_are_those_of_the_policy_as_it_acts(env: str) -> None:
    """<y, w> is r + gamma [min Q(s', a') - alpha log pi(a'|s')] with s' seen as by the policy that acts there."""
    settings = {"frame": "goal", "critic": "vector", "relabel": 0.0, "symmetric": False, "end_when_fallen": False}
    config = dataclasses.replace(build(LinearizerConfig, "linearize", "smoke", env), **settings)
    trainer = LinearizerTrainer(env, EnvSettings(), config, 0)
    frame, states, rng, networks = trainer.frame, random_states(env), np.random.default_rng(1), trainer.learner.networks
    assert isinstance(frame, GoalFrame)
    after = turned(states.astype(np.float64), rng.uniform(-2, 2, COUNT), frame.num_positions)
    after[:, 7:] += 0.1 * rng.normal(size=after[:, 7:].shape).astype(np.float32)
    width, actions = states.shape[1], trainer.description.action_dim
    goals = rng.uniform(-1, 1, (COUNT, width)).astype(np.float32)
    view, next_view = frame._view(states, goals), frame._view(after, goals)
    crossed = np.asarray(frame._which_map(view, next_view)) != 0
    assert 5 < crossed.sum() < COUNT - 5
    columns = {
        "states": (states - frame.world.mean) / frame.world.std,
        "next_states": (after - frame.world.mean) / frame.world.std,
        "goals": goals,
        "actions": rng.uniform(-1, 1, (COUNT, actions)).astype(np.float32),
        "features": rng.normal(size=goals.shape).astype(np.float32),
        "bonus": rng.normal(size=COUNT).astype(np.float32),
        "effort": np.zeros(COUNT, np.float32),
        "dones": np.zeros(COUNT, np.float32),
    }
    batches = trainer._compose({name: np.asarray(values)[None] for name, values in columns.items()}, rng)
    batch, key = jax.tree.map(lambda values: values[0], batches), jax.random.key(0)
    targets = sac.bellman_targets(networks, batch, trainer.learner.settings, key)

    inputs, _ = frame.observe(after, goals)
    acted, log_prob = networks.policy(inputs).sample_and_log_prob(key)
    weights = np.concatenate([inputs[:, width:], np.ones((COUNT, 1))], axis=1)
    values = [(np.asarray(features) * weights).sum(axis=1) for features in networks.target(inputs, acted)]
    future = np.minimum(*values) - np.exp(networks.log_temperature) * np.asarray(log_prob)
    reward = (columns["features"] * goals).sum(axis=1) + columns["bonus"]
    expected = reward + config.discount * future
    np.testing.assert_allclose((targets * batch.weights).sum(axis=1), expected, rtol=5e-3, atol=5e-3)


def test_features_of_one_view_become_those_of_another() -> None:
    frame, states, rng = frame_of("ant"), random_states("ant"), np.random.default_rng(1)
    after = turned(states.astype(np.float64), rng.uniform(-np.pi, np.pi, COUNT), frame.num_positions)
    goals, features = rng.uniform(-1, 1, (2, COUNT, 29)).astype(np.float32)
    columns = {"states": states, "next_states": after, "actions": np.zeros((COUNT, 8), np.float32)}
    columns = {name: (v - frame.world.mean) / frame.world.std if "states" in name else v for name, v in columns.items()}
    columns["features"] = features
    seen = seen_transitions(frame, columns, goals)
    there = seen_transitions(frame, {**columns, "states": columns["next_states"]}, goals)
    assert seen.next_maps is not None
    assert len(np.unique(seen.next_maps.which)) >= 5
    np.testing.assert_allclose(seen.next_maps(there.features), seen.features, atol=1e-4)
    np.testing.assert_allclose(seen.next_maps(there.goals), seen.goals, atol=1e-4)
    np.testing.assert_allclose(seen.next_inputs, there.inputs, atol=1e-6)


def test_the_location_is_not_seen() -> None:
    states = random_states("ant")
    moved = states + np.eye(29, dtype=np.float32)[0] * 5 + np.eye(29, dtype=np.float32)[1] * 3
    goals = np.random.default_rng(1).uniform(-1, 1, (COUNT, 29)).astype(np.float32)
    normalizer = find_normalizer("ant", EnvSettings(), 10, 0)
    for frame in (goal_frame("ant", normalizer), world_frame(normalizer, (0, 1))):
        observe = jax.jit(lambda s, g, frame=frame: frame.observe(s, g)[0])
        np.testing.assert_allclose(observe(states, goals), observe(moved, goals), atol=1e-6)


@pytest.mark.parametrize("env", ["half_cheetah", "point", "Pendulum-v1"])
def test_only_robots_in_the_plane_have_a_goal_frame(env: str) -> None:
    with pytest.raises(IbolError, match="moves in the plane"):
        goal_frame(env, find_normalizer(env, EnvSettings(), 2, 0))
