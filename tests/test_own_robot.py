# ruff: noqa: E501 (models and descriptions are text)
"""Own robots: what is understood of a description, what is refused, and that runs keep them whole and harmless."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest

import ibol
from conftest import call, fails, made_once
from ibol import presets
from ibol.cli import main
from ibol.cli.robot_table import robot_table
from ibol.envs import RobotEnv, load_robot, robot_from
from ibol.envs.own import is_description
from ibol.envs.registry import ROBOTS
from ibol.envs.symmetry import symmetries
from ibol.errors import IbolError
from ibol.linearizer.frame import has_goal_frame
from ibol.linearizer.settings import LinearizerConfig, possible, timed
from ibol.robots import KNOWN, OwnRobot, admit, keep, known_as, named
from ibol.robots.model import check_text

EXAMPLES = Path(__file__).parents[1] / "examples" / "robots"
GYMNASIUM = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
CART = """<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>
    <body name="cart" pos="0 0 0.1">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="lift" type="slide" axis="0 0 1" range="-0.05 0.3" limited="true"/>
      <geom size="0.1" mass="1"/>
      <body pos="0 0 0.1"><joint name="arm" axis="0 1 0" damping="0.1"/><geom type="capsule" size="0.02" fromto="0 0 0 0 0 0.3"/></body>
    </body>
  </worldbody>
  <actuator>
    <motor name="push" joint="x" ctrlrange="-5 5"/><motor name="swing" joint="arm" ctrlrange="-1 1"/>
  </actuator>
  <keyframe><key name="high" qpos="0 0.2 0.5"/></keyframe>
</mujoco>"""
URDF = """<robot name="two">
  <link name="base"><inertial><mass value="2"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size="0.4 0.2 0.1"/></geometry></collision></link>
  <link name="leg"><inertial><mass value="0.5"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><sphere radius="0.06"/></geometry></collision></link>
  <joint name="hip" type="revolute"><parent link="base"/><child link="leg"/><origin xyz="0.2 0 -0.1"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="8" velocity="5"/></joint>
