import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from ibol import IbolError
from ibol.envs import make
from ibol.learners.noise import colored_noise
from ibol.learners.replay import Replay
from ibol.learners.rollout import Trajectories, collect

# Replay


def rows(start, stop):
    """Transitions that tell their number."""
    numbers = np.arange(start, stop, dtype=np.float32)
    return {"states": np.stack([numbers, -numbers], axis=1), "rewards": 10 * numbers}


def new_replay(capacity=5):
    return Replay(capacity, {"states": (2,), "rewards": ()})


def contents(replay):
    return sorted(replay.state()["rewards"] / 10)


def test_replay_overwrites_the_oldest():
    replay = new_replay()
    replay.add(rows(0, 3))
    assert (replay.size, contents(replay)) == (3, [0, 1, 2])
    replay.add(rows(3, 7))
    assert (replay.size, contents(replay)) == (5, [2, 3, 4, 5, 6])
    replay.add(rows(7, 8))
    assert contents(replay) == [3, 4, 5, 6, 7]
    replay.add(rows(8, 20))
    assert contents(replay) == [15, 16, 17, 18, 19]
    replay.add(rows(20, 22))
    assert contents(replay) == [17, 18, 19, 20, 21]


def test_replay_samples_filled_rows_uniformly():
    replay = new_replay(100)
    replay.add(rows(1, 5))
    sample = replay.sample(np.random.default_rng(0), (40, 100))
    assert sample["states"].shape == (40, 100, 2)
    assert sample["rewards"].shape == (40, 100)
    np.testing.assert_array_equal(sample["states"][..., 0] * 10, sample["rewards"])
    np.testing.assert_array_equal(sample["states"][..., 1], -sample["states"][..., 0])
    numbers, counts = np.unique(sample["states"][..., 0], return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 4]
    # 1000 of each but for chance, whose standard deviation is 27.
    assert np.abs(counts - 1000).max() < 5 * 27.4


def test_replay_samples_the_newest_rows():
    replay = new_replay()
    for stop in (4, 8):  # the second time it starts anew from the front
        replay.add(rows(stop - 4, stop))
        sample = replay.sample(np.random.default_rng(0), (200,), newest=3)["states"][:, 0]
        assert np.unique(sample).tolist() == [stop - 3, stop - 2, stop - 1]
    assert len(np.unique(replay.sample(np.random.default_rng(0), (200,), newest=9)["rewards"])) == 5


