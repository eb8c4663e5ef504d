"""SAC: the update against hand-computed numbers, and toys trained to a known return."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ibol.envs.settings import EnvSettings
from ibol.learners import sac
from ibol.learners.replay import Columns
from ibol.learners.rollout import Trajectories
from ibol.learners.sac_learner import transitions
from ibol.methods.sac import SACConfig, SACTrainer
from ibol.presets import build
from ibol.seeding import derive

SETTINGS = sac.SACSettings(
    learning_rate=1e-3, discount=0.9, tau=0.1, target_entropy=-1.0, learn_temperature=True, target_every_step=True
)


def learner(**overrides: object) -> sac.SACState:
    return sac.create(3, 2, (8, 8), temperature=0.5, settings=SETTINGS, key=jax.random.key(0), **overrides)


def batch(steps: int | None = None, size: int = 16) -> sac.Transitions:
    rng, lead = np.random.default_rng(1), (size,) if steps is None else (steps, size)
    shapes = ((3,), (2,), (1,), (3,))
    values = [jnp.asarray(rng.uniform(-1, 1, (*lead, *shape)), jnp.float32) for shape in shapes]
    dones = jnp.asarray(rng.integers(0, 2, lead), jnp.float32)
    return sac.Transitions(*values, dones=dones, weights=jnp.ones((*lead, 1)))


def weights(module: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(module)]


def test_bellman_targets_stop_at_the_end_of_an_episode() -> None:
    state, data = learner(), batch()
    ended = data._replace(dones=jnp.ones(16))
    np.testing.assert_allclose(sac.bellman_targets(state, ended, SETTINGS, jax.random.key(0)), ended.rewards, rtol=1e-6)
    going_on = data._replace(dones=jnp.zeros(16))
    targets = sac.bellman_targets(state, going_on, SETTINGS, jax.random.key(0))
    actions, log_prob = state.policy(data.next_inputs).sample_and_log_prob(jax.random.key(0))
    first, second = state.target(data.next_inputs, actions)
    by_hand = data.rewards + 0.9 * (jnp.minimum(first, second) - 0.5 * log_prob[:, None])
    np.testing.assert_allclose(targets, by_hand, rtol=1e-4, atol=1e-5)


def test_features_of_a_linear_reward_follow_the_critic_with_the_smaller_value() -> None:
    """With rewards phi and weights w, the targets' product with w is the target of the reward <phi, w>."""
    state = sac.create(3, 2, (8, 8), features=4, temperature=0.5, settings=SETTINGS, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    weights = np.concatenate([rng.uniform(-1, 1, (16, 3)), np.ones((16, 1))], axis=1)
    data = batch()._replace(rewards=jnp.asarray(rng.normal(size=(16, 4))), weights=jnp.asarray(weights))
    targets = sac.bellman_targets(state, data, SETTINGS, jax.random.key(0))
    actions, log_prob = state.policy(data.next_inputs).sample_and_log_prob(jax.random.key(0))
    values = [np.sum(np.asarray(features) * weights, axis=1) for features in state.target(data.next_inputs, actions)]
    reward = np.sum(np.asarray(data.rewards) * weights, axis=1)
    future = np.minimum(*values) - 0.5 * np.asarray(log_prob)
    by_hand = reward + 0.9 * (1 - np.asarray(data.dones)) * future
    np.testing.assert_allclose(np.sum(np.asarray(targets) * weights, axis=1), by_hand, rtol=1e-3, atol=1e-5)


def test_features_of_the_next_state_are_brought_into_the_states_coordinates() -> None:
    state = sac.create(3, 2, (8, 8), features=4, temperature=0.5, settings=SETTINGS, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    data = batch()._replace(
        rewards=jnp.asarray(rng.normal(size=(16, 4)), jnp.float32), weights=jnp.ones((16, 4)), dones=jnp.zeros(16)
    )
    which, exchange = rng.integers(0, 2, 16), np.eye(4)[[1, 0, 2, 3]]
    maps = sac.FeatureMaps(jnp.asarray(which), jnp.asarray(np.stack([np.eye(4), exchange]), jnp.float32))
    # Weights of 1 are the same in both coordinates, so that the same critic has the smaller value.
    plain = np.array(sac.bellman_targets(state, data, SETTINGS, jax.random.key(0)) - data.rewards)
    mapped = sac.bellman_targets(state, data._replace(next_maps=maps), SETTINGS, jax.random.key(0)) - data.rewards
    plain[which == 1] = plain[which == 1][:, [1, 0, 2, 3]]
    np.testing.assert_allclose(mapped, plain, rtol=1e-4, atol=1e-6)


def test_losses_by_hand() -> None:
    state, data = learner(), batch()
    targets = jnp.linspace(-1, 1, 16)[:, None]
    first, second = state.critic(data.inputs, data.actions)
    loss, info = sac.critic_loss(state.critic, data, targets)
    by_hand = 0.5 * np.mean((np.asarray(first) - targets) ** 2) + 0.5 * np.mean((np.asarray(second) - targets) ** 2)
    assert float(loss) == pytest.approx(float(by_hand), rel=1e-5)
    assert float(info["critic_loss"]) == float(loss)

    loss, info = sac.policy_loss(state.policy, state.critic, jnp.float32(0.5), data, jax.random.key(3))
    actions, log_prob = state.policy(data.inputs).sample_and_log_prob(jax.random.key(3))
    q = jnp.minimum(*state.critic(data.inputs, actions))[:, 0]
    assert float(loss) == pytest.approx(float(jnp.mean(0.5 * log_prob - q)), rel=1e-4)
    assert float(info["entropy"]) == pytest.approx(-float(log_prob.mean()), rel=1e-4)


def test_targets_move_each_step_or_once() -> None:
    state, data = learner(), batch(steps=3)
    once = sac.SACSettings(**{**SETTINGS.__dict__, "target_every_step": False})
    after, _ = sac.update_many(state, data, jax.random.key(0), once)
    for target, start, end in zip(weights(after.target), weights(state.target), weights(after.critic), strict=True):
        np.testing.assert_allclose(target, 0.9 * start + 0.1 * end, rtol=1e-4, atol=1e-6)
    each, _ = sac.update_many(state, data, jax.random.key(0), SETTINGS)
    assert not np.allclose(weights(each.target)[0], weights(after.target)[0])


def test_the_temperature_follows_the_entropy() -> None:
    state, data = learner(), batch(steps=2)
    _, info = sac.update_many(state, data, jax.random.key(0), SETTINGS)
    assert info["entropy"] > SETTINGS.target_entropy
    cooler, _ = sac.update_many(state, data, jax.random.key(0), SETTINGS)
    assert float(cooler.log_temperature) < float(state.log_temperature)
    fixed = sac.SACSettings(**{**SETTINGS.__dict__, "learn_temperature": False})
    same, _ = sac.update_many(state, data, jax.random.key(0), fixed)
    assert float(same.log_temperature) == float(state.log_temperature)


def test_the_learning_rate_can_fall() -> None:
    before = learner()
    still, _ = sac.update_many(before, batch(3), jax.random.key(1), SETTINGS, 0.0)
    for a, b in zip(weights(before.policy), weights(still.policy), strict=True):
        np.testing.assert_array_equal(a, b)
    full, _ = sac.update(before, batch(), jax.random.split(jax.random.key(1)), SETTINGS)
    half, _ = sac.update(before, batch(), jax.random.split(jax.random.key(1)), SETTINGS, 0.5)
    start, whole, part = (weights(state.critic)[0] for state in (before, full, half))
    np.testing.assert_allclose(part - start, 0.5 * (whole - start), atol=1e-7)


def test_one_call_compiles_once() -> None:
    state, data = learner(), batch(steps=2)
    state, _ = sac.update_many(state, data, jax.random.key(0), SETTINGS)
    size = sac.update_many._cache_size()
    for seed in range(3):
        state, _ = sac.update_many(state, data, jax.random.key(seed), SETTINGS)
    assert sac.update_many._cache_size() == size


def test_the_critic_learns_a_known_value() -> None:
    """With a reward of 1 at each step, gamma 0.9 and no entropy, every value is 1 / (1 - 0.9) = 10."""
    settings = sac.SACSettings(
        learning_rate=3e-3, discount=0.9, tau=0.05, target_entropy=-1.0, learn_temperature=False, target_every_step=True
    )
    state = sac.create(3, 2, (32, 32), temperature=1e-6, settings=settings, key=jax.random.key(0))
    data = batch(steps=600, size=64)._replace(rewards=jnp.ones((600, 64, 1)), dones=jnp.zeros((600, 64)))
    state, _ = sac.update_many(state, data, jax.random.key(0), settings)
    first, second = state.critic(data.inputs[0], data.actions[0])
    np.testing.assert_allclose(first, 10.0, atol=0.7)
    np.testing.assert_allclose(second, 10.0, atol=0.7)


def trainer(env: str, preset: str, seed: int = 0, **overrides: object) -> SACTrainer:
    values = {**build(SACConfig, "sac", preset, env).__dict__, **overrides}
    return SACTrainer(env, EnvSettings(), SACConfig(**values), seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_it_learns_to_walk_along_x(seed: int) -> None:
    """Fifty steps of 0.1 along x: the best return is 5; random actions make 0 on average."""
    learning = trainer("point", "fast", seed)
    before = learning.evaluate(0)["return"]
    for epoch in range(learning.epochs):
        metrics = learning.train_epoch(epoch).metrics
    assert before < 1.0
    assert metrics["evaluation/return"] > 4.7


@pytest.mark.slow
def test_the_papers_on_policy_setting_learns_too() -> None:
    learning = trainer("point", "paper", hidden=(32, 32), learning_rate=3e-3, evaluate_every=0)
    for epoch in range(200):
        learning.train_epoch(epoch)
    assert learning.evaluate(0)["return"] > 2.0
    assert abs(learning.normalizer.mean).max() > 0, "the moving average has moved"


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [
        [trainer_.train_epoch(e) for e in range(2)] for trainer_ in (trainer("point", "smoke", s) for s in (0, 0, 1))
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def taken(learning: SACTrainer, trajectories: Trajectories) -> Columns:
    inputs = learning._inputs(trajectories.states)
    return transitions(trajectories, inputs, time_limits=not learning.config.bootstrap_at_time_limit)


def test_early_termination_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Humanoids fall at different times; only real steps may reach the buffer, and a fall is an end."""
    learning = trainer("humanoid", "smoke", episodes_per_epoch=4, normalizer="none")
    trajectories = learning._explore(0)
    assert trajectories.terminated.all()
    assert len(set(trajectories.lengths)) > 1
    rows = taken(learning, trajectories)
    assert len(rows["rewards"]) == trajectories.lengths.sum()
    assert rows["dones"].sum() == 4
    ends = np.cumsum(trajectories.lengths) - 1
    assert rows["dones"][ends].all()
    last = trajectories.states[0, trajectories.lengths[0]]
    np.testing.assert_array_equal(rows["next_inputs"][ends[0]], last)
    assert not 1.0 <= last[2] <= 2.0


def test_time_limits_bootstrap_only_on_request() -> None:
    for bootstrap, ends in ((True, 0), (False, 2)):
        learning = trainer("point", "smoke", bootstrap_at_time_limit=bootstrap)
        assert taken(learning, learning._explore(0))["dones"].sum() == ends


def test_full_batches_keep_their_size_when_episodes_end_early() -> None:
    learning = trainer("humanoid", "paper", episodes_per_epoch=2, hidden=(8, 8))
    rows = taken(learning, learning._explore(0))
    assert len(rows["rewards"]) < 2000
    learning.learner.store(rows)
    columns = learning.learner.sample(np.random.default_rng(0), 4)
    assert columns["rewards"].shape == (4, 2000)
    np.testing.assert_array_equal(columns["rewards"][0, : len(rows["rewards"])], rows["rewards"])


def test_state_and_restore_are_exact(tmp_path: Path) -> None:
    first, second = trainer("point", "smoke"), trainer("point", "smoke", seed=0)
    first.train_epoch(0)
    second.restore(first.state())
    assert first.train_epoch(1) == second.train_epoch(1)
    for a, b in zip(first.state().values(), second.state().values(), strict=True):
        assert a.tobytes() == b.tobytes()
    assert derive(0, "a", 1) != derive(0, "b", 1) != derive(0, "b", 2)
