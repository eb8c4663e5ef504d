"""The linearizer: rewards against hand-computed numbers, the linearized environment, training, loading."""

import dataclasses
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ibol
from ibol.cli import main
from ibol.envs import ROBOTS
from ibol.envs.robots import load_model
from ibol.envs.settings import EnvSettings
from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError
from ibol.learners.rollout import Trajectories
from ibol.linearizer.env import LinearizedEnv, squeeze_y
from ibol.linearizer.evaluation import angles, evaluate_linearizer, rank_correlation
from ibol.linearizer.policy import BUNDLED, Linearizer, bundled, load_linearizer
from ibol.linearizer.reward import (
    chunk_differences,
    euclidean_reward,
    inner_product_features,
    sample_goals,
)
from ibol.linearizer.rhythm import DISTURBANCE, Rhythms, imitate
from ibol.linearizer.settings import LinearizerConfig
from ibol.linearizer.training import LinearizerTrainer
from ibol.metrics.coverage import state_coverage
from ibol.presets import build
from ibol.seeding import derive, generator


def trainer(env: str = "point", preset: str = "smoke", seed: int = 0, **overrides: object) -> LinearizerTrainer:
    values = {**build(LinearizerConfig, "linearize", preset, env).__dict__, **overrides}
    return LinearizerTrainer(env, EnvSettings(), LinearizerConfig(**values), seed)


def untrained(env: str = "point", **overrides: object) -> Linearizer:
    return trainer(env, **overrides).agent()


def test_every_step_of_a_chunk_gets_its_whole_difference() -> None:
    states = np.cumsum(np.arange(1, 8, dtype=np.float32))[None, :, None]  # 1 3 6 10 15 21 28
    moved = chunk_differences(states, np.array([6]), 3)
    np.testing.assert_array_equal(moved[0, :, 0], [9, 9, 9, 18, 18, 18])


def test_an_early_end_cuts_its_chunk_but_is_still_divided_by_l() -> None:
    states = np.array([0, 1, 3, 6, 10, 10, 10], np.float32)[None, :, None]  # ended after 4 steps
    moved = chunk_differences(states, np.array([4]), 3)
    np.testing.assert_array_equal(moved[0, :4, 0], [6, 6, 6, 4])
    np.testing.assert_allclose(inner_product_features(moved, 3)[0, 3, 0], 4 / 3)


def test_the_reward_is_the_papers_inner_product() -> None:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, 21, 4)).astype(np.float32)
    goals = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
    features = inner_product_features(chunk_differences(states, np.array([20, 20]), 10), 10)
    by_hand = (states[1, 20] - states[1, 10]) @ goals[1] / 10 / np.sqrt(4)
    np.testing.assert_allclose((features[1, 13] * goals[1]).sum(), by_hand, rtol=1e-5)


def test_the_euclidean_reward_is_zero_when_the_goal_is_met() -> None:
    goals = np.random.default_rng(0).uniform(-1, 1, (3, 15)).astype(np.float32)
    moved = np.zeros((3, 29), np.float32)
    moved[:, :15] = np.array(ROBOTS["ant"].goal_ranges) * goals
    np.testing.assert_allclose(euclidean_reward(moved, goals, ROBOTS["ant"].goal_ranges), 0.0, atol=1e-5)
    moved[0, 0] += 3.0
    moved[0, 20] += 100.0  # velocities do not count
    assert euclidean_reward(moved, goals, ROBOTS["ant"].goal_ranges)[0] == pytest.approx(-3.0, rel=1e-5)


