"""D'Kitty against its numbers: body, servos, state, ends, and dynamics that are drawn anew."""

import json
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import ibol
from ibol.cli import main
from ibol.envs import ROBOTS, DKittyEnv, make
from ibol.envs.dkitty import RANGES, working_range
from ibol.envs.robots import has_fallen, load_model
from ibol.envs.settings import EnvSettings
from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError

LEGS = {"FR": (1, 1), "FL": (-1, 1), "BL": (-1, -1), "BR": (1, -1)}  # name: signs of x and y
# Link: mass, its centre and that of the next joint along the link, principal inertias.
LINKS = {
    "hip": (0.118, 0.0759, 0.0965, (7.07e-5, 7.05e-5, 2.45e-5)),
    "upper": (0.118, 0.0758, 0.0945, (6.57e-5, 7.28e-5, 2.45e-5)),
    "lower": (0.040, 0.0608, None, (3.09e-5, 3.49e-5, 0.78e-5)),
}
GOLDEN = Path(__file__).parent / "golden" / "dkitty.json"  # by version of MuJoCo


def standing(count: int) -> NDArray[np.float64]:
    """Actions that ask for all joints at 0."""
    low, high = working_range()
    return np.tile(-(low + high) / (high - low), (count, 1))


def random_actions(steps: int, count: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(-1, 1, (steps, count, 12))


def run(env: DKittyEnv, actions: NDArray[np.float64]) -> NDArray[np.float64]:
    """States (steps, N, 43)."""
    return np.array([env.step(action)[0] for action in actions])


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return load_model(ROBOTS["dkitty"])


# The body


def test_masses_and_inertias_are_the_robots(model: mujoco.MjModel) -> None:
    assert model.body_mass.sum() == pytest.approx(1.834, rel=0.01)
    assert model.body("torso").mass[0] == pytest.approx(0.72, rel=0.01)
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, model.body("torso").iquat)
    axes = rotation.reshape(3, 3)
    inertia = axes @ np.diag(model.body("torso").inertia) @ axes.T
    np.testing.assert_allclose(np.diag(inertia), [7.64e-3, 2.56e-3, 1.007e-2], rtol=0.15)
    np.testing.assert_allclose(inertia, np.diag(np.diag(inertia)), atol=1e-9)
    for leg in LEGS:
        for link, (mass, centre, _, principal) in LINKS.items():
            body = model.body(f"{leg}_{link}")
            assert body.mass[0] == pytest.approx(mass, rel=0.01)
            np.testing.assert_allclose(body.ipos, [0, 0, centre], atol=1e-6)
            np.testing.assert_allclose(body.inertia, principal, rtol=0.15)


