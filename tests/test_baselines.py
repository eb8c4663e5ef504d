"""The baselines: rewards against closed forms, masking, training to skills that can be told apart."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from ibol.cli import main
from ibol.envs.settings import EnvSettings
from ibol.methods import dads, diayn, valor
from ibol.methods.chosen_steps import evenly_spaced
from ibol.methods.sac_discovery import Observed
from ibol.metrics.locations import nearest_centroid_accuracy
from ibol.nn.distributions import gaussian_log_prob
from ibol.presets import build
from ibol.skills.env import SkillEnv
from ibol.skills.latents import Gaussian
from ibol.skills.policy import assemble, load_skills
from ibol.training.launch import find

METHODS = ["diayn", "valor", "dads", "edl", "sectar"]


def trainer(name: str, env: str = "point", preset: str = "smoke", seed: int = 0, **overrides: object) -> Any:
    config = dataclasses.replace(build(find(name).config, name, preset, env), **overrides)
    return find(name).trainer(env, EnvSettings(), config, seed)


def observed(count: int = 6, dims: int = 3, latents: int = 2) -> Observed:
    rng = np.random.default_rng(0)
    return Observed(*(jnp.asarray(rng.normal(size=(count, size)).astype(np.float32)) for size in (dims, dims, latents)))


def test_diayn_rewards_the_log_likelihood_ratio_of_the_latent() -> None:
    discriminator, seen = diayn.Discriminator(3, 2, (8, 8), jax.random.key(0)), observed()
    mean, std = discriminator.mean(seen.next_states), np.exp(discriminator.log_std(seen.next_states))
    expected = norm(mean, std).logpdf(seen.latents).sum(-1) - norm.logpdf(seen.latents).sum(-1)
    np.testing.assert_allclose(diayn.reward(discriminator, seen, Gaussian(2)), expected, rtol=1e-4, atol=1e-5)


def test_a_discriminator_that_knows_nothing_rewards_nothing() -> None:
    discriminator = jax.tree.map(jnp.zeros_like, diayn.Discriminator(3, 2, (8, 8), jax.random.key(0)))
    np.testing.assert_allclose(diayn.reward(discriminator, observed(), Gaussian(2)), 0.0, atol=1e-6)


def test_skill_dynamics_are_a_mixture_of_unit_gaussians() -> None:
    dynamics, seen = dads.SkillDynamics(3, 3, 2, 4, (8, 8), jax.random.key(0)), observed()
    features = dynamics.trunk(jnp.concatenate([seen.states, seen.latents], axis=-1))
    weights = np.asarray(jax.nn.softmax(dynamics.logits(features)))
    means = np.asarray(dynamics.means(features)).reshape(-1, 4, 3)
    density = [
        sum(w * multivariate_normal(m).pdf(d) for w, m in zip(weights[i], means[i], strict=True))
        for i, d in enumerate(np.asarray(seen.next_states))
    ]
    np.testing.assert_allclose(dynamics.log_prob(*seen[::2], seen.next_states), np.log(density), rtol=1e-4)


def test_dads_compares_a_step_with_what_other_latents_predict() -> None:
    learning = trainer("dads", prior_samples=50)
    model, seen = learning.model, observed(dims=2)
    states, moved, latents = learning._parts(seen)
    reward = learning.reward(model, seen, jax.random.key(3))
    i, key = 4, jax.random.split(jax.random.key(3), len(latents))[4]
    others = jax.random.normal(key, (50, 2))
    log_q = [
        float(model.dynamics.log_prob(model.seen(states[i]), z, model.moved(moved[i]))) for z in [latents[i], *others]
    ]
    by_hand = log_q[0] - np.log(np.mean(np.exp(log_q)))
    np.testing.assert_allclose(reward[i], by_hand, rtol=1e-3, atol=1e-4)


def test_dads_rewards_nothing_if_the_latent_does_not_matter_and_at_most_log_of_the_comparisons() -> None:
    learning, seen = trainer("dads", prior_samples=20), observed(dims=2)
    deaf = learning.model.dynamics.trunk.layers[0].weight.at[2:].set(0.0)
    model = eqx.tree_at(lambda m: m.dynamics.trunk.layers[0].weight, learning.model, deaf)
    np.testing.assert_allclose(learning.reward(model, seen, jax.random.key(0)), 0.0, atol=1e-5)
    keen = learning.model.dynamics.trunk.layers[0].weight * 100
    model = eqx.tree_at(lambda m: m.dynamics.trunk.layers[0].weight, learning.model, keen)
    reward = learning.reward(model, seen, jax.random.key(0))
    assert np.abs(reward).max() > 0.5
    assert reward.max() <= np.log(21) + 1e-5


def test_the_running_statistics_of_dads_follow_the_data() -> None:
    learning = trainer("dads", statistics_rate=0.1)
    rng = np.random.default_rng(0)
    states = rng.normal(3.0, 2.0, (200, 64, 2)).astype(np.float32)
    seen = Observed(jnp.asarray(states), jnp.asarray(states + 0.5), jnp.zeros((200, 64, 2)))
    model, _ = learning.update_model(learning.model, seen, 1.0)
    np.testing.assert_allclose(model.seen.mean, 3.0, atol=0.2)
    np.testing.assert_allclose(model.seen.var, 4.0, atol=0.6)
    np.testing.assert_allclose(model.moved.mean, 0.5, atol=1e-3)


def test_valors_decoder_sees_evenly_spaced_states() -> None:
    which, count = evenly_spaced(np.array([200, 12, 90]), 200, 20)
    expected = [0, 10, 21, 31, 42, 52, 63, 73, 84, 94, 105, 115, 126, 136, 147, 157, 168, 178, 189, 199]
    np.testing.assert_array_equal(which[0], expected)
    np.testing.assert_array_equal(which[1, :12], np.arange(12))
    np.testing.assert_array_equal(which[2, [0, -1]], [0, 89])
    np.testing.assert_array_equal(count, [20, 12, 20])
    which, count = evenly_spaced(np.array([20, 7]), 20, 20)
    np.testing.assert_array_equal(which[1], np.arange(20))
    np.testing.assert_array_equal(count, [20, 7])


@pytest.mark.parametrize(
    ("env", "linearizer", "steps", "seen"),
    [("half_cheetah", "bundled", 60, 6), ("half_cheetah", "none", 60, 5), ("point", "none", 50, 50)],
)
def test_valors_decoder_sees_some_states_only_without_a_linearizer(
    env: str, linearizer: str, steps: int, seen: int
) -> None:
    overrides = {} if env == "point" else {"decoded_states": 5}  # the point's preset shows all
    config = build(valor.VALORConfig, "valor", "smoke", env, overrides={**overrides, "linearizer": linearizer})
    learning = valor.VALORTrainer(env, EnvSettings(horizon=steps), config, 0)
    latents = np.zeros((config.episodes_per_epoch, 2), np.float32)
    assert learning.batch(learning.explore(latents, 0), latents).decoded.shape == (len(latents), seen)


def test_valors_losses_do_not_reach_each_others_networks_and_padding_changes_nothing() -> None:
    learning = trainer("valor", decoded_states=0)
    latents = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    batch = learning.batch(learning.explore(latents, 0), latents)
    lengths = jnp.array([50, 20, 7, 1])
    batch = batch._replace(lengths=lengths, decoded_lengths=lengths)
    garbage = jnp.arange(50)[None, :, None] >= lengths[:, None, None]
    changed = batch._replace(
        states=jnp.where(garbage, 9.0, batch.states),
        encoded=jnp.where(garbage, -9.0, batch.encoded),
        actions=jnp.where(garbage, 0.99, batch.actions),
    )
    networks, config = learning.training.networks, learning.config

    def gradient(data: valor.Batch) -> valor.Networks:
        return jax.grad(lambda n: valor.losses(n, data, jnp.zeros((4, 50)), config)[0])(networks)

    for a, b in zip(jax.tree.leaves(gradient(batch)), jax.tree.leaves(gradient(changed)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)

    def decoder_loss(n: valor.Networks) -> jax.Array:
        mean, std = n.decoder(batch.encoded, lengths)
        return -gaussian_log_prob(mean, std, batch.latents).mean()

    alone = jax.grad(decoder_loss)(networks)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(alone.skill)) == 0
    for a, b in zip(jax.tree.leaves(gradient(batch).decoder), jax.tree.leaves(alone.decoder), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_valor_through_goals_is_the_policy_gradient_of_the_decoder_and_the_exact_one_of_the_entropy() -> None:
    learning = trainer("valor", decoded_states=0)
    latents = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    batch = learning.batch(learning.explore(latents, 0), latents)
    networks = learning.training.networks
    old = valor.latent_policy(networks.skill, batch.states, batch.latents)

    @partial(jax.jit, static_argnames=("pathwise", "alpha"))
    def loss_gradient(pathwise: str, alpha: float) -> Any:
        config = dataclasses.replace(learning.config, pathwise=pathwise, alpha=alpha)
        return jax.grad(lambda n: valor.losses(n, batch, old, config)[0])(networks).skill

    @jax.jit
    def entropy_gradient() -> Any:
        def entropy(skill: Any) -> jax.Array:
            return valor.latent_policy(skill, batch.states, batch.latents).entropy().sum(axis=1).mean()

        return jax.grad(entropy)(networks.skill)

    leaves = map(jax.tree.leaves, (loss_gradient("goals", 0.5), loss_gradient("nothing", 0.0), entropy_gradient()))
    for both, decoder, entropy in zip(*leaves, strict=True):
        np.testing.assert_allclose(both, decoder - 0.5 * entropy, rtol=1e-3, atol=1e-3)


SMALL = {"gradient_steps": 64, "batch_size": 64, "model_steps": 64}


@pytest.mark.parametrize(
    ("name", "settings", "bar"),
    [
        ("diayn", SMALL, 0.8),
        ("valor", {"pathwise": "nothing"}, 0.8),
        ("valor", {"pathwise": "states"}, 0.8),
        ("dads", SMALL, 0.6),
    ],
)
def test_skills_can_be_told_apart_after_a_short_training(name: str, settings: dict[str, object], bar: float) -> None:
    learning = trainer(name, preset="fast", epochs=25, evaluate_every=0, **settings)
    before = accuracy(learning)
    for epoch in range(25):
        learning.train_epoch(epoch)
    assert before < 0.4
    assert accuracy(learning) > bar


def accuracy(learning: Any) -> float:
    latents = np.repeat(Gaussian(2).shown(), 20, axis=0)
    ends = learning.agent().rollout(latents, seed=1).states[:, -1]
    return nearest_centroid_accuracy(ends.reshape(8, 20, 2))


@pytest.mark.parametrize(
    ("name", "settings"), [("diayn", {"replay_size": 500}), ("dads", {"replay_size": 0}), ("valor", {})]
)
def test_the_same_seed_continues_exactly(name: str, settings: dict[str, object]) -> None:
    straight, broken, resumed = (trainer(name, **settings) for _ in range(3))
    for epoch in range(2):
        straight.train_epoch(epoch)
    broken.train_epoch(0)
    resumed.restore({key: np.array(value) for key, value in broken.state().items()})
    resumed.train_epoch(1)
    for key, value in straight.state().items():
        np.testing.assert_array_equal(value, resumed.state()[key], err_msg=key)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "variant",
    [
        {"linearizer": "none", "normalizer": "fixed", "encoder_sees": "location"},
        {"encoder_sees": "location", "policy_sees": "no_location", "latent_dim": 1},
    ],
)
def test_the_variants_of_the_paper_train(name: str, variant: dict[str, object]) -> None:
    learning = trainer(name, "half_cheetah", episodes_per_epoch=2, evaluation_trajectories=4, **variant)
    assert np.isfinite(list(learning.train_epoch(0).metrics.values())).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_run_from_the_command_line_to_its_use(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    short = ["--preset", "smoke", "--horizon", "60", "--quiet"]
    main(["discover", "half_cheetah", "--method", name, *short, "--run-dir", str(run)])
    skills = load_skills(run)
    found = skills.rollout(skills.sample_latents(3), seed=0)
    assert found.states.shape == (3, 61, 18)
    np.testing.assert_array_equal(found.states, load_skills(run).rollout(skills.sample_latents(3), seed=0).states)
    main(["resume", str(run), "--epochs", "4", "--quiet"])
    main(["evaluate", str(run), "--trajectories", "20"])
    assert "initial policy" in capsys.readouterr().out


@pytest.mark.parametrize("name", METHODS)
def test_all_that_is_made_of_skills_without_a_linearizer(name: str, tmp_path: Path) -> None:
    run, few = str(tmp_path / "run"), ["--trajectories", "40", "--quiet"]
    main(["discover", "point", "--method", name, "--preset", "smoke", "--run-dir", run, "--quiet"])
    for figure in ("trajectories", "boxes", "returns"):
        main(["plot", run, "--figure", figure, "--output", str(tmp_path / f"{figure}.png"), *few])
    metric = {"valor": "decoder", "edl": "learn/reward", "sectar": "consistency"}.get(name, "intrinsic_reward")
    main(["plot", run, "--figure", "curves", "--metric", metric, "--output", str(tmp_path / "curves.png"), "--quiet"])
    main(["video", run, "--output", str(tmp_path / "film.png"), "--quiet"])
    main(["report", run, "--no-films", "--output", str(tmp_path / "page.html"), *few])
    assert len(list(tmp_path.glob("*.png"))) == 5
    assert f"--method {name}" in (tmp_path / "page.html").read_text()
    env = SkillEnv(run, hold=3)
    start, _ = env.reset(seed=0)
    assert not np.array_equal(env.step([1.0, -1.0])[0], start)


@pytest.mark.parametrize("name", METHODS)
def test_latents_can_start_louder(name: str) -> None:
    plain, loud = (
        np.asarray(trainer(name, latent_weight=weight).skill_policy.network.trunk.layers[0].weight)
        for weight in (1.0, 4.0)
    )
    np.testing.assert_array_equal(plain[:2], loud[:2])
    np.testing.assert_allclose(4 * plain[2:], loud[2:])


def test_layer_norm_is_part_of_the_kept_policy() -> None:
    learning = trainer("diayn", layer_norm=True)
    described = learning.describe_skills()
    assert described.layer_norm
    assert described.policy_template().network.trunk.layer_norm
    kept, z = assemble(described, learning.state(), None), np.ones((1, 2))
    np.testing.assert_array_equal(kept.act(np.ones((1, 2)), z), learning.agent().act(np.ones((1, 2)), z))