def test_goals_follow_their_prior() -> None:
    rng = np.random.default_rng(0)
    for beta, variance in ((1.0, 1 / 3), (2.0, 1 / 5)):  # 4 Var[Beta(b, b)] = 1 / (2 b + 1)
        goals = sample_goals(rng, 20_000, 3, beta=beta)
        np.testing.assert_allclose(goals.var(axis=0), variance, rtol=0.05)
        assert abs(goals).max() <= 1
    sparse = sample_goals(rng, 2000, 10, beta=1.0, sparse_fraction=1.0, location_dims=(0, 1))
    active = (sparse != 0).sum(axis=1)
    assert active.min() >= 1
    assert active.max() <= 6
    with_location = (sparse[:, :2] != 0).all(axis=1)
    assert 0.45 < with_location.mean() < 0.6
    # All kinds of goals have the components' distribution: the variance of 2 Beta(b, b) - 1 is 1 / (2 b + 1).
    alone = sample_goals(rng, 20_000, 3, beta=0.4, location_fraction=1.0, location_dims=(1,))
    assert alone[:, 1].var() == pytest.approx(1 / 1.8, rel=0.05)
    assert not alone[:, [0, 2]].any()
    mixed = sample_goals(rng, 2000, 10, beta=1.0, sparse_fraction=0.2, location_fraction=0.5, location_dims=(0, 1))
    only_location = (mixed[:, 2:] == 0).all(axis=1) & (mixed[:, :2] != 0).all(axis=1)
    assert 0.45 < only_location.mean() < 0.6
    assert 0.25 < (mixed != 0).all(axis=1).mean() < 0.35, "the rest is dense"


def test_the_linearizer_does_not_see_the_location() -> None:
    lin = untrained()
    goal = np.array([0.3, -0.9])
    np.testing.assert_array_equal(lin.act([5.0, -7.0], goal), lin.act([0.0, 0.0], goal))
    cheetah = untrained("half_cheetah")
    state = np.random.default_rng(0).normal(size=18)
    moved, other = state.copy(), state.copy()
    moved[0] += 10
    other[1] += 0.1
    goal = np.ones(18)
    np.testing.assert_array_equal(cheetah.act(moved, goal), cheetah.act(state, goal))
    assert not np.array_equal(cheetah.act(other, goal), cheetah.act(state, goal))


def test_rollout_gives_raw_states_at_every_step() -> None:
    lin = untrained("half_cheetah")
    goals = np.random.default_rng(0).uniform(-1, 1, (3, 18))
    found = lin.rollout(goals, seed=5)
    assert found.states.shape == (3, 201, 18)
    np.testing.assert_array_equal(found.lengths, [200] * 3)
    np.testing.assert_array_equal(found.states, lin.rollout(goals, seed=5).states)
    np.testing.assert_allclose(lin.act(found.states[:, 7], goals), found.actions[:, 7], atol=1e-6)
    with pytest.raises(IbolError, match=r"goals have shape \(3, 4\), but \(N, 18\) is needed"):
        lin.rollout(goals[:, :4])