</robot>"""


def write(folder: Path, model: str = CART, name: str = "cart", ending: str = "xml", **keys: Any) -> Path:
    """A robot on disk."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.{ending}").write_text(model)
    lines = [f'model = "{name}.{ending}"', *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    (folder / f"{name}.toml").write_text("\n".join(lines))
    return folder / f"{name}.toml"


# What is understood.


def test_a_description_says_how_episodes_are(tmp_path: Path) -> None:
    file = write(
        tmp_path, start="high", qpos_noise=0.0, qvel_noise=0.0, frame_skip=2, horizon=30, healthy=[[2, -1.0, 1.0]],
        control_cost=0.5, alive_reward=2.0, forward_weight=3.0,
    )  # fmt: skip
    env = ibol.make(str(file), 2, 1, autoreset="Disabled")
    assert isinstance(env, RobotEnv)
    assert env.horizon == 30
    assert env.dt == pytest.approx(0.02)
    assert env.location_dims == (0,)
    assert env.robot.rotation == "pitch"
    assert env.robot.fallen == "never"
    obs, _ = env.reset(seed=0)
    np.testing.assert_array_equal(obs, [[0, 0.2, 0.5, 0, 0, 0]] * 2)
    after, reward, *_ = env.step([[1.0, 0.0], [0.0, 0.0]])
    expected = 3.0 * (after[:, 0] - obs[:, 0]) / 0.02 + 2.0 - 0.5 * np.array([25.0, 0.0])
    np.testing.assert_allclose(reward, expected)
    for _ in range(29):
        _, _, terminated, _truncated, _ = env.step(np.full((2, 2), [0.0, 1.0]))
    assert terminated.all()
    assert abs(env._obs[:, 2]).max() > 1.0


def test_a_robot_in_python_is_the_same_as_its_file(tmp_path: Path) -> None:
    file = write(tmp_path, control_range=[-2, 2], velocity_clip=0.5)
    env = ibol.make(ibol.Robot(model=str(tmp_path / "cart.xml"), control_range=(-2, 2), velocity_clip=0.5), 1, 1)
    assert env.name == load_robot(file).name
    np.testing.assert_array_equal(env.control_range(), [[-2, -2], [2, 2]])


def test_hidden_values_are_not_in_the_state_but_simulated(tmp_path: Path) -> None:
    plain, hiding = ibol.make(str(write(tmp_path)), 1, 1), ibol.make(str(write(tmp_path / "b", hidden=[1, 5])), 1, 1)
    first, second = plain.reset(seed=3)[0], hiding.reset(seed=3)[0]
    np.testing.assert_array_equal(first[:, [0, 2, 3, 4]], second)
    assert hiding.location_dims == (0,)
    assert [name for name, _ in hiding.layout()] == ["qpos"] * 2 + ["qvel"] * 2
    np.testing.assert_array_equal(plain.step([[1, 1]])[0][:, [0, 2, 3, 4]], hiding.step([[1, 1]])[0])


def test_a_urdf_gets_what_it_lacks(tmp_path: Path) -> None:
    file = write(
        tmp_path, URDF, "two", "urdf", floating=True, height=0.4, floor=True, actuators="motors", frame_skip=10
    )
    env = ibol.make(str(file), 1, 1)
    assert env.location_dims == (0, 1)
    assert env.robot.rotation == "quaternion"
    assert env.model.nu == 1
    assert env.model.actuator_gear[0, 0] == 8.0
    assert env.model.body_mass.sum() == pytest.approx(2.5)
    obs, _ = env.reset(seed=0)
    assert obs[0, 2] == pytest.approx(0.4, abs=0.02)
    for _ in range(100):
        obs, *_ = env.step([[0.3]])
    assert 0.0 < obs[0, 2] < 0.3  # it fell onto the floor
    servos = load_robot(write(tmp_path, URDF, "two", "urdf", floating=True, floor=True, actuators="servos"))
    assert RobotEnv(servos).control_range()[1] == pytest.approx(1.0)


def test_meshes_and_height_fields_become_part_of_the_text(tmp_path: Path) -> None:
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1.3)]
    faces = [(1, 3, 4), (1, 4, 2), (5, 6, 8), (5, 8, 7), (1, 2, 6), (1, 6, 5), (3, 7, 8), (3, 8, 4), (1, 5, 7), (1, 7, 3),
             (2, 4, 8), (2, 8, 6)]  # fmt: skip
    (tmp_path / "meshes").mkdir()
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["f {} {} {}".format(*face) for face in faces]
    (tmp_path / "meshes" / "block.obj").write_text("\n".join(lines))
    part = '<mujoco><worldbody><body name="block" pos="0 0 1"><freejoint/><geom type="mesh" mesh="block"/></body></worldbody></mujoco>'
    (tmp_path / "part.xml").write_text(part)
    model = CART.replace(
        "<worldbody>",
        '<compiler meshdir="meshes"/><asset><mesh name="block" file="block.obj" scale="0.1 0.1 0.2"/></asset><worldbody>',
    ).replace("<actuator>", '<include file="part.xml"/><actuator>')
    robot = load_robot(write(tmp_path, model, location=["x"], start=[0.0, 0.0, 0.0, 0, 0, 1, 1, 0, 0, 0]))
    check_text(robot.model, "robot")
    assert "file=" not in robot.model
    assert "include" not in robot.model
    from_files = mujoco.MjModel.from_xml_path(str(tmp_path / "cart.xml"))
    shutil.rmtree(tmp_path / "meshes")
    kept = RobotEnv(robot).model
    np.testing.assert_allclose(kept.body_mass, from_files.body_mass, rtol=1e-5)
    np.testing.assert_allclose(kept.body_inertia, from_files.body_inertia, rtol=1e-4)


def test_ants_symmetries_are_found_and_a_false_one_is_refused(tmp_path: Path) -> None:
    shutil.copy(GYMNASIUM / "ant.xml", tmp_path)
    (tmp_path / "ant.toml").write_text('model = "ant.xml"')
    found = load_robot(tmp_path / "ant.toml")
    env, own = RobotEnv(found), symmetries(ROBOTS["ant"], RobotEnv(ROBOTS["ant"]).model)
    made = symmetries(found, env.model)
    as_set = lambda group: {tuple(row) for row in (group.state_index + 1) * group.state_sign.astype(int)}  # noqa: E731
    assert len(made) == 8
    assert as_set(made) == as_set(own)
    assert found.fallen == "upside_down"
    assert has_goal_frame(found)
    (tmp_path / "ant.toml").write_text(
        'model = "ant.xml"\n[[symmetries]]\nposition = [1, -2, 3]\nrotation = [-1, 2, -3]\njoints = [7, 8, 5, 6, 3, 4, 1, 2]\n'
    )
    with pytest.raises(IbolError, match=r"symmetry 1 does not hold: exchanged states are .* apart after 10 steps"):
        load_robot(tmp_path / "ant.toml")


