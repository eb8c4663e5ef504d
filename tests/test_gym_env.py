import re
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode

from ibol import IbolError
from ibol.envs import GymEnv, make
from ibol.envs.settings import EnvSettings
from ibol.learners.rollout import collect


class Walker(gymnasium.Env):
    """x' = x + action, from x = 0 or 1 (even or odd seed); terminates beyond `end`. Actions are in [-2, 3]."""

    def __init__(self, end=np.inf, shape=(2,), low=-2.0, high=3.0):
        self.end = end
        self.observation_space = Box(-np.inf, np.inf, shape, np.float32)
        self.action_space = Box(low, high, (1,), np.float32)

    def _obs(self):
        return np.full(self.observation_space.shape, self.x, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.0 if seed is None else float(seed % 2)
        return self._obs(), {}

    def step(self, action):
        self.x += float(action[0])
        return self._obs(), float(action[0]), bool(self.x > self.end), False, {}


class DictWalker(Walker):
    def __init__(self):
        super().__init__()
        self.observation_space = Dict({"x": self.observation_space})


class DiscreteWalker(Walker):
    def __init__(self):
        super().__init__()
        self.action_space = Discrete(3)


def ending_walker():
    return Walker(end=4.5)


def square_walker():
    return Walker(shape=(2, 3))


def unbounded_walker():
    return Walker(low=-np.inf)


NO_ENV = 3
NAME = f"{__name__}:Walker"


def test_by_gymnasium_id_as_gymnasium_steps_it():
    env = make("Pendulum-v1", num_envs=2)
    assert isinstance(env, GymEnv)
    assert (env.name, env.horizon, env.num_envs, env.location_dims) == ("Pendulum-v1", 200, 2, ())
    assert env.observation_space.shape == (2, 3)
    assert env.action_space == Box(-1.0, 1.0, (2, 1), np.float32)
    single = gymnasium.make("Pendulum-v1")
    obs, _ = env.reset(seed=3)
    expected, _ = single.reset(seed=4)
    np.testing.assert_array_equal(obs[1], expected)
    for action in (0.25, -1.0, 5.0):
        obs, reward, *_ = env.step(np.full((2, 1), action))
        torque = np.float32(2 * np.clip(action, -1, 1))
        expected, expected_reward, *_ = single.step(np.array([torque]))
        np.testing.assert_allclose(obs[1], expected, rtol=1e-6)
        assert reward[1] == pytest.approx(expected_reward)
    env.close()


@pytest.mark.parametrize("source", [f"{__name__}:Walker", Walker, lambda: Walker()])
def test_by_function_with_actions_rescaled(source):
    env = make(source, num_envs=2, horizon=10, location_dims=(1,))
    assert env.location_dims == (1,)
    assert env.horizon == 10
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs, [[0, 0], [1, 1]])
    # [-1, 1] maps to [-2, 3]; beyond that actions are clipped.
    for action, moved in ((-1.0, -2.0), (0.0, 0.5), (0.4, 1.5), (1.0, 3.0), (7.0, 3.0)):
        before = obs
        obs, reward, *_ = env.step(np.full((2, 1), action))
        np.testing.assert_allclose(obs, before + moved, atol=1e-6)
        np.testing.assert_allclose(reward, moved, atol=1e-6)
    env.close()


def puck():
    env = Walker()
    env.action_space = Box(-1, 1, (1,), np.float64)
    return env


def test_actions_of_double_precision_need_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(puck, horizon=9).close()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_env.py:Puck", "names a file, but a module is needed: write my_env:Puck"),
        ("robots/my_env.py:Puck", "write robots.my_env:Puck"),
        (
            "robots/cart.xml",
            "is a model, but an own robot is a TOML file: write one beside it, with model = 'cart.xml'",
        ),
    ],
)
def test_files_in_the_place_of_an_environment(name, says):
    with pytest.raises(IbolError, match=re.escape(says)):
        make(name)