@pytest.mark.parametrize("color", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("steps", [200, 201])
def test_colored_noise_has_unit_variance_and_its_spectrum(color, steps):
    noise = colored_noise(np.random.default_rng(0), (steps, 400, 3), color)
    assert noise.shape == (steps, 400, 3)
    assert abs(noise.var() - 1) < 0.06
    power = (np.abs(np.fft.rfft(noise, axis=0)) ** 2).mean(axis=(1, 2))
    low, high = power[2:5].mean(), power[20:50].mean()
    frequencies = np.fft.rfftfreq(steps)
    expected = (frequencies[2:5] ** -color).mean() / (frequencies[20:50] ** -color).mean()
    np.testing.assert_allclose(low / high, expected, rtol=0.15)


def test_colored_noise_of_a_single_step_is_white():
    assert colored_noise(np.random.default_rng(0), (1, 5000), 1.0).std() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("count", [3, 5, 8])
def test_replay_continues_from_a_saved_state(count):
    replay, other = new_replay(), new_replay()
    replay.add(rows(0, count))
    other.restore({name: values.copy() for name, values in replay.state().items()})
    for buffer in (replay, other):
        buffer.add(rows(50, 54))
    assert (other.size, other.position) == (replay.size, replay.position)
    samples = [buffer.sample(np.random.default_rng(1), (20,)) for buffer in (replay, other)]
    for name in ("states", "rewards"):
        np.testing.assert_array_equal(samples[0][name], samples[1][name])


def test_replay_must_fit():
    replay = new_replay(8)
    replay.add(rows(0, 6))
    with pytest.raises(IbolError, match="has 6 transitions"):
        new_replay(5).restore(replay.state())


def test_replay_counts_its_bytes():
    assert new_replay(1000).num_bytes() == 1000 * 3 * 4


# Trajectories


def test_collect_point():
    env = make("point", num_envs=3, horizon=4)
    seen = []

    def act(states, t):
        seen.append((t, states.dtype, states.copy()))
        return np.full((3, 2), [0.5, -1.0]) * (t + 1) / 4

    episodes = collect(env, act, seed=2)
    start, _ = env.reset(seed=2)
    moved = 0.1 * np.array([0.5, -1.0]) * np.cumsum([0, 0.25, 0.5, 0.75, 1.0])[:, None]
    assert episodes.states.shape == (3, 5, 2)
    np.testing.assert_allclose(episodes.states, start[:, None] + moved, atol=1e-6)
    np.testing.assert_allclose(episodes.actions[1], np.array([[0.5, -1.0]]) * np.arange(1, 5)[:, None] / 4)
    np.testing.assert_allclose(episodes.rewards, np.tile([0.0125, 0.025, 0.0375, 0.05], (3, 1)), rtol=1e-5)
    np.testing.assert_allclose(episodes.returns, 0.125, rtol=1e-5)
    assert episodes.lengths.tolist() == [4, 4, 4]
    assert episodes.num_steps == 12
    assert episodes.mask.all()
    assert not episodes.terminated.any()
    # The policy sees each current state, in single precision.
    assert [t for t, *_ in seen] == [0, 1, 2, 3]
    for t, dtype, states in seen:
        assert dtype == np.float32
        np.testing.assert_array_equal(states, episodes.states[:, t])


def test_masks_and_returns():
    episodes = Trajectories(
        states=np.zeros((2, 4, 1), np.float32),
        actions=np.zeros((2, 3, 1), np.float32),
        rewards=np.array([[1, 2, 3], [4, 0, 0]], np.float32),
        lengths=np.array([3, 1]),
        terminated=np.array([False, True]),
    )
    assert episodes.mask.tolist() == [[True, True, True], [True, False, False]]
    assert episodes.returns.tolist() == [6, 4]
    assert episodes.num_steps == 4


def falling(mode):
    """Four humanoids that fall soon, as they act at random, and two that stand longer, as they do nothing."""
    env = make("humanoid", num_envs=6, num_threads=1, horizon=30, autoreset=mode)
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 6, 17)).astype(np.float32)
    actions[:, 4:] = 0.0
    return collect(env, lambda states, t: actions[t], seed=0), actions


def test_collect_episodes_that_terminate_early():
    episodes, actions = falling(AutoresetMode.DISABLED)
    lengths, mask = episodes.lengths, episodes.mask
    assert episodes.terminated.tolist() == [True] * 4 + [False] * 2
    assert len(set(lengths)) > 2
    assert episodes.states.shape == (6, 31, 47)
    np.testing.assert_array_equal(lengths < 30, episodes.terminated)
    assert episodes.num_steps == mask.sum() == lengths.sum()
    np.testing.assert_array_equal(mask.sum(axis=1), lengths)
    heights = episodes.states[:, :, 2]
    for i, length in enumerate(lengths):
        assert np.all((heights[i, :length] >= 1.0) & (heights[i, :length] <= 2.0))
        assert (heights[i, length] < 1.0) == episodes.terminated[i]
        np.testing.assert_array_equal(
            episodes.states[i, length:], np.tile(episodes.states[i, length], (31 - length, 1))
        )
        np.testing.assert_array_equal(episodes.actions[i, :length], actions[:length, i])
    assert not episodes.rewards[~mask].any()
    assert not episodes.actions[~mask].any()
    np.testing.assert_allclose(episodes.returns, (episodes.rewards * mask).sum(axis=1), rtol=1e-6)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_collect_is_the_same_in_every_autoreset_mode(mode):
    expected, _ = falling(AutoresetMode.DISABLED)
    episodes, _ = falling(mode)
    for name in ("states", "actions", "rewards", "lengths", "terminated"):
        np.testing.assert_array_equal(getattr(episodes, name), getattr(expected, name), err_msg=name)
