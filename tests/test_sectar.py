"""SeCTAR: every loss and reward against numbers by hand, who learns when, exact resume, and toy trainings."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta, norm

from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners.rollout import collect
from ibol.methods import sectar
from ibol.methods.policy_gradient import PolicyGradientConfig
from ibol.nn.distributions import ScaledBeta
from ibol.presets import build
from ibol.training.launch import find

SMALL = sectar.SeCTARConfig(model_hidden=(5, 4), initial_std=0.1, std_floor=0.05)
LATENTS = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)


def trainer(env: str = "point", preset: str = "smoke", seed: int = 0, horizon: int | None = None, **over: Any) -> Any:
    config = dataclasses.replace(build(sectar.SeCTARConfig, "sectar", preset, env), **over)
    return find("sectar").trainer(env, EnvSettings(horizon=horizon), config, seed)


def seen(learning: Any) -> sectar.Batch:
    """An epoch's trajectories."""
    batch: sectar.Batch = learning.batch(sectar.columns_of(learning.explore(LATENTS, 0)))
    return batch


def zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def test_the_state_decoder_continues_its_own_mean() -> None:
    decoder = sectar.StateDecoder(3, 2, SMALL, jax.random.key(0))
    start = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    state, memory = jnp.asarray(start), (jnp.zeros((4, 5)), jnp.zeros((4, 5)))
    by_hand = []
    for _ in range(3):
        inputs = jnp.concatenate([state, LATENTS], axis=1)
        memory = jax.vmap(decoder.cell)(inputs, memory)
        state = decoder.mean(memory[0])
        by_hand.append(state)
    np.testing.assert_allclose(decoder(jnp.asarray(start), LATENTS, 3), np.stack(by_hand, axis=1), rtol=1e-5)
    np.testing.assert_allclose(decoder.std, 0.05 + 0.1, rtol=1e-6)


def test_the_state_decoders_deviation_has_a_floor_that_lets_it_rise_again() -> None:
    decoder = sectar.StateDecoder(1, 2, SMALL, jax.random.key(0))
    low = eqx.tree_at(lambda d: d.log_std, decoder, jnp.full(1, -8.0))
    assert 0.05 < float(low.std[0]) < 0.051
    wrong = jnp.full((4, 2, 1), 3.0)
    rising = jax.grad(lambda d: sectar.likelihoods(d, wrong, LATENTS).sum())(low).log_std
    assert rising[0] > 0


def test_the_likelihood_of_states_is_that_of_independent_gaussians() -> None:
    decoder = sectar.StateDecoder(3, 2, SMALL, jax.random.key(0))
    decoder = eqx.tree_at(lambda d: d.log_std, decoder, jnp.log(jnp.array([0.1, 0.2, 0.4])))
    states = np.random.default_rng(1).normal(size=(4, 6, 3)).astype(np.float32)
    means = decoder(states[:, 0], LATENTS, 5)
    expected = norm(means, [0.15, 0.25, 0.45]).logpdf(states[:, 1:]).sum(axis=-1)
    np.testing.assert_allclose(sectar.likelihoods(decoder, jnp.asarray(states), LATENTS), expected, rtol=1e-4)


def test_the_terms_of_the_autoencoder_and_their_weighted_sum() -> None:
    learning = trainer(kl_weight=0.3, cloning_weight=7.0)
    model, batch, key = learning.training.model, seen(learning), jax.random.key(3)
    mean, std = (np.asarray(x, float) for x in model.encoder(batch.encoded, batch.encoded_lengths))
    z = mean + std * np.asarray(jax.random.normal(key, mean.shape))
    kl = (-np.log(std) + (std**2 + mean**2) / 2 - 0.5).sum(axis=1)
    nll = -np.asarray(sectar.likelihoods(model.states, batch.encoded, jnp.asarray(z, jnp.float32))).mean(axis=1)
    held = np.repeat(z[:, None], 50, axis=1)
    policy = model.skill(jnp.asarray(np.concatenate([batch.states, held], axis=-1), jnp.float32))
    density = beta(policy.alpha, policy.beta, loc=-1, scale=2).logpdf(np.asarray(batch.actions))
    cloning = -density.sum(axis=-1).mean(axis=1)
    terms = sectar.terms_of(model, batch, key)
    np.testing.assert_allclose(terms.kl, kl, rtol=1e-4)
    np.testing.assert_allclose(terms.nll, nll, rtol=1e-4)
    np.testing.assert_allclose(terms.cloning, cloning, rtol=1e-3, atol=1e-4)
    loss, info = sectar.model_loss(model, batch, key, learning.config)
    np.testing.assert_allclose(loss, (nll + 0.3 * kl + 7.0 * cloning).mean(), rtol=1e-3)
    np.testing.assert_allclose(
        [info["nll"], info["kl"], info["cloning"]], [nll.mean(), kl.mean(), cloning.mean()], 1e-3
    )