def test_planar_slides_and_a_hinge_give_a_heading(tmp_path: Path) -> None:
    shutil.copy(GYMNASIUM / "swimmer.xml", tmp_path)
    (tmp_path / "swimmer.toml").write_text('model = "swimmer.xml"')
    swimmer = load_robot(tmp_path / "swimmer.toml")
    assert (swimmer.location_dims, swimmer.rotation) == ((0, 1), "yaw")
    assert has_goal_frame(swimmer)
    assert swimmer.symmetry_generators == (((1, -2), (-1,), (-1, -2)),)


@pytest.mark.parametrize("name", ["inchworm", "hexapod"])
def test_the_examples_move_and_do_not_explode(name: str) -> None:
    env = ibol.make(str(EXAMPLES / f"{name}.toml"), 4, 1, horizon=60, autoreset="Disabled")
    obs, _ = env.reset(seed=0)
    begin, rng = obs, np.random.default_rng(0)
    for step in range(60):
        if step % 10 == 0:
            actions = rng.uniform(-1, 1, env.action_space.shape)
        obs, *_, info = env.step(actions)
    moved = np.abs(obs - begin)[:, list(env.location_dims)]
    assert 0.01 < moved.max() < 3
    assert not info["divergences"].any()
    assert (name == "hexapod") == has_goal_frame(env.robot)


# What is refused, in one sentence.

WITHOUT_LIMITS = CART.replace(' ctrlrange="-5 5"', "")

EXPLODING = CART.replace('damping="0.1"', 'stiffness="-1e9" springref="1"')


