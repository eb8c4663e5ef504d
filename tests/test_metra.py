"""METRA, LSD, CSD and CSF: their losses by hand, what keeps phi in bounds, training to skills that go everywhere."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import call
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation.rollouts import skill_rollouts
from ibol.learners import sac
from ibol.learners.normalizer import Normalizer
from ibol.methods import csd, csf, metra, metric
from ibol.methods.sac_discovery import Observed
from ibol.metrics.locations import goal_shares, nearest_centroid_accuracy, smallest_sector
from ibol.nn.networks import MLP, LipschitzMLP
from ibol.presets import build
from ibol.runs.directory import RunDirectory
from ibol.skills.latents import Gaussian, OneHot, Prior, Sphere
from ibol.skills.policy import Skills, load_skills
from ibol.training.launch import create_trainer, find

METHODS = ["metra", "lsd", "csd", "csf"]


def trainer(name: str, env: str = "point", preset: str = "smoke", seed: int = 100, **overrides: object) -> Any:
    config = dataclasses.replace(build(find(name).config, name, preset, env), **overrides)
    return find(name).trainer(env, EnvSettings(), config, seed)


def transitions(count: int = 6, dims: int = 3, prior: Prior | None = None) -> Observed:
    rng = np.random.default_rng(0)
    states = rng.normal(size=(2, count, dims)).astype(np.float32)
    return Observed(*map(jnp.asarray, (*states, (prior or Sphere(2)).draw(rng, count))))


def linear(matrix: Any) -> MLP:
    """phi(s) = s M for states that are not negative: a hidden layer that hands them on."""
    matrix, key = jnp.asarray(matrix, jnp.float32), jax.random.key(0)
    network = MLP(*matrix.shape, matrix.shape[:1], jax.nn.relu, "xavier_uniform", key)
    weights = [jnp.eye(matrix.shape[0]), matrix]
    return eqx.tree_at(lambda n: [n.trunk.layers[0].weight, n.output.weight], network, weights)


ONE = Observed(jnp.array([[1.0, 2.0]]), jnp.array([[1.5, 2.25]]), jnp.array([[0.6, 0.8]]))
"""A step of (0.5, 0.25) along the latent (0.6, 0.8)."""


def test_the_reward_is_the_step_along_the_latent() -> None:
    np.testing.assert_allclose(metric.reward(linear(np.eye(2)), ONE, Sphere(2)), [0.5 * 0.6 + 0.25 * 0.8], rtol=1e-6)
    np.testing.assert_allclose(metric.reward(linear(2 * np.eye(2)), ONE, Gaussian(2)), [1.0], rtol=1e-6)
    assert trainer("csd", reward_scale=10.0).reward(trainer("csd").model, ONE, None) == pytest.approx(
        10 * trainer("csd", reward_scale=1.0).reward(trainer("csd").model, ONE, None)
    )


def test_the_reward_of_discrete_skills_is_centred() -> None:
    z = np.asarray(metric.direction(jnp.eye(4), OneHot(4)))
    np.testing.assert_allclose(z, np.where(np.eye(4) == 1, 1.0, -1 / 3), rtol=1e-6)
    np.testing.assert_allclose(z.sum(axis=0), 0.0, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_rewards_add_up_to_how_far_an_episode_went(name: str) -> None:
    learning = trainer(name, reward_scale=1.0)
    path = jnp.asarray(np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32))
    z = jnp.asarray(learning.prior.draw(np.random.default_rng(1), 1))
    episode = Observed(path[:-1], path[1:], jnp.repeat(z, 29, axis=0))
    phi = learning.model.phi
    features = learning.features(learning.model, episode, None)
    total = jnp.sum(features * learning.weights(episode.latents))
    np.testing.assert_allclose(total, jnp.sum((phi(path[-1:]) - phi(path[:1])) * z), rtol=1e-4, atol=1e-5)


def test_the_loss_of_metra_by_hand() -> None:
    config = metra.METRAConfig(slack=1e-3)
    loss, _ = metra.phi_loss(linear(np.eye(2)), jnp.float32(30.0), ONE, Sphere(2), config)
    np.testing.assert_allclose(loss, -(0.5 + 30 * 1e-3), rtol=1e-5)  # 1 - 0.3125 is more than eps
    loss, info = metra.phi_loss(linear(2 * np.eye(2)), jnp.float32(30.0), ONE, Sphere(2), config)
    np.testing.assert_allclose(info["room"], 1 - 1.25, rtol=1e-5)
    np.testing.assert_allclose(loss, -(1.0 - 30 * 0.25), rtol=1e-5)
    np.testing.assert_allclose(info["phi_step"], np.sqrt(1.25), rtol=1e-5)
    mean = dataclasses.replace(config, squared_norm="mean")
    left = metra.phi_loss(linear(2 * np.eye(2)), jnp.float32(30.0), ONE, Sphere(2), mean)[1]["room"]
    np.testing.assert_allclose(left, 1e-3, rtol=1e-5)  # 1 - 1.25 / 2 is more than eps


@pytest.mark.parametrize(("slope", "grows"), [(0.1, False), (10.0, True)])
def test_lambda_grows_while_steps_are_too_long_and_shrinks_else(slope: float, grows: bool) -> None:
    config = metra.METRAConfig(learning_rate=1e-2)
    phi, dual = linear(slope * np.eye(2)), metric.Dual.start(config)
    left = metra.phi_loss(phi, dual.multiplier, ONE, Sphere(2), config)[1]["room"]
    gradient = jax.grad(lambda x: metric.dual_loss(x, left)[0])(dual.log_multiplier)
    np.testing.assert_allclose(gradient, min(1e-3, 1 - slope**2 * 0.3125), rtol=1e-4)
    after, info = metric.update_dual(dual, left, config, 1.0)
    np.testing.assert_allclose(info["multiplier"], 30.0, rtol=1e-5)
    np.testing.assert_allclose(after.log_multiplier - dual.log_multiplier, 1e-2 if grows else -1e-2, rtol=1e-3)


def test_the_steps_of_metra_come_to_the_length_of_one() -> None:
    """Where phi could grow without bound, the constraint holds after training."""
    learning = trainer("metra", learning_rate=1e-2, hidden=(16, 16))
    seen = transitions(64, 2)
    batches = jax.tree.map(lambda x: jnp.broadcast_to(x, (1500, *x.shape)), seen)
    model, _ = learning.update_model(learning.model, batches, 1.0)
    lengths = np.linalg.norm(metric.displacement(model.phi, seen), axis=-1)
    assert np.quantile(lengths, 0.9) < 1.1
    assert np.sqrt((lengths**2).mean()) > 0.5


def spectral_norms(phi: LipschitzMLP) -> list[float]:
    plain = phi.plain()
    return [float(np.linalg.norm(np.asarray(layer.weight), 2)) for layer in (*plain.trunk.layers, plain.output)]


def test_phi_of_lsd_is_lipschitz_before_and_after_training() -> None:
    learning = trainer("lsd", preset="fast")
    np.testing.assert_allclose(spectral_norms(learning.model.phi), 1.0, rtol=1e-4)
    batches = jax.tree.map(lambda x: jnp.broadcast_to(x, (300, *x.shape)), transitions(64, 2, Gaussian(2)))
    model, _ = learning.update_model(learning.model, batches, 1.0)
    np.testing.assert_allclose(spectral_norms(model.phi), 1.0, rtol=0.01)
    assert np.abs(model.phi.network.output.weight - learning.model.phi.network.output.weight).max() > 0.01
    x, y = np.random.default_rng(2).normal(size=(2, 1000, 2)).astype(np.float32)
    ratio = np.linalg.norm(model.phi(x) - model.phi(y), axis=1) / np.linalg.norm(x - y, axis=1)
    assert 0.3 < ratio.max() <= 1.01


def test_csd_measures_steps_by_how_unexpected_they_are() -> None:
    steps = jax.tree.map(jnp.zeros_like, csd.StepModel(2, (4,), jax.random.key(0)))
    expected, log_std = jnp.array([0.1, 0.2]), jnp.log(jnp.array([0.5, 2.0]))
    steps = eqx.tree_at(lambda s: (s.mean.output.bias, s.log_std.output.bias), steps, (expected, log_std))
    # Weights 2 and 1/2 have a geometric mean of 1 already; the surprise is (0.4, 0.05).
    np.testing.assert_allclose(csd.distance(steps, ONE), [((0.4 * 2) ** 2 + (0.05 / 2) ** 2) / 2], rtol=1e-5)
    wider = eqx.tree_at(lambda s: s.log_std.output.bias, steps, log_std + 1.0)
    np.testing.assert_allclose(csd.distance(wider, ONE), csd.distance(steps, ONE), rtol=1e-5)
    likelihood = -0.5 * (0.8**2 + 0.025**2) - np.log(2 * np.pi)
    np.testing.assert_allclose(csd.steps_loss(steps, ONE)[0], -likelihood, rtol=1e-5)
    config = csd.CSDConfig(slack=1e-6)
    allowed = csd.distance(steps, ONE)
    loss, _ = csd.phi_loss(linear(2 * np.eye(2)), jnp.float32(3.0), allowed, ONE, Sphere(2), config)
    np.testing.assert_allclose(loss, -(1.0 + 3 * (float(allowed[0]) - 1.25)), rtol=1e-5)


def test_the_contrast_of_csf_by_hand() -> None:
    others = jnp.array([[1.0, 0.0], [0.0, -1.0]])
    loss, _ = csf.phi_loss(linear(np.eye(2)), ONE, others, Sphere(2), 5.0)
    by_hand = 0.5 - 5 * np.log((np.exp(0.5) + np.exp(-0.25)) / 2)
    np.testing.assert_allclose(loss, -by_hand, rtol=1e-5)
    nothing = csf.phi_loss(linear(np.zeros((2, 2))), ONE, others, Sphere(2), 5.0)[0]
    np.testing.assert_allclose(nothing, 0.0, atol=1e-6)


def test_the_critic_of_csf_predicts_steps_of_phi_without_an_entropy_bonus() -> None:
    learning = trainer("csf", gradient_steps=2)
    latents = learning.prior.draw(np.random.default_rng(0), 4)
    learning.learn(learning.explore(latents, 0), latents, 0)
    columns = learning.learner.sample(np.random.default_rng(0), 1)
    batch = jax.tree.map(lambda x: x[0], learning._compose(columns, None))
    np.testing.assert_array_equal(batch.weights, columns["latents"][0])
    seen = learning._observed(columns)
    phi = learning.model.phi
    np.testing.assert_allclose(batch.rewards, (phi(seen.next_states) - phi(seen.states))[0], atol=1e-5)
    networks, settings, key = learning.learner.networks, learning.learner.settings, jax.random.key(0)
    targets = sac.bellman_targets(networks, batch, settings, key)
    actions, _ = networks.policy(batch.next_inputs).sample_and_log_prob(key)
    first, second = (np.asarray(psi) for psi in networks.target(batch.next_inputs, actions))
    assert first.shape == (32, 2)
    q = [(psi * batch.weights).sum(axis=1) for psi in (first, second)]
    smaller = np.where((q[0] < q[1])[:, None], first, second)
    np.testing.assert_allclose(targets, batch.rewards + settings.discount * smaller, rtol=1e-4, atol=1e-5)


def test_csf_compares_each_step_with_other_latents() -> None:
    learning = trainer("csf")
    batches = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, *x.shape)), transitions(8, 2))
    once, _ = learning.update_model(learning.model, batches, 1.0)
    assert int(once.taken) == 3
    later = eqx.tree_at(lambda m: m.taken, learning.model, jnp.asarray(3, jnp.int32))
    other, _ = learning.update_model(later, batches, 1.0)
    same, _ = learning.update_model(learning.model, batches, 1.0)
    weights = [np.asarray(model.phi.output.weight) for model in (once, same, other)]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert np.abs(weights[0] - weights[2]).max() > 1e-6


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("metra", {"replay_size": 500}),
        ("metra", {"discrete_latents": 3}),
        ("lsd", {"replay_size": 0}),
        ("csd", {}),
        ("csf", {}),
        ("csf", {"replay_size": 0, "discrete_latents": 3}),
    ],
)
def test_the_same_seed_continues_exactly(name: str, settings: dict[str, object]) -> None:
    straight, broken, resumed = (trainer(name, **settings) for _ in range(3))
    for epoch in range(2):
        straight.train_epoch(epoch)
    broken.train_epoch(0)
    resumed.restore({key: np.array(value) for key, value in broken.state().items()})
    resumed.train_epoch(1)
    kept = straight.state()
    assert name not in ("metra", "csd") or kept["model/dual/log_multiplier"].shape == ()
    for key, value in kept.items():
        np.testing.assert_array_equal(value, resumed.state()[key], err_msg=key)


@pytest.mark.parametrize(("name", "epochs"), [("metra", 40), ("lsd", 20)])
def test_skills_leave_in_all_directions_after_a_short_training(name: str, epochs: int) -> None:
    learning = trainer(name, preset="fast", epochs=epochs, evaluate_every=0)
    before, _ = scores(learning)
    for epoch in range(epochs):
        learning.train_epoch(epoch)
    accuracy, sector = scores(learning)
    assert before < 0.4
    assert accuracy > 0.9
    assert sector > 0.01


def scores(learning: Any) -> tuple[float, float]:
    """The accuracy over 8 latents, and the share of random skills in the emptiest of 12 sectors."""
    skills = learning.agent()
    eight = skills.rollout(np.repeat(skills.prior.shown(), 20, axis=0), seed=1).states[:, -1]
    ends = skills.rollout(skills.sample_latents(400, seed=2), seed=2).states[:, -1]
    return nearest_centroid_accuracy(eight.reshape(8, 20, 2)), smallest_sector(ends)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "variant",
    [
        {"linearizer": "none", "normalizer": "fixed", "encoder_sees": "location", "latent_dim": 1},
        {"policy_sees": "no_location", "discrete_latents": 3},
    ],
)
def test_variants_train(name: str, variant: dict[str, object]) -> None:
    learning = trainer(name, "half_cheetah", episodes_per_epoch=2, evaluation_trajectories=4, **variant)
    metrics = learning.train_epoch(0).metrics
    assert np.isfinite(list(metrics.values())).all()
    assert metrics["phi_step"] > 0
    assert ("multiplier" in metrics) == (name in ("metra", "csd"))


@pytest.mark.parametrize("name", METHODS)
def test_a_run_from_the_command_line_to_its_use(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, few = tmp_path / "run", ("--trajectories", "40", "--quiet")
    call("discover", "point", "--method", name, "--preset", "smoke", "--quiet", "--run-dir", run)
    skills = load_skills(run)
    assert skills.prior == (Gaussian(2) if name == "lsd" else Sphere(2))
    call("resume", run, "--epochs", "4", "--quiet")
    call("evaluate", run, "--json", tmp_path / "scores.json", *few)
    assert find(name).title in capsys.readouterr().out
    for row in json.loads((tmp_path / "scores.json").read_text()):
        assert 0 <= row["goal_stay_1m"] <= row["goal_hit_1m"] <= row["goal_hit_3m"] <= 1
        assert row["unit_coverage"] >= 4
    call("plot", run, "--output", tmp_path / "paths.png", *few)
    curves = ("--figure", "curves", "--metric", "phi_step", "--output", tmp_path / "curves.png")
    call("plot", run, *curves, "--quiet")
    call("video", run, "--output", tmp_path / "film.png", "--quiet")
    call("report", run, "--no-films", "--output", tmp_path / "page.html", *few)
    assert len(list(tmp_path.glob("*.png"))) == 3
    assert f"--method {name}" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", METHODS)
def test_a_loaded_run_has_the_representation_that_was_trained(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("discover", "point", "--method", name, "--preset", "smoke", "--quiet", "--run-dir", run)
    skills, learning = load_skills(run), create_trainer(RunDirectory.open(run))
    learning.restore(RunDirectory.open(run).load_checkpoint()[0])
    seen = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    assert skills.phi is not None
    np.testing.assert_allclose(skills.phi(seen), learning.model.phi(seen), rtol=1e-5, atol=1e-6)
    assert skills.finds_goals
    many, few = (skill_rollouts(run, which="goals", trajectories=count, deterministic=True) for count in (12, 5))
    np.testing.assert_array_equal(few.locations, many.locations[:5])
    assert np.abs(many.latents).max() < 3.0, "goals of the task point_goal"
    z = skills.latent_for(many.latents, many.locations[:, 0])
    step = 0.1 * skills.act(many.locations[:, 0], z, deterministic=True)
    np.testing.assert_allclose(many.locations[:, 1] - many.locations[:, 0], step, atol=1e-5)
    if name != "lsd":
        with pytest.raises(IbolError, match="Gaussian latents"):
            skill_rollouts(run, which="line", trajectories=9)


def test_skills_without_a_representation_find_no_goals(point_skills: Path) -> None:
    assert not load_skills(point_skills).finds_goals
    with pytest.raises(IbolError, match="need a representation"):
        skill_rollouts(point_skills, which="goals", trajectories=5)


def goal_skills(prior: Prior, phi: MLP, **changes: object) -> Skills:
    described = dataclasses.replace(
        trainer("metra").describe_skills(), latent_dim=prior.dim, prior=prior.name, **changes
    )
    return Skills(described, described.policy_template(), Normalizer(2), None, phi)


def test_the_latent_for_a_goal_points_to_it_in_the_representation() -> None:
    turned = linear([[0.0, 2.0], [2.0, 0.0]])  # exchanges x and y
    states, goals = np.array([[1.0, 1.0], [2.0, 3.0]]), np.array([[4.0, 5.0], [2.0, 1.0]])
    unit = np.array([[0.8, 0.6], [-1.0, 0.0]])
    np.testing.assert_allclose(goal_skills(Sphere(2), turned).latent_for(goals, states), unit, rtol=1e-5, atol=1e-6)
    gaussian = goal_skills(Gaussian(2), turned).latent_for(goals, states)
    np.testing.assert_allclose(gaussian, np.sqrt(2) * unit, rtol=1e-5, atol=1e-6)
    three = linear([[1.0, -1.0, 0.5], [1.0, -1.0, -2.0]])
    discrete = goal_skills(OneHot(3), three).latent_for(goals, states)
    np.testing.assert_array_equal(discrete, [[1, 0, 0], [0, 0, 1]])
    blind = goal_skills(Sphere(2), turned, represented=())
    with pytest.raises(IbolError, match="no representation of locations"):
        blind.latent_for(goals, states)


def test_shares_of_goals_by_hand() -> None:
    paths = np.array([[[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.5], [0.0, 2.0]]])
    goals = np.array([[3.0, 3.0], [0.0, 0.0]])
    assert goal_shares(paths, goals, 1.0) == (1.0, 0.5, 0.5)
    assert goal_shares(paths, goals, 3.0) == (1.0, 1.0, 1.0)


def test_one_discrete_skill_is_too_few() -> None:
    with pytest.raises(IbolError, match="at least 2"):
        trainer("metra", discrete_latents=1)