def test_an_encoder_that_says_the_prior_costs_nothing_and_a_sharp_one_what_the_closed_form_says() -> None:
    learning = trainer()
    model, batch = learning.training.model, seen(learning)
    silent = eqx.tree_at(lambda m: m.encoder, model, zeros(model.encoder))  # mean 0, std exp(0) = 1
    np.testing.assert_allclose(sectar.terms_of(silent, batch, jax.random.key(0)).kl, 0.0, atol=1e-6)
    bias = jnp.log(jnp.array([0.5, 0.1]))
    sharp = eqx.tree_at(lambda m: m.encoder.log_std.output.bias, silent, bias)
    by_hand = (0.5 * (0.25 - 1) + np.log(2)) + (0.5 * (0.01 - 1) + np.log(10))
    np.testing.assert_allclose(sectar.terms_of(sharp, batch, jax.random.key(0)).kl, by_hand, rtol=1e-4)


def test_cloning_trains_the_encoder_too_and_the_explorer_is_out_of_reach() -> None:
    learning = trainer()
    batch = seen(learning)

    def cloning(model: sectar.Autoencoder) -> jax.Array:
        return sectar.terms_of(model, batch, jax.random.key(0)).cloning.sum()

    grads = jax.grad(cloning)(learning.training.model)
    largest = [max(float(jnp.abs(x).max()) for x in jax.tree.leaves(part)) for part in (grads.encoder, grads.states)]
    assert largest[0] > 0
    assert largest[1] == 0