@pytest.mark.parametrize(
    ("model", "keys", "says"),
    [
        (CART, {"modle": "x.xml"}, r"unknown key 'modle': did you mean 'model'\?"),
        (CART, {"model": "gone.xml"}, r"there is no model .*gone\.xml"),
        ("<mujoco><body", {}, r"MuJoCo cannot read the model .*cart\.xml"),
        (CART.replace('<motor name="push" joint="x" ctrlrange="-5 5"/><motor name="swing" joint="arm" ctrlrange="-1 1"/>',
                      ""), {}, "has no actuators: add some to it, or set actuators"),
        (WITHOUT_LIMITS, {}, r"the controls of push in the model of .* have no limits"),
        (CART, {"control_range": [2, -2]}, r"control_range is \[2, -2\], but \[low, high\]"),
        (CART.replace('axis="1 0 0"', 'axis="0 0 1"').replace("</worldbody>", '<body pos="3 0 1"><freejoint name="ball"/>'
         '<geom size="0.1"/></body></worldbody>'), {}, r"has a free joint, ball, that is not at its root: say where"),
        (CART, {"location": ["y"]}, r"unknown joint 'y'"),
        (CART, {"location": [9]}, r"location is \[9\], but different numbers from 0 to 5"),
        (CART, {"location": [3]}, r"a velocity is not a place"),
        (CART, {"start": "low"}, r"start is 'low', but the keyframes of the model .* are high"),
        (CART, {"start": [0.0, 1.0]}, r"start has 2 values, but qpos .* has 3"),
        (CART, {"fallen": "upside_down"}, r"needs a free joint as the first one"),
        (CART, {"fallen": "flat"}, r"fallen is 'flat', but it must be one of"),
        (CART, {"terminates_when_fallen": True}, r"needs a robot that falls"),
        (CART, {"healthy": [[0, 1.0, -1.0]]}, r"healthy has"),
        (CART, {"frame_skip": 0}, r"frame_skip is 0, but at least 1"),
        (CART, {"name": "a b"}, r"name is 'a b'"),
        (CART, {"symmetries": [{"position": [1], "rotation": [1], "joints": [1]}]}, r"symmetries need a free joint"),
        (EXPLODING, {}, r"diverges within a second"),
        (CART, {"floating": True}, r"has joints already"),
        (CART, {"actuators": "motors"}, r"has actuators, so that"),
        (CART.replace("</worldbody>", '<flexcomp name="cloth" type="grid" count="3 3 1" spacing="1 1 1" radius=".01" '
         'pos="0 0 2" dim="2"/></worldbody>'), {}, r"flexible parts, which are not supported"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_wrong_is_said_in_one_sentence(model: str, keys: dict[str, Any], says: str, tmp_path: Path) -> None:
    file = write(tmp_path, model)
    given = {"model": "cart.xml", **keys}
    (tmp_path / "cart.toml").write_text("\n".join(f"{key} = {_toml(value)}" for key, value in given.items()))
    with pytest.raises(IbolError, match=says) as error:
        load_robot(file)
    assert "\n" not in str(error.value)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {_toml(one)}' for key, one in value.items())}}}"
    return json.dumps(value)


def test_files_that_are_no_descriptions(tmp_path: Path) -> None:
    with pytest.raises(IbolError, match="there is no robot"):
        ibol.make(str(tmp_path / "gone.toml"))
    (tmp_path / "bad.toml").write_text("model = ")
    with pytest.raises(IbolError, match="is not a valid TOML file"):
        ibol.make(str(tmp_path / "bad.toml"))
    (tmp_path / "empty.toml").write_text("horizon = 3")
    with pytest.raises(IbolError, match="names no model"):
        ibol.make(str(tmp_path / "empty.toml"))
    with pytest.raises(IbolError, match=r"location_dims are for own environments; .* in its description"):
        ibol.make(str(write(tmp_path)), location_dims=(0,))


# What a run keeps, and what it may not do.


@pytest.fixture(scope="session")
def hexapod_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A linearizer (`linearizer`), skills on it (`ibol`) and SAC's controller of them, of a robot that is gone."""

    def train(place: Path) -> None:
        place.mkdir()
        robot = place / "gone" / "hexapod.toml"
        shutil.copytree(EXAMPLES, place / "gone")
        robot.write_text(robot.read_text().replace("frame_skip = 10", "frame_skip = 2"))
        short = ["--preset", "smoke", "--horizon", "20", "--quiet"]
        main(
            ["linearize", str(robot), *short, "--symmetric", "--frame", "goal", "--run-dir", str(place / "linearizer")]
        )
        skills = ["--linearizer", str(place / "linearizer"), "--run-dir", str(place / "ibol")]
        main(["discover", str(robot), *short, "--epochs", "2", *skills])
        main(["downstream", str(robot), *short, "--epochs", "1", "--skills", str(place / "ibol"), "--l-m", "1",
              "--run-dir", str(place / "task")])  # fmt: skip
        shutil.rmtree(place / "gone")

    return made_once(tmp_path_factory, "hexapod_runs", train)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, hexapod_runs: Path, tmp_path: Path) -> Path:
    """A copy of these runs elsewhere, in a process that has not heard of the robot."""
    shutil.copytree(hexapod_runs, tmp_path / "runs")
    for name in list(KNOWN):
        monkeypatch.delitem(KNOWN, name)
    return tmp_path / "runs"


def test_a_copied_run_needs_nothing_else(fresh: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((fresh / "ibol" / "config.json").read_text())
    assert config["env"].startswith("hexapod@")
    call("evaluate", fresh / "linearizer", fresh / "ibol", "--trajectories", 16, "--no-references", "--quiet", "--json",
         tmp_path / "rows.json")  # fmt: skip
    assert {Path(row["run"]).name for row in json.loads((tmp_path / "rows.json").read_text())} == {"linearizer", "ibol"}
    call("evaluate", fresh / "task", "--episodes", 2, "--no-references", "--quiet")
    call("plot", fresh / "ibol", "--trajectories", 16, "--output", tmp_path / "figure.png")
    call("export", fresh / "ibol", "--format", "npz", "--output", tmp_path / "export")
    assert (tmp_path / "export" / "robot.xml").read_text() == (fresh / "ibol" / "robot" / "model.xml").read_text()
    call("resume", fresh / "ibol", "--epochs", 3, "--quiet")
    call("envs", fresh / "ibol" / "robot" / "robot.toml")
    assert config["env"] in capsys.readouterr().out


def test_a_page_shows_an_own_robot(fresh: Path) -> None:
    from ibol.page.data import describe, load

    agent, title, version = load(str(fresh / "ibol"))
    described = describe("my run", agent, title, version)
    body = described["body"]
    assert described["env"] == "hexapod"
    assert body["xml"] == (fresh / "ibol" / "robot" / "model.xml").read_text()
    assert body["frame_skip"] == 2


def test_a_linearizer_brings_its_robot_to_discover(fresh: Path) -> None:
    kept = fresh / "linearizer" / "robot" / "robot.toml"
    assert load_robot(kept).name == json.loads((fresh / "linearizer" / "config.json").read_text())["env"]
    assert ibol.load_linearizer(fresh / "ibol" / "linearizer.safetensors").env.startswith("hexapod@")


def test_a_linearizer_of_the_robot_before_a_change_is_refused(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    robot = EXAMPLES / "hexapod.toml"  # with another frame_skip
    said = fails(capsys, "discover", robot, "--linearizer", fresh / "linearizer")
    assert "was changed in between, so train a new one" in " ".join(said.split())
    assert "train one with 'ibol linearize' and its TOML file" in " ".join(fails(capsys, "discover", robot).split())


def test_random_actions_say_whether_a_robot_can_move(tmp_path: Path) -> None:
    moves = dict(robot_table(str(write(tmp_path, CART))).rows)["random actions"]
    still = dict(
        robot_table(str(write(tmp_path / "weak", CART.replace('ctrlrange="', 'gear="1e-6" ctrlrange="')))).rows
    )
    assert _metres(moves) > 10 * _metres(still["random actions"])


def _metres(text: str) -> float:
    return float(text.removeprefix("move its location by ").split()[0])


def test_people_read_a_robots_name_without_its_digest() -> None:
    one, other, task = "cart@0123abcd", "cart@4567cdef", "cart@0123abcd_goal"
    assert [known_as(env) for env in (one, task, "ant", "Walker2d-v5")] == ["cart", "cart_goal", "ant", "Walker2d-v5"]
    assert known_as(one, (one, task, "ant")) == "cart"
    assert known_as(one, (one, other)) == one, "else two robots would have one name"


def test_the_table_names_the_robot(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call("evaluate", fresh / "ibol", "--trajectories", 16, "--no-references", "--quiet")
    assert "skills on hexapod, 32 bins" in capsys.readouterr().out


def test_another_robot_of_that_name_is_told_apart(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = fresh / "linearizer" / "robot"
    (kept / "model.xml").write_text((kept / "model.xml").read_text().replace('kp="20"', 'kp="15"'))
    assert "is not the hexapod@" in fails(capsys, "evaluate", fresh / "linearizer")


def hostile(change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda robot: _rewrite(robot / "model.xml", change) and None


def _rewrite(file: Path, change: Callable[[str], str]) -> int:
    return file.write_text(change(file.read_text()))


def _add(text: str) -> Callable[[str], str]:
    return lambda model: model.replace("<worldbody>", f"{text}<worldbody>", 1)


def _link(robot: Path) -> None:
    (robot / "model.xml").unlink()
    (robot / "model.xml").symlink_to("/etc/hostname")


def _linked_folder(robot: Path) -> None:
    robot.rename(robot.parent.parent / "elsewhere")
    robot.symlink_to(robot.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("attack", "says"),
    [
        (hostile(_add('<include file="/etc/passwd"/>')), "<include>"),
        (hostile(_add('<asset><mesh name="m" file="/etc/passwd"/></asset>')), "file='/etc/passwd'"),
        (hostile(_add('<asset><mesh name="m" file="../../secret.obj"/></asset>')), "file='../../secret.obj'"),
        (hostile(_add('<asset><texture name="t" fileright="x.png" type="cube"/></asset>')), "fileright"),
        (hostile(_add('<asset><hfield name="h" file="x.png" size="1 1 1 1"/></asset>')), "file='x.png'"),
        (hostile(_add('<asset><model name="m" file="x.xml"/></asset>')), "<model>"),
        (hostile(_add('<extension><plugin plugin="mujoco.elasticity.cable"/></extension>')), "<extension>"),
        (hostile(_add('<compiler meshdir="/"/>')), "meshdir"),
        (hostile(_add('<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>')), "more than"),
        (hostile(_add('<size memory="900G"/>')), "memory"),
        (hostile(lambda model: f'<!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]>{model}'), "XML declarations"),
        (hostile(lambda model: model.replace("</worldbody>", "<body>" * 200 + "</body>" * 200 + "</worldbody>")), "more"),
        (hostile(lambda model: "<mujoco"), "not valid XML"),
        (lambda robot: _rewrite(robot / "robot.toml", lambda text: text.replace("model.xml", "/etc/passwd")), "names the"),
        (lambda robot: _rewrite(robot / "robot.toml", lambda text: text.replace("name", "nmae")), "unknown key"),
        (lambda robot: _rewrite(robot / "robot.toml", lambda text: f'{text}start = "home"\n'), "found out"),
        (_link, "cannot be read"),
        (_linked_folder, "keeps no description"),
        (shutil.rmtree, "keeps no description"),
    ],
)  # fmt: skip
def test_a_hostile_robot_is_refused(
    attack: Callable[[Path], object], says: str, fresh: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attack(fresh / "ibol" / "robot")
    for command in ("evaluate", "resume"):
        assert says in fails(capsys, command, fresh / "ibol")
    with pytest.raises(IbolError):
        ibol.load_linearizer(fresh / "ibol" / "linearizer.safetensors")
    assert not KNOWN


def test_a_run_may_not_name_a_description_outside_of_it(fresh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((fresh / "linearizer" / "config.json").read_text())
    config["env"] = config["linearizer"]["env"] = str(EXAMPLES / "hexapod.toml")
    (fresh / "linearizer" / "config.json").write_text(json.dumps(config))
    assert "a file outside of it" in fails(capsys, "evaluate", fresh / "linearizer")


def test_what_is_kept_is_read_as_the_same_robot(tmp_path: Path) -> None:
    for number, robot in enumerate((
        load_robot(EXAMPLES / "hexapod.toml"),
        load_robot(write(tmp_path, hidden=[1], healthy=[[2, -1.0, 1.0]], start="high", velocity_clip=3.0)),
        named(dataclasses.replace(load_robot(EXAMPLES / "inchworm.toml"), summary='says "yes" \\ no', camera=(1.0, 2.0, 3.0))),
    )):  # fmt: skip
        run = tmp_path / str(number)
        run.mkdir()
        keep(run, robot.name)
        known = dict(KNOWN)
        KNOWN.clear()
        admit(run, robot.name)
        assert {robot.name: robot} == KNOWN
        KNOWN.update(known)


def test_looks_are_no_part_of_what_a_robot_is(tmp_path: Path) -> None:
    first = load_robot(write(tmp_path, summary="one", camera=[0, 0, 9]))
    assert load_robot(write(tmp_path, summary="two", goal_range=9.0)).name == first.name
    assert load_robot(write(tmp_path, frame_skip=6)).name != first.name
    assert is_description("x.toml")
    assert not is_description("ant")
    assert robot_from(OwnRobot(model=str(tmp_path / "cart.xml"))).name == first.name


# A preset for robots that nobody tuned.


@pytest.mark.parametrize(("robot", "seconds"), [("ant", 0.05), ("hopper", 0.008), ("humanoid", 0.015)])
def test_the_seconds_in_a_step_give_what_was_tuned(robot: str, seconds: float) -> None:
    tuned = presets.build(LinearizerConfig, "linearize", "fast", robot)
    unseen = timed(presets.build(LinearizerConfig, "linearize", "fast", "anybody"), seconds)
    assert unseen.n_step == tuned.n_step
    # How long rewards count, in seconds, is of one order for all of them.
    assert 0.3 < np.log(tuned.discount) / np.log(unseen.discount) < 3
    assert unseen.noise_color == (1.0 if seconds < 0.02 else 0.0)


def test_what_a_robot_does_not_have_is_left_out() -> None:
    asked = presets.build(LinearizerConfig, "linearize", "fast", "anybody")
    assert (asked.frame, asked.symmetric, asked.end_when_fallen, asked.rhythms) == ("goal", True, True, 1.0)
    found = {}
    for name in ("ant", "dkitty", "half_cheetah", "Pendulum-v1"):
        env = ibol.make(name, num_envs=1)
        made = possible(asked, ROBOTS.get(name), env)
        found[name] = (made.frame, made.symmetric, made.end_when_fallen, made.rhythms, made.imitation_steps)
    nothing = ("world", False, False, 0.0, 0)
    assert found == {
        "ant": ("goal", True, True, 0.0, 0),  # motors: forces, not positions
        "dkitty": ("goal", True, True, 1.0, 500),
        "half_cheetah": nothing,
        "Pendulum-v1": nothing,
    }