def test_joints_are_where_the_robots_are(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for number, (leg, (right, front)) in enumerate(LEGS.items()):
        height = 0.3
        for place, (link, (_, _, along, _)) in enumerate(LINKS.items()):
            joint = model.joint(f"{leg}_{link}")
            assert joint.qposadr[0] == 6 + 3 * number + place
            # The hips are turned by 3.14 rather than pi.
            np.testing.assert_allclose(data.xanchor[joint.id], [0.09 * right, 0.122 * front, height], atol=4e-4)
            np.testing.assert_allclose(data.xaxis[joint.id], [0, 1, 0] if link == "hip" else [-1, 0, 0], atol=2e-3)
            assert joint.armature[0] == 0.001
            height -= along or 0.0
    np.testing.assert_array_equal(model.jnt_axis[:6], np.tile(np.eye(3), (2, 1)))
    ranges = {"hip": (-3.419, 0.279), "upper": (-2.14, 2.14), "lower": (-1.57, 1.57)}
    for leg, (right, _) in LEGS.items():
        for link, (low, high) in ranges.items():
            expected = (-high, -low) if link == "hip" and right < 0 else (low, high)
            np.testing.assert_allclose(model.joint(f"{leg}_{link}").range, expected)
            np.testing.assert_allclose(model.actuator(f"{leg}_{link}").ctrlrange, expected)


def test_options_and_contacts(model: mujoco.MjModel) -> None:
    assert model.opt.timestep == 0.0025
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER
    np.testing.assert_array_equal(model.opt.gravity, [0, 0, -9.81])
    assert make("dkitty").dt == pytest.approx(0.1)
    np.testing.assert_allclose(model.geom_friction, np.tile([1, 0.005, 0.0001], (model.ngeom, 1)))
    np.testing.assert_array_equal(model.hfield_size, [[4.5, 4.5, 0.02, 0.1]])
    assert (model.hfield_nrow[0], model.hfield_ncol[0]) == (120, 120)
    assert model.geom("terrain").pos[2] == -0.005
    assert model.nmesh == 0


def contacts_of(model: mujoco.MjModel, geoms: NDArray[np.int64]) -> dict[str, list[float]]:
    """Contact parameters of geoms, each with the one value that all of them have."""
    names = ("condim", "margin", "gap", "solref", "solimp", "solmix", "priority")
    values = {name: getattr(model, f"geom_{name}")[geoms] for name in names}
    return {name: np.unique(value, axis=0).ravel().tolist() for name, value in values.items()}


def test_the_ground_has_mujocos_own_contact_parameters_and_the_robot_its_own(model: mujoco.MjModel) -> None:
    plain = mujoco.MjModel.from_xml_string('<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
    ground = np.flatnonzero(model.geom_bodyid <= model.body("kitty_frame").id)
    assert [model.geom(i).type[0] for i in ground] == [
        mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD, mujoco.mjtGeom.mjGEOM_SPHERE,
    ]  # fmt: skip
    default = contacts_of(plain, np.array([0]))
    assert contacts_of(model, ground) == default
    assert (default["condim"], default["margin"], default["solimp"]) == ([3], [0], [0.9, 0.95, 0.001, 0.5, 2])
    robot = np.setdiff1d(np.arange(model.ngeom), ground)
    own = {"condim": [4], "margin": [0.001], "solimp": [0.8, 0.9, 0.01, 0.5, 2]}
    assert contacts_of(model, robot) == {**default, **own}


# State, servos and ends


def test_the_state_is_what_it_says() -> None:
    env = make("dkitty", 3, 1)
    start, _ = env.reset(seed=0)
    assert env.observation_space.shape == (3, 43)
    np.testing.assert_array_equal(start, np.tile(np.eye(43)[42], (3, 1)))
    actions = 0.3 * random_actions(4, 3)
    state = run(env, actions)[-1]
    for i in range(3):
        data = mujoco.MjData(env.dynamics(i))
        data.qpos[:], data.qvel[:] = env._state[i, :18], env._state[i, 18:]
        mujoco.mj_kinematics(env.dynamics(i), data)
        upright = data.xmat[2].reshape(3, 3)[2, 2]
        expected = np.concatenate([data.qpos, data.qvel[6:], actions[-1, i], [upright]])
        np.testing.assert_allclose(state[i], expected, atol=1e-12)


def test_servos_have_a_working_range_and_a_speed() -> None:
    env = make("dkitty", 1, 1, randomize=False)
    low, high = working_range()
    np.testing.assert_allclose(low, [-0.5, 0, -2, -0.279, 0, -2, -0.279, 0, -2, -0.5, 0, -2])
    np.testing.assert_allclose(high, [0.279, np.pi / 2, 0, 0.5, np.pi / 2, 0, 0.5, np.pi / 2, 0, 0.279, np.pi / 2, 0])
    env.reset(seed=0)
    ahead = 0.1 * np.pi
    for action in (np.ones((1, 12)), -np.ones((1, 12)), random_actions(1, 1)[0]):
        joints = env._qpos[0, 6:].copy()
        env.step(action)
        target = low + (action[0] + 1) / 2 * (high - low)
        np.testing.assert_allclose(env._ctrl[0], np.clip(target, joints - ahead, joints + ahead), atol=1e-12)
    assert (np.abs(env._ctrl[0] - joints) > ahead - 1e-9).any(), "some servo was at its limit"


@pytest.mark.parametrize("randomize", [True, False])
def test_standing_still_stays_upright(randomize: bool) -> None:
    env = make("dkitty", 5, 1, randomize=randomize, autoreset=AutoresetMode.DISABLED)
    env.reset(seed=0)
    states = run(env, np.repeat(standing(5)[None], 100, axis=0))
    assert env._elapsed.tolist() == [100] * 5
    assert states[:, :, 42].min() > (0.98 if randomize else 0.999)
    assert np.abs(states[:, :, :2]).max() < (0.15 if randomize else 0.01), "it stays where it is"
    assert np.abs(states[-1, :, 2]).max() < 0.03
    assert np.abs(states[-1, :, 18:30]).max() < 0.05


def test_it_ends_when_it_tips_over_and_gets_no_reward() -> None:
    for terminate in (True, False):
        env = make("dkitty", 2, 1, terminate=terminate, autoreset=AutoresetMode.DISABLED)
        env.reset(seed=0)
        env._state[1, 3] = 0.5
        states, reward, terminated, truncated, _ = env.step(standing(2))
        assert terminated.tolist() == [False, terminate]
        assert not truncated.any()
        assert reward.tolist() == [0.0, 0.0]
        assert states[1, 42] < 0.95 < states[0, 42]
    upright = np.zeros((2, 43))
    upright[:, 42] = 0.949, 0.951
    assert has_fallen(ROBOTS["dkitty"], upright).tolist() == [True, False]


def test_its_mirror_image_moves_as_it_does() -> None:
    env = make("dkitty", 2, 1, randomize=False, autoreset=AutoresetMode.DISABLED)
    exchanges = symmetries(env.robot, env.model)
    assert len(exchanges) == 2
    env.reset(seed=0)
    actions = 0.4 * random_actions(6, 1)[:, 0]
    both = actions[:, exchanges.action_index] * exchanges.action_sign
    states = run(env, both)
    mirrored = states[:, 0][:, exchanges.state_index[1]] * exchanges.state_sign[1]
    np.testing.assert_allclose(states[:, 1], mirrored, atol=1e-5)
    assert np.abs(states[-1, 1] - states[-1, 0]).max() > 0.1, "the exchange changes something"


# Random dynamics


def drawn(env: DKittyEnv, i: int) -> dict[str, NDArray[np.float64]]:
    model = env.dynamics(i)
    return {
        "damping": model.dof_damping[6:],
        "friction_loss": model.dof_frictionloss[6:],
        "gain": model.actuator_gainprm[:, 0],
        "slide": model.geom_friction[:, 0],
        "spin": model.geom_friction[:, 1],
        "roll": model.geom_friction[:, 2],
        "mass": model.body_mass.sum(keepdims=True),
    }


def test_dynamics_are_drawn_from_the_stated_ranges() -> None:
    stated = {
        "damping": (0.1, 0.2),
        "friction_loss": (0.001, 0.005),
        "gain": (2.8, 3.2),
        "slide": (0.8, 1.2),
        "spin": (0.003, 0.007),
        "roll": (5e-5, 1.5e-4),
        "mass": (1.6, 2.0),
    }
    env = make("dkitty", 64, 1)
    env.reset(seed=0)
    for name, (low, high) in stated.items():
        assert getattr(RANGES, name) == (low, high)
        values = np.array([drawn(env, i)[name] for i in range(64)])
        assert (np.ptp(values, axis=1) == 0).all(), "one value for all"
        # All of 64 draws miss an outer tenth of the range with a chance of 0.9^64 = 0.1 %.
        part = (values[:, 0] - low) / (high - low)
        assert -1e-9 <= part.min() < 0.1
        assert 0.9 < part.max() <= 1 + 1e-9
    for i in range(3):
        model = env.dynamics(i)
        heights = model.hfield_size[0, 2] * model.hfield_data
        assert 0 <= heights.min() < 1e-4
        assert 0.0199 < heights.max() <= 0.02
        assert heights.std() == pytest.approx(0.02 / np.sqrt(12), rel=0.03)
        np.testing.assert_array_equal(model.actuator_biasprm[:, 1], -model.actuator_gainprm[:, 0])
        assert (model.dof_damping[:6] == 0).all()
        heavier = model.body_mass.sum() / 1.834
        np.testing.assert_allclose(model.body_mass, heavier * env.model.body_mass)
        np.testing.assert_allclose(model.body_inertia, heavier * env.model.body_inertia)
        np.testing.assert_allclose(model.body_subtreemass[1], model.body_mass.sum())


def test_every_episode_has_its_own_dynamics_and_only_it() -> None:
    env = make("dkitty", 3, 1)
    env.reset(seed=0)
    first = [{name: values.copy() for name, values in drawn(env, i).items()} for i in range(3)]
    assert first[0]["mass"] != first[1]["mass"]
    run(env, standing(3)[None])
    env.reset(options={"reset_mask": np.array([False, True, False])})
    for name in first[0]:
        assert (drawn(env, 0)[name] == first[0][name]).all()
        assert (drawn(env, 2)[name] == first[2][name]).all()
        assert (drawn(env, 1)[name] != first[1][name]).all()


def test_dynamics_and_paths_do_not_depend_on_the_batch() -> None:
    few, many = make("dkitty", 2, 1), make("dkitty", 5, 3)
    few.reset(seed=4)
    many.reset(seed=4)
    actions = random_actions(30, 5)
    # Some of them tip over, and go on with their second draw.
    paths, more = run(few, actions[:, :2]), run(many, actions)
    assert (paths[:, :, 30:42] == 0).all(axis=2).any()
    np.testing.assert_array_equal(paths, more[:, :2])
    np.testing.assert_array_equal(few.dynamics(1).hfield_data, many.dynamics(1).hfield_data)
    single = gymnasium.make("ibol/Dkitty-v0")
    single.reset(seed=5)
    for step in range(3):
        np.testing.assert_array_equal(single.step(actions[step, 1])[0], paths[step, 1])


def test_batched_physics_is_a_plain_mujoco_loop_on_the_drawn_model() -> None:
    env = make("dkitty", 3, 2, terminate=False)
    env.reset(seed=7)
    actions = random_actions(5, 3)
    data = mujoco.MjData(env.dynamics(1))
    for action in actions:
        states = run(env, action[None])[0]
        data.ctrl[:] = env._ctrl[1]
        for _ in range(40):
            mujoco.mj_step(env.dynamics(1), data)
        np.testing.assert_array_equal(states[1, :18], data.qpos)


def test_without_randomisation_all_episodes_are_the_same() -> None:
    env = make("dkitty", 3, 1, randomize=False)
    assert env.dynamics(2) is env.model
    assert (env.model.dof_damping[6:] == 1).all()
    assert (env.model.actuator_gainprm[:, 0] == 5).all()
    assert (env.model.hfield_data == 0).all()
    env.reset(seed=0)
    states = run(env, np.repeat(random_actions(10, 1), 3, axis=1))
    np.testing.assert_array_equal(states[:, 0], states[:, 2])
    settings = EnvSettings(randomize=False)
    assert settings.make("dkitty", 1).dynamics(0).nhfielddata == 120 * 120
    assert (settings.make("dkitty", 1).dynamics(0).hfield_data == 0).all()
    for other in ("ant", "point"):
        with pytest.raises(IbolError, match=f"unknown option of {other} 'randomize': choose one of"):
            settings.make(other, 1)


def test_skills_of_episodes_that_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # So strict that some of these hardly trained robots, but not all, end within 30 steps.
    monkeypatch.setattr("ibol.envs.robot_env.has_fallen", lambda robot, states: states[..., -1] < 0.998)
    lin, run = tmp_path / "lin", tmp_path / "skills"
    common = ["--preset", "smoke", "--epochs", "1", "--horizon", "30", "--num-threads", "1", "--quiet", "--run-dir"]
    main(["linearize", "dkitty", *common, str(lin), "--evaluate-every", "0"])
    main(["discover", "dkitty", "--linearizer", str(lin), *common, str(run), "--evaluate-every", "0"])
    rollouts = ibol.load_skills(run).rollout(np.zeros((32, 2)), seed=0)
    assert 3 < rollouts.terminated.sum() < 29
    assert (rollouts.lengths[rollouts.terminated] < 30).any()
    assert (rollouts.states[rollouts.terminated, -1, 42] < 0.998).all()
    assert (rollouts.states[~rollouts.terminated, -1, 42] >= 0.998).all()


@pytest.mark.parametrize("randomize", [True, False])
def test_golden_trajectory(randomize: bool) -> None:
    known = json.loads(GOLDEN.read_text())
    if mujoco.__version__ not in known:
        pytest.skip(f"no trajectory is recorded for MuJoCo {mujoco.__version__}; run this file to record one")
    expected = known[mujoco.__version__]["random" if randomize else "fixed"]
    # Contacts enlarge the last bits in which processors differ.
    np.testing.assert_allclose(golden_states(randomize), expected, atol=1e-5)


def golden_states(randomize: bool) -> NDArray[np.float64]:
    """Where two robots are after 1, 5 and 10 steps."""
    env = make("dkitty", 2, 1, randomize=randomize, terminate=False)
    env.reset(seed=0)
    return run(env, 0.5 * random_actions(10, 2))[[0, 4, 9]][:, :, :18]


if __name__ == "__main__":
    recorded = json.loads(GOLDEN.read_text()) if GOLDEN.is_file() else {}
    recorded[mujoco.__version__] = {
        name: golden_states(randomize).round(9).tolist() for name, randomize in (("fixed", False), ("random", True))
    }
    GOLDEN.write_text(json.dumps(recorded, indent=1) + "\n")