def test_arguments_of_an_own_environment():
    env = make("Pendulum-v1", env_kwargs={"g": 0.0})
    env.reset(seed=0)
    for _ in range(3):
        before, _, _, _, _ = env.step(np.zeros((1, 1)))
    assert env.step(np.zeros((1, 1)))[0][0, 2] == before[0, 2], "nothing pulls it down"
    env.close()
    env = EnvSettings(horizon=9, env_kwargs=("end=2.5", "shape=[3]")).make(NAME, 1)
    assert env.single_observation_space.shape == (3,)
    env.close()
    with pytest.raises(IbolError, match=r"Walker could not be made: TypeError: .*'weight'"):
        EnvSettings(horizon=9, env_kwargs=("weight=1",)).make(NAME, 1)
    with pytest.raises(IbolError, match="env_kwargs has 'end', but name=value is needed"):
        EnvSettings(horizon=9, env_kwargs=("end",)).make(NAME, 1)
    with pytest.raises(IbolError, match=r"g in env_kwargs is 'file\.xml', but Pendulum-v1 takes numbers"):
        EnvSettings(env_kwargs=("g=file.xml",)).make("Pendulum-v1", 1)
    with pytest.raises(IbolError, match="unknown option of ant 'env_kwargs'"):
        EnvSettings(env_kwargs=("g=1",)).make("ant", 1)


def test_module_with_a_gymnasium_id():
    env = make("gymnasium:Pendulum-v1")
    assert env.horizon == 200
    env.close()


def test_observations_are_flattened():
    env = make(square_walker, num_envs=2, horizon=5, location_dims=(5,))
    assert env.single_observation_space.shape == (6,)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 6)
    env.close()


def test_seed_of_the_first_reset():
    env = make(Walker, num_envs=2, seed=1, horizon=5)
    np.testing.assert_array_equal(env.reset()[0], [[1, 1], [0, 0]])
    np.testing.assert_array_equal(env.reset(seed=2)[0], [[0, 0], [1, 1]])
    env.close()


@pytest.mark.parametrize("horizon", [7, None, 250])
def test_horizon(horizon):
    env = make("Pendulum-v1", horizon=horizon)
    env.reset(seed=0)
    steps = 1
    while not env.step(np.zeros((1, 1)))[3][0]:
        steps += 1
    assert steps == env.horizon == (horizon or 200)
    env.close()


@pytest.mark.parametrize(
    ("source", "options", "match"),
    [
        (DictWalker, {}, "^the observation space of .*DictWalker is Dict, but only Box spaces are supported$"),
        (DiscreteWalker, {}, "^the action space of .*DiscreteWalker is Discrete, but only Box spaces are supported$"),
        (unbounded_walker, {}, "^the action space of .*unbounded_walker is unbounded, but .* finite limits$"),
        (Walker, {"location_dims": (0, 2)}, r"^location_dims are \(0, 2\), but .* different ones from 0 to 1$"),
        (Walker, {"location_dims": (-1,)}, r"^location_dims is -1, but a whole number of at least 0 is needed$"),
        (Walker, {"num_envs": 0}, "^num_envs is 0"),
        (Walker, {"horizon": 0}, "^horizon is 0"),
        (Walker, {"horizon": None}, "no time limit of its own: give the episode length with horizon"),
        ("half_chetah", {}, "unknown environment 'half_chetah': did you mean 'half_cheetah'"),
        ("zzz", {}, "choose one of ant, .*dkitty, .*point, .*'module:function'"),
        ("zzz", {}, "the TOML file of an own robot"),
        ("no_such_module:make", {}, "needs the module 'no_such_module': .*in the working directory"),
        (f"{__name__}:nothing", {}, "has no environment or function 'nothing'"),
        (f"{__name__}:NO_ENV", {}, "has no environment or function 'NO_ENV'"),
    ],
)
def test_what_cannot_be_used_is_explained(source, options, match):
    with pytest.raises(IbolError, match=match):
        make(source, **{"horizon": 5, **options})


@pytest.mark.parametrize("action", [np.full((2, 1), np.nan), np.zeros((3, 1)), np.zeros((1, 2))])
def test_wrong_actions_are_explained(action):
    env = make(Walker, num_envs=2, horizon=5)
    env.reset(seed=0)
    with pytest.raises(IbolError, match="action"):
        env.step(action)
    env.close()


