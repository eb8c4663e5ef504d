"""EDL: every loss and reward against numbers by hand, exact resume in each stage, and places that can be told apart."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from conftest import call, fails
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners.normalizer import load_normalizer
from ibol.learners.replay import Replay
from ibol.methods import edl, state_vae
from ibol.methods import state_marginal_matching as smm
from ibol.metrics.locations import nearest_centroid_accuracy
from ibol.presets import build
from ibol.runs.directory import RunDirectory
from ibol.skills.policy import load_skills
from ibol.training.launch import find

WEIGHTS = jnp.array([1.0, 0.5, 2.0])


def trainer(env: str = "point", preset: str = "smoke", seed: int = 0, **overrides: object) -> Any:
    config = dataclasses.replace(build(edl.EDLConfig, "edl", preset, env), **overrides)
    return find("edl").trainer(env, EnvSettings(), config, seed)


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def visited(count: int = 6, skills: int = 4) -> smm.Visited:
    chosen = np.random.default_rng(1).integers(skills, size=count)
    return smm.Visited(normal(count, 3), jnp.eye(skills)[chosen])


def models(**settings: Any) -> tuple[smm.Models, smm.ExplorationFields]:
    config = smm.ExplorationFields(model_hidden=(8, 8), density_code=5, **settings)
    return smm.create(3, config, jax.random.key(0)), config


# Explore.


def test_the_divergence_from_the_prior_is_that_of_samples() -> None:
    mean, std = np.array([0.5, -1.0]), np.array([0.3, 1.5])
    drawn = np.random.default_rng(0).normal(mean, std, (400_000, 2))
    by_samples = (norm(mean, std).logpdf(drawn) - norm.logpdf(drawn)).sum(axis=1).mean()
    np.testing.assert_allclose(smm.gaussian_kl(jnp.asarray(mean), jnp.log(std)), by_samples, rtol=0.01)
    assert smm.gaussian_kl(jnp.zeros(3), jnp.zeros(3)) == 0


def test_the_density_model_is_a_vae_of_states_and_skills() -> None:
    made, _ = models()
    seen, noise = visited(), normal(6, 5, seed=2)
    x = np.concatenate([seen.states, seen.skills], axis=1)
    answer = np.asarray(made.density.encoder(x))
    mean, log_std = answer[:, :5], answer[:, 5:]
    decoded = np.asarray(made.density.decoder(mean + np.exp(log_std) * np.asarray(noise)))
    errors = ((x - decoded) * [1.0, 0.5, 2.0, 1, 1, 1, 1]) ** 2
    kl = 0.5 * (mean**2 + np.exp(2 * log_std) - 2 * log_std - 1).sum(axis=1)
    loss, _ = smm.density_loss(made.density, seen, WEIGHTS, noise, 0.3)
    np.testing.assert_allclose(loss, 0.3 * kl.mean() + errors.mean(), rtol=1e-4)


def test_exploring_is_rewarded_for_novel_states_that_show_their_skill() -> None:
    made, _ = models()
    seen, key = visited(), jax.random.key(3)
    errors, _ = smm.reconstruct(made.density, seen, WEIGHTS, jax.random.normal(key, (6, 5)))
    odds = np.exp(np.asarray(made.discriminator(seen.states), np.float64))
    probability = odds[np.arange(6), np.asarray(seen.skills).argmax(axis=1)] / odds.sum(axis=1)
    given, info = smm.reward(made, seen, WEIGHTS, 0.05, key)
    novelty = np.asarray(errors).sum(axis=1)
    np.testing.assert_allclose(given, np.log(probability) - np.log(1 / 4) + 0.05 * novelty, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(info["explore/novelty"], novelty.mean(), rtol=1e-5)


def test_ignorant_models_reward_nothing_but_the_distance_from_nothing() -> None:
    ignorant = jax.tree.map(jnp.zeros_like, models()[0])
    seen = visited()
    given, _ = smm.reward(ignorant, seen, jnp.ones(3), 2.0, jax.random.key(0))
    np.testing.assert_allclose(given, 2 * (np.asarray(seen.states**2).sum(axis=1) + 1), rtol=1e-5)


def test_the_discriminator_follows_the_cross_entropy() -> None:
    made, _ = models()
    seen = visited()
    odds = np.exp(np.asarray(made.discriminator(seen.states), np.float64))
    probability = odds[np.arange(6), np.asarray(seen.skills).argmax(axis=1)] / odds.sum(axis=1)
    np.testing.assert_allclose(
        smm.discriminator_loss(made.discriminator, seen)[0], -np.log(probability).mean(), rtol=1e-5
    )


def test_the_models_learn_whose_states_are_whose_and_which_are_common() -> None:
    made, config = models(density_kl=0.01)
    rng = np.random.default_rng(0)
    skills = rng.integers(4, size=(300, 64))
    centers = np.array([[2, 0, 0], [-2, 0, 0], [0, 2, 0], [0, -2, 0]])
    states = centers[skills] + 0.1 * rng.standard_normal((300, 64, 3))
    seen = smm.Visited(jnp.asarray(states, jnp.float32), jnp.eye(4)[skills])
    made, _ = smm.update(made, seen, jnp.ones(3), config, jax.random.key(0))
    common, info = smm.reward(made, jax.tree.map(lambda x: x[-1], seen), jnp.ones(3), 1.0, jax.random.key(1))
    elsewhere = smm.Visited(jnp.full((64, 3), 3.0), jnp.eye(4)[skills[-1]])
    novel, _ = smm.reward(made, elsewhere, jnp.ones(3), 1.0, jax.random.key(1))
    assert info["explore/discrimination"] > 0.9 * np.log(4)
    assert np.median(common) + 5 < np.median(novel)


# Discover.


def test_the_vae_has_the_negative_evidence_bound() -> None:
    config = state_vae.StateModelFields(discover_hidden=(8, 8), discover_kl=0.7)
    vae, states, key = state_vae.GaussianVAE(3, 2, (8, 8), jax.random.key(0)), normal(6, 3), jax.random.key(5)
    mean, log_std = (np.asarray(part) for part in jnp.split(vae.encoder(states), 2, axis=1))
    decoded = np.asarray(vae.decoder(mean + np.exp(log_std) * np.asarray(jax.random.normal(key, (6, 2)))))
    likelihood = [multivariate_normal(d).logpdf(s) for d, s in zip(decoded, np.asarray(states), strict=True)]
    kl = 0.5 * (mean**2 + np.exp(2 * log_std) - 2 * log_std - 1).sum(axis=1)
    loss, info = state_vae.vae_loss(vae, states, jnp.ones(3), key, config)
    constant = 1.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(loss, -np.mean(likelihood) - constant + 0.7 * kl.mean(), rtol=1e-4)
    np.testing.assert_allclose(info["discover/kl"], kl.mean(), rtol=1e-4)
    weighted, _ = state_vae.vae_loss(vae, states, WEIGHTS, key, config)
    errors = ((np.asarray(states) - decoded) * np.asarray(WEIGHTS)) ** 2
    np.testing.assert_allclose(weighted, 0.5 * errors.sum(axis=1).mean() + 0.7 * kl.mean(), rtol=1e-4)


def test_the_encoder_does_not_see_how_far_outliers_are() -> None:
    config = state_vae.StateModelFields(discover_hidden=(8, 8), discover_kl=1.0)
    vae = state_vae.GaussianVAE(1, 1, (8, 8), jax.random.key(0))
    kls = [
        state_vae.vae_loss(vae, jnp.array([[x]]), jnp.ones(1), jax.random.key(0), config)[1]["discover/kl"]
        for x in (5.0, 50.0)
    ]
    assert kls[0] == kls[1]


def test_the_vq_vae_by_hand() -> None:
    config = state_vae.StateModelFields(discrete_latents=4, code_dim=2, commitment=1.5)
    vae, states = state_vae.VQVAE(3, 4, 2, (8, 8), jax.random.key(0)), normal(6, 3)
    assert float(jnp.abs(vae.codebook).max()) <= 1 / 4
    answers, codes = np.asarray(vae.encoder(states)), np.asarray(vae.codebook)
    nearest = codes[np.linalg.norm(answers[:, None] - codes, axis=2).argmin(axis=1)]
    error = ((np.asarray(states) - np.asarray(vae.decoder(nearest))) ** 2).sum(axis=1).mean()
    gap = ((answers - nearest) ** 2).sum(axis=1).mean()
    key = jax.random.key(0)
    loss, info = state_vae.vq_loss(vae, states, jnp.ones(3), key, config)
    np.testing.assert_allclose(loss, error + gap + 1.5 * gap, rtol=1e-4)
    np.testing.assert_allclose(info["discover/commitment"], gap, rtol=1e-4)

    def gradient(beta: float) -> state_vae.VQVAE:
        other = dataclasses.replace(config, commitment=beta)
        return jax.grad(lambda v: state_vae.vq_loss(v, states, jnp.ones(3), key, other)[0])(vae)

    # Codes move towards the answers alone: d/de of the mean of |c - e|^2.
    chosen = np.linalg.norm(answers[:, None] - codes, axis=2).argmin(axis=1)
    pull = np.array([2 * (codes[k] - answers[chosen == k]).sum(axis=0) / 6 for k in range(4)])
    np.testing.assert_allclose(gradient(1.5).codebook, pull, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(gradient(0.0).codebook, gradient(1.5).codebook)
    # The encoder gets the decoder's gradient as if the code were its own answer, and the commitment.
    bias = np.asarray(gradient(1.5).encoder.output.bias - gradient(0.0).encoder.output.bias)
    np.testing.assert_allclose(bias, 1.5 * 2 * (answers - nearest).mean(axis=0), rtol=1e-3, atol=1e-5)
    through = jax.grad(lambda c: jnp.sum((states - vae.decoder(c)) ** 2, axis=1).mean())(jnp.asarray(nearest))
    np.testing.assert_allclose(gradient(0.0).encoder.output.bias, through.sum(axis=0), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("count", [0, 8])
def test_a_vae_finds_where_states_are_and_ignores_constant_coordinates(count: int) -> None:
    rng = np.random.default_rng(0)
    corners = np.array(list(itertools.product([-4.0, 4.0], [-1.0, 5.0])))
    states = corners[rng.integers(4, size=2000)] + 0.1 * rng.standard_normal((2000, 2))
    states = np.concatenate([states, np.full((2000, 1), 7.0)], axis=1).astype(np.float32)
    config = state_vae.StateModelFields(
        discrete_latents=count, discover_steps=1200, discover_batch=64, discover_learning_rate=3e-3,
        discover_hidden=(32, 32), discover_kl=0.02,
    )  # fmt: skip
    fresh = state_vae.create(3, count or 2, config, jax.random.key(0))
    found, info = state_vae.fit(fresh, states, np.ones(3), config, 0)
    np.testing.assert_allclose(found.std[2], 1.0)
    assert np.isfinite(list(info.values())).all()
    latents = jnp.eye(8) if count else normal(400, 2)
    goals = np.asarray(found.vae.decode(latents) * found.std + found.mean)
    np.testing.assert_allclose(goals[:, 2], 7.0, atol=0.2)
    nearest = np.linalg.norm(corners[:, None] - goals[None, :, :2], axis=2).min(axis=1)
    assert (nearest < 0.7).sum() >= (3 if count else 4), "codes of a VQ-VAE may share a corner"


# Learn.


def discovered() -> state_vae.Discovered:
    vae = state_vae.GaussianVAE(3, 2, (8, 8), jax.random.key(0))
    return state_vae.Discovered(vae, jnp.array([1.0, 0.0, -1.0]), jnp.array([2.0, 1.0, 0.5]), WEIGHTS)


@pytest.mark.parametrize("form", ["euclidean", "log_likelihood"])
@pytest.mark.parametrize("progress", [False, True])
def test_the_skill_policy_is_rewarded_for_states_that_its_latent_stands_for(form: Any, progress: bool) -> None:
    found, config = discovered(), edl.EDLConfig(reward=form, progress=progress)
    before, after, latents = normal(6, 3, seed=1), normal(6, 3, seed=2), normal(6, 2, seed=3)
    goals = np.asarray(found.vae.decoder(latents))

    def closeness(states: jax.Array) -> Any:
        apart = (np.asarray(states) - [1.0, 0.0, -1.0]) / [2.0, 1.0, 0.5] - goals
        far = np.linalg.norm(apart * np.asarray(WEIGHTS), axis=1)
        return -far if form == "euclidean" else multivariate_normal(np.zeros(1)).logpdf(far) + 0.5 * np.log(2 * np.pi)

    expected = closeness(after) - (closeness(before) if progress else 0)
    np.testing.assert_allclose(edl.reward(found, before, after, latents, config), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("units", ["raw", "normalized", "random_actions"])
def test_distances_have_the_units_that_were_asked_for(units: Any) -> None:
    learning = trainer("half_cheetah", units=units, linearizer="none", episodes_per_epoch=2, encoder_sees="location")
    std = np.array([0.8])
    shipped = load_normalizer("half_cheetah")
    assert shipped is not None
    expected = {"raw": 0.8, "normalized": 1.0, "random_actions": 0.8 / shipped.std[0]}
    np.testing.assert_allclose(state_vae.in_units(std, learning.unit), [expected[units]], rtol=1e-5)


def test_siblings_are_paid_for_each_others_distance_and_the_nearer_one_is_left_out() -> None:
    to_goal = np.array([[1.0, 4.0], [6.0, 2.0], [3.0, 3.0], [5.0, 1.0]])
    apart = np.array([8.0, 5.5, 9.0, 4.0])
    rewards, kept = edl.sibling_rewards(to_goal, apart, 5.0)
    np.testing.assert_allclose(rewards, [[0, 0], [-0.5, 0], [0, 0], [-1, 0]])
    np.testing.assert_array_equal(kept, [[False, True], [True, False], [True, True], [True, True]])


def test_siblings_share_a_latent_and_are_rewarded_at_their_ends() -> None:
    learning = trainer(sibling_rivalry=True, sibling_distance=0.0)
    learning.train_epoch(0)
    replay = learning.learner.replay
    assert replay.size == 0, "the exploration's steps have no siblings"
    learning.train_epoch(1)
    assert replay.size == 100, "of two pairs of 50 steps one each"
    rewards, dones = replay.column("rewards"), replay.column("dones")
    assert (np.nonzero(dones)[0] == [49, 99]).all()
    assert (rewards[dones == 0] == 0).all()
    assert (rewards <= 0).all()
    latents = replay.column("latents").reshape(2, 50, 2)
    assert (latents == latents[:, :1]).all()
    assert (latents[0, 0] != latents[1, 0]).all()


def test_steps_of_the_exploration_are_learned_from_with_random_latents() -> None:
    learning = trainer(relabel=0.0)
    seen: list[Any] = []
    update = learning.learner.update
    learning.learner.update = lambda batches, *rest: (seen.append(batches), update(batches, *rest))[1]
    learning.train_epoch(0)
    drawn = np.asarray(seen[0].inputs[..., 2:]).ravel()
    assert abs(drawn.mean()) < 0.3
    assert abs(drawn.std() - 1) < 0.3
    learning.train_epoch(1)
    flags = learning.learner.replay.column("skills").any(axis=1)
    assert flags[:200].all()
    assert not flags[200:].any()
    own = {tuple(latent) for latent in learning.learner.replay.column("latents")[200:]}
    used = [tuple(latent) for latent in np.asarray(seen[1].inputs[..., 2:]).reshape(-1, 2)]
    assert 0.2 < np.mean([latent in own for latent in used]) < 0.8
    fresh = trainer(reuse_exploration=False)
    before = np.asarray(fresh.skill_policy.network.heads[0].bias)
    fresh.train_epoch(0)
    np.testing.assert_array_equal(before, fresh.skill_policy.network.heads[0].bias)
    assert fresh.learner.replay.size == 0


def test_exploring_keeps_the_rewards_of_its_time() -> None:
    learning = trainer(explore_epochs=2)
    learning.train_epoch(0)
    first = learning.learner.replay.column("rewards").copy()
    learning.train_epoch(1)
    np.testing.assert_array_equal(first, learning.learner.replay.column("rewards")[: len(first)])


def test_states_are_normalised_as_the_exploration_left_them() -> None:
    learning = trainer(normalizer="ema")
    moved = [learning.train_epoch(epoch) and learning.normalizer.mean.copy() for epoch in range(2)]
    assert (moved[0] != 0).all()
    np.testing.assert_array_equal(*moved)


# The whole.

SETTINGS: list[dict[str, object]] = [
    {},
    {"discrete_latents": 3, "replay_size": 300, "relabel": 0.5, "reward": "log_likelihood"},
    {"sibling_rivalry": True, "normalizer": "ema", "units": "normalized", "learn_explore_temperature": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["plain", "discrete", "siblings"])
def test_every_stage_continues_exactly(settings: dict[str, object]) -> None:
    """Stopped after each epoch: two of exploring, of which the second discovers, and two of learning."""
    made = {"epochs": 4, "explore_epochs": 2, "evaluate_every": 0, **settings}
    straight = trainer(**made)
    states = []
    for epoch in range(4):
        straight.train_epoch(epoch)
        states.append({key: np.array(value) for key, value in straight.state().items()})
    for stopped in range(3):
        resumed = trainer(**made)
        resumed.restore(states[stopped])
        resumed.train_epoch(stopped + 1)
        after = resumed.state()
        assert set(after) == set(states[stopped + 1])
        for key, value in states[stopped + 1].items():
            assert after[key].tobytes() == value.tobytes(), (stopped, key)


def test_an_epoch_that_is_cut_short_leaves_nothing() -> None:
    made = {"epochs": 3, "explore_epochs": 2, "evaluate_every": 0, "replay_size": 300}
    for settings in ({}, {"reuse_exploration": False}):
        straight, broken = trainer(**made, **settings), trainer(**made, **settings)
        for epoch in range(3):
            kept = {name: np.array(v) if "replay/" not in name else v for name, v in broken.state().items()}
            broken.train_epoch(epoch)
            broken.go_back(kept)
            broken.train_epoch(epoch)
            straight.train_epoch(epoch)
        for key, value in straight.state().items():
            np.testing.assert_array_equal(value, broken.state()[key], err_msg=key)


def test_a_cleared_replay_is_as_new() -> None:
    replay = Replay(4, {"a": ()})
    replay.add({"a": np.arange(3.0)})
    kept = replay.state()
    replay.clear()
    assert replay.column("a").shape == (0,)
    replay.add({"a": np.array([7.0, 8.0])})
    np.testing.assert_array_equal(replay.column("a"), [7, 8])
    replay.restore(kept)
    np.testing.assert_array_equal(replay.column("a"), [0, 1, 2])


@pytest.fixture(scope="module")
def learned() -> Any:
    learning = trainer(preset="fast", seed=100, evaluate_every=0)
    for epoch in range(learning.epochs):
        learning.train_epoch(epoch)
    return learning


def test_latents_of_the_point_end_at_places_of_their_own(learned: Any) -> None:
    latents = np.repeat(learned.prior.shown(), 20, axis=0)
    ends = learned.agent().rollout(latents, seed=1).states[:, -1]
    assert nearest_centroid_accuracy(ends.reshape(8, 20, 2)) >= 0.9
    start = trainer(preset="fast", seed=100).agent().rollout(latents, seed=1).states[:, -1]
    assert nearest_centroid_accuracy(start.reshape(8, 20, 2)) < 0.5
    goals = np.asarray(learned.found.vae.decode(latents) * learned.found.std + learned.found.mean)
    assert np.linalg.norm(ends - goals, axis=1).mean() < 1.0, "they go where the decoder says"


def test_the_decoder_covers_what_the_point_can_reach(learned: Any) -> None:
    found, latents = learned.found, learned.prior.draw(np.random.default_rng(0), 2000)
    goals = np.asarray(found.vae.decode(latents) * found.std + found.mean)
    reach = 5.0  # 50 steps of 0.1
    inside = goals[(np.abs(goals) < reach).all(axis=1)]
    assert len(inside) > 0.9 * len(goals)
    assert len(np.unique(np.floor(inside), axis=0)) > 60, "of 100 cells"


def test_progress_says_which_stage_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    short = ("--preset", "smoke", "--evaluate-every", 0)
    call("discover", "point", "--method", "edl", *short, "--run-dir", run)
    said = capsys.readouterr().err
    assert "explore/reward" in said
    assert [line for line in said.splitlines() if line.startswith("stage")] == [
        "stage: explore and discover", "stage: learn",
    ]  # fmt: skip
    assert [trainer(explore_epochs=2).stage(epoch) for epoch in range(3)] == [
        "explore",
        "explore and discover",
        "learn",
    ]
    rows = list(RunDirectory.open(run).metrics())
    stages = [{name.split("/")[0] for name in row} & {"explore", "discover", "learn"} for row in rows]
    assert stages == [{"explore", "discover"}, {"learn"}, {"learn"}]
    assert [row["env_steps"] for row in rows] == [200, 400, 600]


def test_discrete_skills_from_the_command_line(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("discover", "point", "--method", "edl", "--preset", "smoke", "--discrete-latents", 5, "--run-dir", run)
    skills = load_skills(run)
    assert skills.prior.discrete
    assert skills.rollout(skills.sample_latents(3)).states.shape == (3, 51, 2)


def test_what_cannot_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ("discover", "point", "--method", "edl", "--preset", "smoke", "--run-dir", tmp_path / "run")
    assert "replay_size is 0" in fails(capsys, *start, "--replay-size", 0)
    assert "even number" in fails(capsys, *start, "--sibling-rivalry", "--episodes-per-epoch", 3)
    assert "at least 2 skills" in fails(capsys, *start, "--discrete-latents", 1)
    assert "--explore-epochs is 0" in fails(capsys, *start, "--explore-epochs", 0)
    with pytest.raises(IbolError, match="no location"):
        trainer("Pendulum-v1", encoder_sees="location", linearizer="none")


def test_the_vae_sees_the_location_alone_if_asked_to() -> None:
    learning = trainer("half_cheetah", encoder_sees="location", episodes_per_epoch=2, evaluate_every=0)
    learning.train_epoch(0)
    assert learning.found.mean.shape == (1,)
    assert learning.models.discriminator.trunk.layers[0].weight.shape[0] == 1
    assert eqx.tree_equal(learning.found.weights, learning.found.std)  # raw units