def test_what_comes_after_an_episodes_end_changes_nothing() -> None:
    learning = trainer(encoded_states=0)
    batch, lengths = seen(learning), jnp.array([50, 20, 7, 1])
    batch = batch._replace(lengths=lengths, encoded_lengths=lengths + 1)
    over = jnp.arange(50)[None, :, None] >= lengths[:, None, None]
    after = jnp.arange(51)[None, :, None] > lengths[:, None, None]
    changed = batch._replace(
        states=jnp.where(over, 9.0, batch.states),
        actions=jnp.where(over, 0.99, batch.actions),
        encoded=jnp.where(after, -9.0, batch.encoded),
    )
    model, latents = learning.training.model, jnp.asarray(LATENTS)

    def all_of(batch: sectar.Batch) -> list[jax.Array]:
        rewards = sectar.consistency_rewards(model.states, batch, latents)[0]
        returns = sectar.discounted_returns(rewards, 0.9)
        config = PolicyGradientConfig(normalize_advantage=True)
        advantage = sectar.step_advantages(returns, latents, batch.lengths, config)
        old = sectar.latent_policy(zeros(model.skill), batch.states, latents)
        loss = sectar.policy_loss(model.skill, old, batch, latents, advantage, 0.1, 0.2)[0]
        return [*sectar.terms_of(model, batch, jax.random.key(0)), rewards, returns, loss]

    for a, b in zip(all_of(batch), all_of(changed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_the_explorer_is_rewarded_by_the_unweighted_negative_elbo_at_the_last_step() -> None:
    learning = trainer(encoded_states=0, kl_weight=0.3)
    batch, lengths = seen(learning), np.array([50, 20, 7, 1])
    batch = batch._replace(lengths=jnp.asarray(lengths), encoded_lengths=jnp.asarray(lengths + 1))
    model, key = learning.training.model, jax.random.key(2)
    rewards = np.asarray(sectar.explorer_rewards(model, batch, key))
    nll, kl, _ = (np.asarray(term) for term in sectar.terms_of(model, batch, key))
    np.testing.assert_allclose(rewards[np.arange(4), lengths - 1], nll + kl, rtol=1e-5)
    assert np.count_nonzero(rewards) == 4


def test_self_consistency_rewards_the_steps_that_led_to_the_states_which_are_seen() -> None:
    learning = trainer(encoded_states=6)
    batch, decoder = seen(learning), learning.training.model.states
    np.testing.assert_array_equal(batch.reached[0], [9, 19, 29, 39, 49])
    rewards, info = sectar.consistency_rewards(decoder, batch, jnp.asarray(LATENTS))
    expected = np.asarray(sectar.likelihoods(decoder, batch.encoded, jnp.asarray(LATENTS)))
    np.testing.assert_allclose(np.asarray(rewards)[:, 9::10], expected, rtol=1e-5)
    assert np.count_nonzero(rewards) == 4 * 5
    np.testing.assert_allclose(info["consistency"], expected.mean(), rtol=1e-5)


def test_returns_are_discounted_by_gamma_tau() -> None:
    np.testing.assert_allclose(
        sectar.discounted_returns(jnp.array([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]), 0.5), [[3, 4, 4], [0.25, 0.5, 1]]
    )
    last = jnp.zeros((1, 20)).at[0, 19].set(1.0)
    config = sectar.SeCTARConfig()
    first = sectar.discounted_returns(last, config.discount * config.gae)[0, 0]
    np.testing.assert_allclose(first, 0.9405**19, rtol=1e-4)  # the first action sees 0.31 of the reward


def test_advantages_are_standardised_over_the_steps_that_were_taken() -> None:
    returns, lengths = jnp.array([[1.0, 3.0, 9.0], [5.0, 77.0, 77.0]]), jnp.array([3, 1])
    taken = np.array([1.0, 3.0, 9.0, 5.0])
    plain = PolicyGradientConfig(normalize_advantage=True)
    found = np.asarray(sectar.step_advantages(returns, jnp.zeros((2, 0)), lengths, plain))
    np.testing.assert_allclose([*found[0], found[1, 0]], (taken - taken.mean()) / taken.std(), rtol=1e-4)
    based = PolicyGradientConfig(baseline=True)
    found = sectar.step_advantages(jnp.array([[1.0, 3.0], [5.0, 5.0]]), jnp.zeros((2, 0)), jnp.array([2, 2]), based)
    np.testing.assert_allclose(found, [[-2, -1], [2, 1]], atol=0.01)  # less the mean of each step


def test_ppo_holds_back_what_has_left_the_range_step_by_step() -> None:
    """One episode of two steps with one action dimension: praised at the first step, blamed at the second."""
    actions, lengths = jnp.full((1, 2, 1), 0.5), jnp.array([2])
    old, advantage = ScaledBeta(jnp.zeros((1, 2, 1)), jnp.zeros((1, 2, 1))), jnp.array([[2.0, -1.0]])
    batch = sectar.Batch(jnp.zeros((1, 2, 1)), actions, lengths, *[jnp.zeros(1)] * 3)

    class Raw(eqx.Module):
        raw: jax.Array  # (1, 2, 1)

        def __call__(self, inputs: jax.Array) -> ScaledBeta:
            return ScaledBeta(self.raw, jnp.zeros((1, 2, 1)))

    def loss(raw: jax.Array, entropy_weight: float = 0.0) -> jax.Array:
        return sectar.policy_loss(Raw(raw), old, batch, jnp.zeros((1, 0)), advantage, entropy_weight, 0.2)[0]

    moved = jnp.full((1, 2, 1), 2.0)
    ratio = float(jnp.exp(ScaledBeta(moved, jnp.zeros(1)).log_prob(actions) - old.log_prob(actions))[0, 0])
    assert ratio > 1.2
    np.testing.assert_allclose(loss(moved), -(1.2 * 2.0 - ratio), rtol=1e-4)  # min of clipped and not, each step
    grads = jax.grad(loss)(moved)[0, :, 0]
    assert grads[0] == 0  # already likelier by more than a fifth
    assert grads[1] > 0  # back is always allowed
    np.testing.assert_allclose(loss(jnp.zeros((1, 2, 1))), -(2.0 - 1.0), atol=1e-5)
    policy = ScaledBeta(moved, jnp.zeros((1, 2, 1)))
    entropy = beta(policy.alpha, policy.beta, loc=-1, scale=2).entropy().sum()
    np.testing.assert_allclose(loss(moved) - loss(moved, 0.5), 0.5 * entropy, rtol=1e-3, atol=1e-4)


def test_policies_rest_in_the_first_epoch_and_learn_in_the_second() -> None:
    learning = trainer()
    before = learning.training
    learning.train_epoch(0)
    first = learning.training
    assert eqx.tree_equal(first.explorer, before.explorer)
    assert eqx.tree_equal(first.skill_optimizer, before.skill_optimizer)
    assert not eqx.tree_equal(first.model.skill, before.model.skill)  # by cloning
    learning.train_epoch(1)
    assert not eqx.tree_equal(learning.training.explorer, first.explorer)
    assert not eqx.tree_equal(learning.training.skill_optimizer, first.skill_optimizer)


@pytest.mark.parametrize(("share", "explored"), [(0.0, 3), (0.25, 3), (0.5, 2), (1.0, 1)])
def test_both_kinds_of_episodes_count_and_only_the_explorers_are_kept(share: float, explored: int) -> None:
    learning = trainer(consistency_share=share)
    epoch = learning.run_epoch(0)
    assert (learning.explored, learning.replay.size) == (explored, explored)
    assert epoch.env_steps == 4 * 50


def test_a_single_episode_is_refused() -> None:
    with pytest.raises(IbolError, match="2 episodes"):
        trainer(episodes_per_epoch=1)


@pytest.mark.parametrize(("hold", "different"), [(1, 50), (7, 8), (0, 1)])
def test_the_explorer_can_hold_its_noise(hold: int, different: int) -> None:
    learning = trainer(noise_hold=hold)
    blind = eqx.tree_at(lambda s: s.explorer, learning.training, zeros(learning.training.explorer))
    learning.training = blind  # its distribution does not depend on the state
    actions = collect(learning.world.env, learning.behaviour(LATENTS, jax.random.key(0)), seed=0).actions
    assert [len(np.unique(episode[:, 0])) for episode in actions[: learning.explored]] == [
        different
    ] * learning.explored
    assert len(np.unique(actions[0, 0])) == 2
    assert len(np.unique(actions[-1, :, 0])) == 50  # the policy decoder never does


@pytest.mark.parametrize(
    ("linearizer", "states", "encoder_sees", "width"),
    [("bundled", 7, "location", 1), ("bundled", 7, "all", 18), ("none", 5, "location", 1)],
)
def test_what_the_autoencoder_sees(linearizer: str, states: int, encoder_sees: str, width: int) -> None:
    learning = trainer("half_cheetah", horizon=60, linearizer=linearizer, encoded_states=5, encoder_sees=encoder_sees)
    batch = seen(learning)
    assert batch.encoded.shape == (4, states, width)
    assert batch.states.shape == (4, 60 if linearizer == "none" else 6, 18)
    assert int(batch.reached[0, -1]) == batch.states.shape[1] - 1
    assert learning.training.model.states.std.shape == (width,)


def test_the_same_seed_continues_with_the_same_bytes() -> None:
    straight, broken, resumed = (trainer(replay_size=5) for _ in range(3))
    for epoch in range(3):
        straight.train_epoch(epoch)
    for epoch in range(2):
        broken.train_epoch(epoch)
    resumed.restore({key: np.array(value) for key, value in broken.state().items()})
    resumed.train_epoch(2)
    assert set(straight.state()) == set(resumed.state())
    for key, value in straight.state().items():
        assert np.asarray(value).tobytes() == np.asarray(resumed.state()[key]).tobytes(), key


def test_skills_follow_the_state_decoder_after_a_short_training() -> None:
    learning = trainer(preset="fast", epochs=40, evaluate_every=0)
    before, _ = path_error(learning)
    for epoch in range(40):
        learning.train_epoch(epoch)
    error, length = path_error(learning)
    assert before > 0.5
    assert length > 2.0  # metres: a random walk of the point stays within one
    assert error < 0.1


def path_error(learning: Any) -> tuple[float, float]:
    """Mean distance between where sampled skills go and where the state decoder says that they go, as a part of its
    path's length; and that length in metres."""
    latents = np.random.default_rng(5).standard_normal((64, 2)).astype(np.float32)
    states = learning.agent().rollout(latents, seed=3).states
    columns = {"states": states, "actions": np.zeros_like(states[:, 1:]), "lengths": np.full(64, 50)}
    encoded = learning.batch(columns).encoded
    predicted = learning.training.model.states(encoded[:, 0], jnp.asarray(latents), encoded.shape[1] - 1)
    unit = learning.normalizer.std
    error = np.linalg.norm((predicted - encoded[:, 1:]) * unit, axis=-1)
    path = jnp.concatenate([encoded[:, :1], predicted], axis=1) * unit
    length = np.linalg.norm(np.diff(path, axis=1), axis=-1).sum(axis=1).mean()
    return float(error.mean() / length), float(length)


def test_the_explorer_finds_what_a_model_that_stands_still_does_not_describe() -> None:
    learning = trainer(preset="fast", epochs=40, evaluate_every=0, normalizer="fixed")
    for epoch in range(3):
        learning.train_epoch(epoch)
    model, surprise = learning.training.model, []
    for epoch in range(3, 15):
        surprise.append(learning.train_epoch(epoch).metrics["negative_elbo"])
        learning.training = eqx.tree_at(lambda state: state.model, learning.training, model)
    assert np.mean(surprise[-3:]) > 1.5 * np.mean(surprise[:3])
    for epoch in range(15, 25):  # and when it learns again, it catches up
        caught = learning.train_epoch(epoch).metrics["negative_elbo"]
    assert caught < 0.7 * np.mean(surprise[-3:])