def test_the_linearized_env_holds_the_goal_for_l_steps() -> None:
    lin = untrained("half_cheetah")
    goals = np.random.default_rng(0).uniform(-1, 1, (3, 18)).astype(np.float32)
    env = LinearizedEnv(lin.make_env(3), lin)
    assert env.horizon == 20
    assert env.single_action_space.shape == (18,)
    env.reset(seed=derive(5, "episodes"))
    reference = lin.rollout(goals, seed=5)
    for step in range(20):
        obs, reward, terminated, truncated, info = env.step(goals)
        np.testing.assert_allclose(obs, reference.states[:, 10 * step + 10], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(info["states"][:, 3], reference.states[:, 10 * step + 4], rtol=1e-4, atol=1e-4)
        by_hand = reference.rewards[:, 10 * step : 10 * step + 10].sum(axis=1)
        np.testing.assert_allclose(reward, by_hand, rtol=1e-3, atol=1e-3)
        assert truncated.all() == (step == 19)
        assert not terminated.any()


def test_an_end_within_a_macro_step_ends_it() -> None:
    lin = untrained("humanoid")
    env = LinearizedEnv(lin.make_env(4), lin)
    env.reset(seed=derive(0, "episodes"))
    goals, total, ended = np.zeros((4, 47), np.float32), np.zeros(4), np.zeros(4, bool)
    while not ended.all():
        obs, reward, terminated, truncated, _ = env.step(goals)
        assert (reward[ended] == 0).all()
        total += reward
        ended = terminated | truncated
    reference = lin.rollout(goals, seed=0)
    np.testing.assert_allclose(total, reference.returns, rtol=1e-3)
    np.testing.assert_allclose(obs, reference.states[:, -1], rtol=1e-3, atol=1e-3)


def test_a_subset_of_goals_and_a_distortion() -> None:
    lin = untrained()
    seen: list[np.ndarray] = []

    def spy(goals: np.ndarray) -> np.ndarray:
        seen.append(goals.copy())
        return -goals

    env = LinearizedEnv(lin.make_env(2), lin, goal_dims=[1], distortion=spy)
    assert env.single_action_space.shape == (1,)
    env.reset(seed=0)
    env.step(np.array([[0.5], [-2.0]]))
    np.testing.assert_allclose(seen[0], [[0, 0.5], [0, -1.0]])


def test_squeezing_keeps_the_length_and_bends_towards_x() -> None:
    goals = np.array([[0.6, 0.8, 0.3], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]], np.float32)
    bent = squeeze_y(goals)
    np.testing.assert_allclose(np.linalg.norm(bent[:, :2], axis=1), [1.0, 1.0, 0.0], rtol=1e-5)
    np.testing.assert_allclose(bent[0, 1] / bent[0, 0], 0.2 * 0.8 / 0.6, rtol=1e-5)
    np.testing.assert_allclose(bent[1], goals[1])
    np.testing.assert_array_equal(bent[:, 2], goals[:, 2])


def test_a_location_without_directions_is_refused_before_the_training() -> None:
    config = LinearizerConfig(epochs=1, normalizer_trajectories=2)
    with pytest.raises(IbolError, match=r"Pendulum-v1 has 0 location dimensions, .* name them with --location-dims"):
        LinearizerTrainer("Pendulum-v1", EnvSettings(), config, 0)
    unseen = dataclasses.replace(config, evaluate_every=0)
    assert LinearizerTrainer("Pendulum-v1", EnvSettings(), unseen, 0).description.location_dims == ()


def test_what_does_not_fit_is_refused() -> None:
    lin = untrained()
    with pytest.raises(IbolError, match="trained in point, but the environment is ant"):
        LinearizedEnv(EnvSettings().make("ant", 1), lin)
    with pytest.raises(IbolError, match="without automatic resets"):
        LinearizedEnv(ibol.make("point", 2), lin)
    with pytest.raises(IbolError, match="different ones from 0 to 1"):
        LinearizedEnv(lin.make_env(1), lin, goal_dims=[2])
    with pytest.raises(IbolError, match="goal ranges of ant only"):
        trainer(reward="euclidean", critic="scalar", relabel=0.0)
    with pytest.raises(IbolError, match="not linear in the goal"):
        trainer("ant", reward="euclidean")
    with pytest.raises(IbolError, match="normalize_reward is for"):
        trainer(normalize_reward=True)
    with pytest.raises(IbolError, match="one of our robots"):
        trainer(position_goals=True)


def test_relabelled_rewards_are_exact() -> None:
    """A transition with a fresh goal must carry the reward that this goal would have given."""
    learning = trainer("half_cheetah", relabel=1.0, critic="scalar")
    goals = learning._goals(np.random.default_rng(0), 2)
    columns, _ = learning._transitions(learning._explore(goals, 0), goals)
    batch = learning._compose({name: values[None, :50] for name, values in columns.items()}, np.random.default_rng(1))
    fresh = np.asarray(batch.inputs)[0, :, 18:]
    assert not np.allclose(fresh, columns["goals"][:50])
    np.testing.assert_allclose(batch.rewards[0, :, 0], (columns["features"][:50] * fresh).sum(axis=1), rtol=1e-4)
    assert (np.asarray(batch.inputs)[0, :, 0] == 0).all(), "the location is hidden"