def climb(states, t):
    """A whole unit in each step."""
    return np.full((len(states), 1), 0.2, np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"processes": True},
        {"autoreset": AutoresetMode.NEXT_STEP},
        {"autoreset": AutoresetMode.DISABLED},
        {"autoreset": AutoresetMode.DISABLED, "processes": True},
    ],
    ids=lambda options: "-".join(str(getattr(value, "name", key)) for key, value in options.items()) or "SAME_STEP",
)
def test_collect_keeps_the_true_final_state(options):
    env = make(f"{__name__}:ending_walker", num_envs=2, horizon=7, **options)
    episodes = collect(env, climb, seed=0)
    env.close()
    # From 0 and from 1, a unit in each step, until x > 4.5; then the last state is repeated.
    assert episodes.lengths.tolist() == [5, 4]
    assert episodes.terminated.all()
    np.testing.assert_allclose(episodes.states[..., 0], [[0, 1, 2, 3, 4, 5, 5, 5], [1, 2, 3, 4, 5, 5, 5, 5]], atol=1e-5)
    np.testing.assert_allclose(episodes.returns, [5, 4], atol=1e-5)


def test_collect_to_the_time_limit():
    env = make(ending_walker, num_envs=2, horizon=4)
    episodes = collect(env, climb, seed=0)
    env.close()
    assert episodes.lengths.tolist() == [4, 4]
    assert episodes.terminated.tolist() == [False, True]
    np.testing.assert_allclose(episodes.states[:, -1, 0], [4, 5], atol=1e-5)


def test_disabled_rests_until_it_is_reset():
    env = make(ending_walker, num_envs=2, horizon=5, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    ends = []
    for _ in range(6):
        obs, reward, terminated, truncated, _ = env.step(climb(np.zeros((2, 2)), 0))
        ends.append((terminated.tolist(), truncated.tolist()))
    np.testing.assert_allclose(obs[:, 0], [5, 5], atol=1e-5)
    assert reward.tolist() == [0.0, 0.0]
    assert ends[2] == ([False, False], [False, False])
    assert ends[3] == ([False, True], [False, False])
    # The first ends beyond 4.5 in the very step of the time limit.
    assert ends[4] == ends[5] == ([True, True], [True, False])
    fresh, _ = env.reset(options={"reset_mask": np.array([False, True])})
    np.testing.assert_allclose(fresh[:, 0], [5, 0], atol=1e-5)
    obs, reward, terminated, truncated, _ = env.step(climb(fresh, 0))
    np.testing.assert_allclose(obs[:, 0], [5, 1], atol=1e-5)
    np.testing.assert_allclose(reward, [0, 1], atol=1e-5)
    assert terminated.tolist() == [True, False]
    env.close()


@pytest.mark.parametrize("processes", [False, True])
def test_masks_and_seeds_of_resets(processes):
    env = make(Walker, num_envs=2, horizon=5, autoreset="Disabled", processes=processes)
    mask = np.array([False, True])
    with pytest.raises(IbolError, match="reset all environments once"):
        env.reset(options={"reset_mask": mask})
    with pytest.raises(IbolError, match="call reset"):
        env.step(np.zeros((2, 1)))
    env.reset(seed=0)
    env.step(climb(np.zeros((2, 2)), 0))
    for wrong in ([True], np.array([0, 1])):
        with pytest.raises(IbolError, match="reset_mask has shape"):
            env.reset(options={"reset_mask": wrong})
    with pytest.raises(IbolError, match="3 seeds were given for 2"):
        env.reset(seed=[1, 2, 3])
    options = {"reset_mask": mask.tolist()}
    obs, _ = env.reset(seed=10, options=options)
    np.testing.assert_allclose(obs[:, 0], [1, 1], atol=1e-5)  # the second starts from seed 11
    assert options == {"reset_mask": [False, True]}, "the caller's dictionary"
    np.testing.assert_array_equal(env.reset(options={"reset_mask": np.zeros(2, bool)})[0], obs)
    env.close()


def test_a_mistake_in_the_module_of_an_environment_is_said_with_its_kind(tmp_path, monkeypatch):
    (tmp_path / "mistaken_env.py").write_text("import gymnasium\nDT = 1 / 0\n")
    (tmp_path / "misspelt_env.py").write_text("def make(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(IbolError, match="'mistaken_env': ZeroDivisionError: division by zero"):
        make("mistaken_env:make")
    with pytest.raises(IbolError, match=r"'misspelt_env': SyntaxError: .*misspelt_env.py, line 1"):
        make("misspelt_env:make")