def test_vector_and_scalar_rewards_agree() -> None:
    goals_seed = 3
    batches = []
    for critic in ("scalar", "vector"):
        learning = trainer("half_cheetah", relabel=0.0, critic=critic, alive_bonus=0.5)
        goals = learning._goals(np.random.default_rng(goals_seed), 2)
        columns, _ = learning._transitions(learning._explore(goals, 0), goals)
        batches.append(learning._compose({n: v[None, :50] for n, v in columns.items()}, np.random.default_rng(1)))
    scalar, vector = batches
    assert vector.rewards.shape == (1, 50, 19)
    np.testing.assert_allclose(
        (np.asarray(vector.rewards) * np.asarray(vector.weights)).sum(-1), scalar.rewards[..., 0], rtol=1e-4, atol=1e-6
    )


def test_standardised_rewards_follow_the_moving_average() -> None:
    learning = trainer("point", "paper", critic="scalar", normalize_reward=True, replay_size=0, batch_size=0)
    first, second = np.array([0.0, 2.0], np.float32), np.array([5.0, 5.0], np.float32)
    np.testing.assert_allclose(learning._standardize(first), [-1, 1])
    mean, var = 0.99 * 1 + 0.01 * 5, 0.99 * 1 + 0.01 * 0
    np.testing.assert_allclose(learning._standardize(second), (5 - mean) / np.sqrt(var), rtol=1e-6)


@pytest.mark.parametrize("setting", [{"reward": "euclidean", "critic": "scalar", "relabel": 0.0}, {"macro_length": 1}])
def test_the_reward_choices_of_the_appendix_train(setting: dict[str, object]) -> None:
    learning = trainer("ant", episodes_per_epoch=2, evaluate_every=0, **setting)
    metrics = learning.train_epoch(0).metrics
    assert np.isfinite(list(metrics.values())).all()
    assert learning.description.goal_dim == (15 if "reward" in setting else 29)


def test_position_goals_leave_the_velocities_out() -> None:
    learning = trainer("hopper", position_goals=True, evaluate_every=0)
    assert learning.description.goal_dim == 6
    assert np.isfinite(learning.train_epoch(0).metrics["reward"])


def test_position_goals_are_scaled_by_their_own_dimensions() -> None:
    learning = trainer("hopper", position_goals=True, macro_length=1, alive_bonus=0.0)
    goals = learning._goals(np.random.default_rng(0), 2)
    trajectories = learning._explore(goals, 0)
    columns, _ = learning._transitions(trajectories, goals)
    states = learning.normalizer(trajectories.states[0, :2])[:, :6]
    by_hand = (states[1] - states[0]) @ goals[0] / np.sqrt(6)
    np.testing.assert_allclose((columns["features"][0] * goals[0]).sum(), by_hand, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("preset_critic", ["vector", "scalar"])
def test_it_learns_to_move_a_point_anywhere(preset_critic: str) -> None:
    """Straight at full speed a point gets 0.1 sqrt 2 x 50 = 7.1 along a diagonal and 5 along an axis."""
    learning = trainer("point", "fast", critic=preset_critic)
    before = evaluate_linearizer(learning.agent()).scalars()
    for epoch in range(learning.epochs):
        learning.train_epoch(epoch)
    after = evaluate_linearizer(learning.agent()).scalars()
    assert before["distance"] < 2.0
    assert after["distance"] > 4.0
    assert after["direction_error"] < 25.0


def test_the_same_seed_continues_exactly() -> None:
    first, second = trainer(), trainer()
    first.train_epoch(0)
    second.restore(first.state())
    assert first.train_epoch(1) == second.train_epoch(1)
    for a, b in zip(first.state().values(), second.state().values(), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_run_and_a_file_give_the_same_linearizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main(["linearize", "half_cheetah", "--preset", "smoke", "--run-dir", str(run), "--quiet", "--epochs", "1"])
    lin = ibol.load_linearizer(run)
    lin.save(tmp_path / "lin.safetensors", {"command": "by hand"})
    again = load_linearizer(tmp_path / "lin.safetensors")
    state, goal = np.random.default_rng(0).normal(size=(2, 18))
    np.testing.assert_array_equal(lin.act(state, goal), again.act(state, goal))
    assert again.description == lin.description
    main(["evaluate", str(run), "--json", str(tmp_path / "e.json"), "--episodes", "8"])
    row = json.loads((tmp_path / "e.json").read_text())[0]
    assert {"forward", "backward", "rank_correlation", "coverage"} <= set(row)
    assert "half_cheetah" in capsys.readouterr().out


def test_unknown_linearizers_are_explained(tmp_path: Path) -> None:
    with pytest.raises(IbolError, match="unknown linearizer 'cheeta'"):
        load_linearizer("cheeta")
    with pytest.raises(IbolError, match="is not a run"):
        load_linearizer(tmp_path)
    main(["sac", "point", "--preset", "smoke", "--run-dir", str(tmp_path / "sac"), "--quiet", "--epochs", "1"])
    with pytest.raises(IbolError, match="is a run of 'ibol sac'"):
        load_linearizer(tmp_path / "sac")


def test_measures() -> None:
    a = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    b = np.array([[2, 0], [1, 0], [-1, 0]], np.float32)
    np.testing.assert_allclose(angles(a, b), [0, np.pi / 2, np.pi], atol=1e-6)
    assert rank_correlation(np.array([1, 2, 3]), np.array([10, 20, 15])) == pytest.approx(0.5)
    line = np.linspace(0, 1, 1000)[None, :, None]
    assert state_coverage(line) == 32
    diagonal = np.concatenate([line, line], axis=-1)
    assert state_coverage(diagonal) == 32
    assert state_coverage(diagonal, np.array([[0, 0], [2, 2]])) == 17


@pytest.mark.parametrize("name", [f"{env}-{seed}" for env, seeds in bundled().items() for seed in seeds])
def test_bundled_linearizers_do_what_their_provenance_says(name: str) -> None:
    provenance = json.loads((BUNDLED / f"{name}.json").read_text())
    assert provenance["command"].startswith("ibol linearize ")
    assert (BUNDLED / f"{name}.safetensors").stat().st_size < 2_000_000
    scores = evaluate_linearizer(ibol.load_linearizer(name.replace("-", ":"))).scalars()
    assert scores["distance"] > 0.85 * provenance["scores"]["distance"]


def test_effort_costs_as_much_as_it_says() -> None:
    learning = trainer("half_cheetah", relabel=0.0)
    goals = learning._goals(np.random.default_rng(0), 2)
    columns, _ = learning._transitions(learning._explore(goals, 0), goals)
    some = {n: v[None, :20] for n, v in columns.items()}
    free, costly = (learning._compose(some, np.random.default_rng(1), cost) for cost in (0.0, 0.5))
    effort = (np.asarray(free.actions) ** 2).sum(axis=-1)
    np.testing.assert_allclose(free.rewards[..., -1] - costly.rewards[..., -1], 0.5 * effort, rtol=1e-4)
    np.testing.assert_array_equal(free.rewards[..., :-1], costly.rewards[..., :-1])


def test_the_cost_of_effort_grows_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    learning = trainer("point", epochs=4, action_cost=0.8, evaluate_every=0)
    asked: list[float] = []
    compose = learning._compose

    def spy(columns: object, rng: object, action_cost: float) -> object:
        asked.append(action_cost)
        return compose(columns, rng, action_cost)

    monkeypatch.setattr(learning, "_compose", spy)
    for epoch in range(4):
        learning.train_epoch(epoch)
    np.testing.assert_allclose(asked, [0.0, 0.2, 0.4, 0.6])


def test_the_reward_scale_multiplies_everything() -> None:
    batches = []
    for scale in (1.0, 10.0):
        learning = trainer("half_cheetah", relabel=0.0, alive_bonus=0.1, reward_scale=scale)
        goals = learning._goals(np.random.default_rng(0), 2)
        columns, _ = learning._transitions(learning._explore(goals, 0), goals)
        some = {n: v[None, :20] for n, v in columns.items()}
        batches.append(learning._compose(some, np.random.default_rng(1), 0.01))
    np.testing.assert_allclose(10 * batches[0].rewards, batches[1].rewards, rtol=1e-4)


def test_an_exchanged_transition_is_what_the_exchanged_robot_would_have_recorded() -> None:
    learning = trainer("ant", relabel=1.0, symmetric=True)
    goals = learning._goals(np.random.default_rng(0), 2)
    trajectories = learning._explore(goals, 0)
    columns, _ = learning._transitions(trajectories, goals)
    augmentation = learning.augmentation
    assert augmentation is not None
    assert len(augmentation) == 8
    group = augmentation.symmetries
    for which in range(8):
        index, sign = group.state_index[which], group.state_sign[which]
        turned = dataclasses.replace(
            trajectories,
            states=trajectories.states[..., index] * sign,
            actions=trajectories.actions[..., group.action_index[which]] * group.action_sign[which],
        )
        expected, _ = learning._transitions(turned, goals)
        augmented = augmentation(columns, np.full(len(columns["dones"]), which))
        for name in ("states", "next_states", "features", "actions"):
            np.testing.assert_allclose(augmented[name], expected[name], atol=2e-4, err_msg=f"{name}, {which}")


def test_a_fallen_robot_ends_its_training_episode_only() -> None:
    learning = trainer("ant", end_when_fallen=True, symmetric=False)
    assert learning.env.end_when_fallen
    assert not learning.agent().make_env(1).end_when_fallen


@pytest.mark.parametrize(
    ("env", "wrong", "match"),
    [
        ("half_cheetah", {"symmetric": True}, "half_cheetah has none"),
        ("point", {"symmetric": True}, "point has none"),
        ("half_cheetah", {"end_when_fallen": True}, "half_cheetah does not"),
        ("point", {"end_when_fallen": True}, "point does not"),
        ("ant", {"symmetric": True, "relabel": 0.0}, "relabel"),
        ("half_cheetah", {"frame": "goal"}, "moves in the plane"),
        ("ant", {"frame": "goal", "reward": "euclidean", "critic": "scalar", "relabel": 0.0}, "frame world only"),
        ("dkitty", {"rhythms": 0.5}, "add --symmetric"),
    ],
)
def test_what_a_robot_cannot_do_is_said(env: str, wrong: dict[str, object], match: str) -> None:
    with pytest.raises(IbolError, match=match):
        trainer(env, **wrong)


def rhythms_of(robot: str) -> Rhythms:
    return Rhythms(symmetries(ROBOTS[robot], load_model(ROBOTS[robot])), len(ROBOTS[robot].location_dims))


def test_a_new_rhythms_mirror_image_is_the_rhythm_half_a_period_later() -> None:
    rhythms = rhythms_of("dkitty")
    drawn = rhythms.draw(np.random.default_rng(0), np.ones((50, 2)))
    assert rhythms.actions(drawn[:0], 7).shape == (0, 12)
    mirrored = rhythms.mirror.action_sign[1] * rhythms.actions(drawn, 7)[:, rhythms.mirror.action_index[1]]
    later = np.concatenate([rhythms.actions(row[None], 7 + 0.5 / row[-1]) for row in drawn])
    np.testing.assert_allclose(mirrored, later, atol=1e-9)
    assert np.abs(later).max() <= 1


def led(moved: list[list[float]], lengths: list[int], horizon: int = 40) -> Trajectories:
    """Episodes of D'Kitties that slide evenly."""
    part = np.minimum(np.arange(horizon + 1) / np.array(lengths)[:, None], 1.0)[..., None]
    states = np.zeros((len(moved), horizon + 1, 43), np.float32)
    states[..., :2] = part * np.array(moved)[:, None]
    states[..., 2] = np.arange(horizon + 1)
    taken = np.zeros((len(moved), horizon, 12), np.float32)
    return Trajectories(states, taken, taken[..., 0], np.array(lengths), np.array(lengths) < horizon)


def test_rhythms_that_led_somewhere_are_varied_for_goals_that_way() -> None:
    rhythms, rng = rhythms_of("dkitty"), np.random.default_rng(0)
    drawn = rhythms.draw(rng, np.ones((6, 2)))
    found = led([[0, 1], [0, 2], [3, 0], [0, 9], [0, 4], [0, 5]], [40, 40, 40, 4, 40, 40])
    rhythms.learn(drawn, found, [0, 1])
    np.testing.assert_allclose(rhythms.reach[2], [5, 4, 2, 1], rtol=1e-6)  # the y axis; the one that fell counts 0.9
    np.testing.assert_array_equal(rhythms.kept["rhythm"][2], drawn[[5, 4, 1, 0]])
    np.testing.assert_allclose(rhythms.reach[0], [3, 0, 0, 0], rtol=1e-6)
    there = rhythms.draw(rng, np.tile([0.5, 0.01], (100, 1)))
    varied = np.abs((there - drawn[2])[:, :24]).max(axis=1) < 1.0  # offsets and amplitudes
    assert 60 < varied.sum() < 100
    assert (there != drawn[2]).any(axis=1).all()


def test_examples_are_what_the_best_rhythms_meant_to_do_and_where_it_led() -> None:
    rhythms, rng = rhythms_of("dkitty"), np.random.default_rng(0)
    drawn = rhythms.draw(rng, np.ones((2, 2)))
    rhythms.learn(drawn, led([[3, 0], [-4, 3]], [40, 40]), [0, 1])
    states, actions, ways = rhythms.examples(rng, 200)
    for way, rhythm in zip([[1, 0], [-0.8, 0.6]], drawn, strict=True):
        rows = np.isclose(ways, way, atol=1e-5).all(axis=1)
        assert rows.any()
        np.testing.assert_allclose(
            actions[rows], rhythms.actions(np.tile(rhythm, (rows.sum(), 1)), states[rows, 2:3].astype(int))
        )
    assert states[:, 2].max() == 25  # later ones have no 15 steps to come
    np.testing.assert_allclose(np.linalg.norm(ways, axis=1), 1.0, rtol=1e-5)


def test_rhythms_that_fell_at_once_are_no_examples() -> None:
    rhythms = rhythms_of("dkitty")
    assert len(rhythms.moving_steps()) == 0
    rhythms.learn(rhythms.draw(np.random.default_rng(0), np.ones((2, 2))), led([[3, 0], [0, 2]], [10, 12]), [0, 1])
    assert rhythms.reach.any()
    assert len(rhythms.moving_steps()) == 0


def test_the_policy_comes_near_what_it_imitates() -> None:
    learning, rng = trainer("dkitty", symmetric=True), np.random.default_rng(0)
    inputs = rng.standard_normal((1, 64, 86)).astype(np.float32).repeat(100, axis=0)
    actions = np.tanh(inputs[..., :12])
    follow = partial(imitate, inputs=inputs, actions=actions, learning_rate=1e-2, decay=1.0)
    policy, optimizer, first = follow(learning.learner.policy, learning.imitation)
    assert follow(policy, optimizer)[2] < 0.5 * first


def test_rhythms_fade_and_a_training_with_them_continues_exactly() -> None:
    settings = {"symmetric": True, "rhythms": 1.0, "imitation_steps": 5, "epochs": 2, "episodes_per_epoch": 4}
    learning, other = (trainer("dkitty", **settings) for _ in range(2))
    assert learning.train_epoch(0).metrics["imitation"] > 0
    assert learning.rhythms.reach.max() > 0
    goals = learning._goals(generator(0, "goals", 1), 4)
    swung = learning.rhythms.draw(generator(0, "rhythms", 1), goals[:2, :2])
    other.restore(learning.state())
    moved = learning._explore(goals, 1).actions[:2, 0]
    assert np.abs(moved - learning.rhythms.actions(swung, 0)).max() < 5 * DISTURBANCE
    learning.restore(other.state())
    assert learning.train_epoch(1) == other.train_epoch(1)


def test_several_steps_taken_together_add_up_and_end_where_the_episode_does() -> None:
    learning = trainer("half_cheetah", n_step=3, discount=0.9, alive_bonus=0.5, macro_length=1)
    single = trainer("half_cheetah", n_step=1, discount=0.9, alive_bonus=0.5, macro_length=1)
    goals = learning._goals(np.random.default_rng(0), 2)
    whole = learning._explore(goals, 0)
    cut = dataclasses.replace(whole, lengths=np.array([200, 4]), terminated=np.array([False, True]))
    many, _ = learning._transitions(cut, goals)
    one, _ = single._transitions(cut, goals)
    assert len(many["dones"]) == 204
    expected = one["features"][5] + 0.9 * one["features"][6] + 0.81 * one["features"][7]
    np.testing.assert_allclose(many["features"][5], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(many["bonus"][5], 0.5 * (1 + 0.9 + 0.81), rtol=1e-5)
    np.testing.assert_array_equal(many["next_states"][5], one["next_states"][7])
    np.testing.assert_allclose(many["dones"][5], 1 - 0.81, rtol=1e-5)
    # The last steps before the time limit take fewer, and keep the value of what follows.
    np.testing.assert_allclose(many["dones"][[198, 199]], [1 - 0.9, 0.0], atol=1e-6)
    np.testing.assert_array_equal(many["next_states"][198], one["next_states"][199])
    # A terminated episode has nothing behind its end.
    np.testing.assert_allclose(many["dones"][200:], [1 - 0.81, 1, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(many["bonus"][200:], 0.5 * np.array([2.71, 2.71, 1.9, 1.0]), rtol=1e-5)


def test_relabelled_transitions_can_take_one_step_where_others_take_several() -> None:
    settings = {"relabel": 0.5, "critic": "scalar", "alive_bonus": 0.5}
    learning = trainer("half_cheetah", n_step=3, one_step_relabels=True, **settings)
    single = trainer("half_cheetah", n_step=1, **settings)
    several = trainer("half_cheetah", n_step=3, **settings)
    goals = learning._goals(np.random.default_rng(0), 2)
    trajectories = learning._explore(goals, 0)
    batches = []
    for one in (learning, single, several):
        columns, _ = one._transitions(trajectories, goals)
        batches.append(one._compose({n: v[None, :100] for n, v in columns.items()}, np.random.default_rng(1), 0.1))
    mixed, one_step, three_steps = batches
    relabelled = (np.asarray(mixed.inputs)[0, :, 18:] != goals[0]).any(axis=1)
    assert 30 < relabelled.sum() < 70
    for name in ("rewards", "next_inputs", "dones"):
        found, own, other = (np.asarray(getattr(batch, name))[0] for batch in (mixed, three_steps, one_step))
        np.testing.assert_array_equal(found[~relabelled], own[~relabelled])
        np.testing.assert_array_equal(found[relabelled], other[relabelled])
        assert not np.allclose(own, other)


@pytest.mark.parametrize("keep_best", [True, False])
def test_a_run_can_keep_its_best_policy_instead_of_the_last(keep_best: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reaches = iter([2.0, 3.0, 1.0])

    class Found:
        def scalars(self) -> dict[str, float]:
            return {"reach": next(reaches)}

    monkeypatch.setattr("ibol.linearizer.training.evaluate_linearizer", lambda *_, **__: Found())
    learning = trainer(evaluate_every=1, keep_best=keep_best)
    name = next(name for name, value in learning.state().items() if name.startswith("policy/") and value.ndim == 2)
    policies = []
    for epoch in range(3):
        learning.train_epoch(epoch)
        policies.append(learning.state()[f"learner/{name}"])
    kept = learning.state()[name]
    np.testing.assert_array_equal(kept, policies[1 if keep_best else 2])
    assert (policies[1] != policies[2]).any()
    resumed = trainer(evaluate_every=1, keep_best=keep_best)
    resumed.restore({key: np.array(value) for key, value in learning.state().items()})
    np.testing.assert_array_equal(resumed.state()[name], kept)
