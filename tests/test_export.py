"""Exported skills act as ours do, in processes that have neither JAX nor ibol; and what is written, and what is not."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import ibol
from agents import LINEARIZERS, SKILLS, make_skills, random_goals, random_states
from conftest import call, fails, made_once
from ibol import zoo
from ibol.envs import ROBOTS, DKittyEnv, RobotEnv
from ibol.envs.dkitty import RANGES
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.export.files import FORMATS, content_of, export_agent, readable
from ibol.learners.rollout import Act, collect
from ibol.linearizer.policy import Linearizer
from ibol.skills.policy import DISTORTIONS, Skills

ROOT = Path(__file__).parents[1]
COUNT = 1000
BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(f"{{name}} must not be needed")
sys.meta_path.insert(0, Blocked())
"""
WITHOUT_US = BLOCKED.format(blocked=("jax", "jaxlib", "equinox", "ibol", "onnx"))
WITH_NUMPY_ALONE = BLOCKED.format(blocked=("jax", "jaxlib", "equinox", "ibol", "onnx", "onnxruntime", "mujoco"))

ASK_ONNX = """
import json, pathlib
import numpy as np
import onnxruntime
differences = {}
for case in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    about, asked = json.loads((case / "onnx/skills.json").read_text()), np.load(case / "asked.npz")
    for graph in filter(None, about["graphs"].values()):
        session = onnxruntime.InferenceSession(case / "onnx" / graph["file"], providers=["CPUExecutionProvider"])
        (output,) = graph["output"]
        given = {name: asked[name] for name in graph["inputs"]}
        (answer,) = session.run([output], given)
        (one,) = session.run([output], {name: values[:1] for name, values in given.items()})
        difference = max(np.abs(answer - asked[output]).max(), np.abs(one - asked[output][:1]).max())
        assert answer.dtype == np.float32 and len(answer) == 1000
        differences[f"{case.name} {graph['file']}"] = float(difference)
assert not {"jax", "ibol"} & set(sys.modules)
print(json.dumps(differences))
"""
ASK_NUMPY = """
import importlib.util, json, pathlib
import numpy as np
differences = {}
for case in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    spec = importlib.util.spec_from_file_location("numpy_policy", case / "npz" / "numpy_policy.py")
    policy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(policy)
    made, asked = policy.load(case / "npz"), np.load(case / "asked.npz")
    if made["skill_policy"] is not None:
        output = "goal" if made["linearizer"] is not None else "action"
        answer = policy.goal_of(made, asked["observation"], asked["latent"])
        differences[f"{case.name} skill_policy"] = float(np.abs(answer - asked[output]).max())
    if made["linearizer"] is not None:
        answer = policy.action_of(made, asked["observation"], asked["goal"])
        differences[f"{case.name} linearizer"] = float(np.abs(answer - asked["action"]).max())
print(json.dumps(differences))
"""


def in_a_process(code: str, *args: object) -> str:
    """What code prints in a Python of its own, without this repository on its path."""
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(agent: Skills | Linearizer, place: Path, form: str = "onnx") -> Path:
    place.mkdir(parents=True)
    for name, content in content_of(agent, form, {}).items():
        (place / name).write_bytes(content)
    return place


def asked_of(agent: Skills | Linearizer) -> dict[str, NDArray[np.float32]]:
    """States with latents or goals, and what JAX answers."""
    asked = {"observation": random_states(agent, COUNT)}
    linearizer = agent.linearizer if isinstance(agent, Skills) else agent
    if isinstance(agent, Skills):
        asked["latent"] = agent.sample_latents(COUNT, seed=1)
        answer = agent.act(asked["observation"], asked["latent"], deterministic=True)
        if linearizer is None:
            return {**asked, "action": answer}
        distortion = DISTORTIONS[agent.description.distortion]
        asked["goal"] = answer if distortion is None else distortion(answer)
    else:
        asked["goal"] = random_goals(agent, COUNT)
        asked["goal"][:3] = 0.0  # asks for nothing
    assert linearizer is not None
    return {**asked, "action": linearizer.act(asked["observation"], asked["goal"])}


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that can be exported, in both formats."""

    def make(place: Path) -> None:
        agents: dict[str, Callable[[], Any]] = {
            **{f"linearizer {name}": lambda name=name: ibol.load_linearizer(name) for name in LINEARIZERS},
            **{f"skills {name}": lambda name=name: make_skills(**SKILLS[name]) for name in SKILLS},
            **{f"bundled {name}": lambda name=name: ibol.load_skills(name) for name in zoo.names()},
        }
        for name, load in agents.items():
            agent = load()
            for form in ("onnx", "npz"):
                write(agent, place / name / form, form)
            np.savez(place / name / "asked.npz", **asked_of(agent))

    return made_once(tmp_path_factory, "exported", make)


def test_onnx_is_what_we_answer_where_there_is_no_jax(cases: Path) -> None:
    differences = json.loads(in_a_process(WITHOUT_US + ASK_ONNX, cases))
    linearized = sum("linearizer" in kind for kind in SKILLS.values())
    robots = [name for name in zoo.names() if not name.startswith("point")]
    assert len(differences) >= len(LINEARIZERS) + len(SKILLS) + linearized + len(zoo.names())
    assert len(differences) <= len(LINEARIZERS) + len(SKILLS) + linearized + len(zoo.names()) + len(robots)
    assert {case: far for case, far in differences.items() if not far < 1e-5} == {}


def test_arrays_are_enough_for_numpy_alone(cases: Path) -> None:
    differences = json.loads(in_a_process(WITH_NUMPY_ALONE + ASK_NUMPY, cases))
    assert len(differences) >= len(LINEARIZERS) + len(SKILLS) + len(zoo.names())
    assert {case: far for case, far in differences.items() if not far < 1e-5} == {}


@pytest.mark.parametrize("file", ["skill_policy.onnx", "linearizer.onnx"])
def test_graphs_say_what_they_are(cases: Path, file: str) -> None:
    model = onnx.load(cases / "skills ant" / "onnx" / file)
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 17)]
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    inner = "latent" if file.startswith("skill") else "action"
    assert shapes == {
        "observation": ["batch", 29],
        "goal": ["batch", 29],
        inner: ["batch", 2 if inner == "latent" else 8],
    }
    (graph,) = [one for one in described(cases / "skills ant" / "onnx")["graphs"].values() if one["file"] == file]
    assert {**graph["inputs"], **graph["output"]} == shapes


# What is written beside the networks.


def described(place: Path) -> dict[str, Any]:
    return json.loads((place / "skills.json").read_text())


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


def test_what_is_said_of_ant(cases: Path) -> None:
    about = described(cases / "skills ant" / "onnx")
    assert (about["format"], about["kind"], about["env"], about["macro_length"]) == (1, "skills", "ant", 10)
    assert about["latent"] == {"dim": 2, "prior": "gaussian", "range": [-2.0, 2.0]}
    assert about["goal"] == {"dim": 29, "range": [-1.0, 1.0]}
    assert about["clock"] == {"physics_timestep": 0.01, "frame_skip": 5, "control_timestep": 0.05}
    assert about["episode"] == {"steps": 200, "ends_outside": []}
    assert about["location"] == [0, 1]
    assert names(about["observation"])[:9] == [
        "root x", "root y", "root z", "root quaternion w", "root quaternion x", "root quaternion y",
        "root quaternion z", "hip_1 position", "ankle_1 position",
    ]  # fmt: skip
    assert names(about["observation"])[15:23] == [
        "root velocity x", "root velocity y", "root velocity z", "root angular velocity x", "root angular velocity y",
        "root angular velocity z", "hip_1 velocity", "ankle_1 velocity",
    ]  # fmt: skip
    legs = ["hip_4", "ankle_4", "hip_1", "ankle_1", "hip_2", "ankle_2", "hip_3", "ankle_3"]
    assert names(about["action"]) == legs
    assert about["files"] == ["skill_policy.onnx", "linearizer.onnx", "robot.xml", "skills.json"]


def test_what_is_said_of_others(cases: Path) -> None:
    hopper, humanoid, dkitty, point = (
        described(cases / name / "onnx")
        for name in ("linearizer hopper:0", "linearizer humanoid:0", "linearizer dkitty:0", "skills point, one-hot")
    )
    assert hopper["observation"][1] == {"name": "rootz position", "unit": "m", "from": "qpos", "index": 1}
    assert hopper["observation"][8] == {
        "name": "rooty velocity", "unit": "rad/s", "from": "qvel", "index": 2, "clip": 10.0,
    }  # fmt: skip
    assert humanoid["episode"] == {"steps": 1000, "ends_outside": [[2, 1.0, 2.0]]}
    assert humanoid["action"][0] == {
        "name": "abdomen_y", "joint": "abdomen_y", "qpos": 8, "control": [-0.4, 0.4], "max_lead": None,
    }  # fmt: skip
    assert dkitty["episode"]["ends_outside"] == [[42, 0.95, 1.0]]
    assert dkitty["observation"][30] == {"name": "last action of FR_hip", "unit": "", "from": "action", "index": 0}
    assert dkitty["action"][0]["max_lead"] == pytest.approx(np.pi * 0.1)
    assert (point["model"], point["clock"], point["goal"]) == (None, None, None)
    assert point["latent"] == {"dim": 5, "prior": "one_hot", "range": [0.0, 1.0]}
    assert not (cases / "skills point, one-hot" / "onnx" / "robot.xml").exists()


@pytest.mark.parametrize("env", ["ant", "half_cheetah", "hopper", "humanoid"])
def test_the_model_is_the_one_that_we_simulate(cases: Path, env: str) -> None:
    place, ours = cases / f"linearizer {env}:0" / "onnx", ibol.make(env, 1).model
    theirs = mujoco.MjModel.from_xml_path(str(place / "robot.xml"))
    mass = described(place)["model"]["total_mass"]
    assert (mass is not None) == (env == "half_cheetah")
    if mass is not None:
        mujoco.mj_setTotalmass(theirs, mass)
        mujoco.mj_setConst(theirs, mujoco.MjData(theirs))
    for name in ("body_mass", "body_inertia", "geom_size", "dof_damping", "actuator_gear", "jnt_range", "qpos0"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name), err_msg=name)


def test_dkittys_dynamics_are_those_in_the_middle(cases: Path) -> None:
    place = cases / "linearizer dkitty:0" / "onnx"
    model = mujoco.MjModel.from_xml_path(str(place / "robot.xml"))
    assert described(place)["model"]["total_mass"] == pytest.approx(np.mean(RANGES.mass))
    np.testing.assert_allclose(model.dof_damping[6:], np.mean(RANGES.damping), rtol=1e-5)
    np.testing.assert_allclose(model.dof_frictionloss[6:], np.mean(RANGES.friction_loss), rtol=1e-5)
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], np.mean(RANGES.gain), rtol=1e-5)
    np.testing.assert_allclose(model.actuator_biasprm[:, 1], -np.mean(RANGES.gain), rtol=1e-5)
    assert model.hfield_data.max() == 0


def test_where_it_came_from(tmp_path: Path, point_skills: Path) -> None:
    export_agent("point", tmp_path / "a")
    made = described(tmp_path / "a")["provenance"]
    assert made["command"] == zoo.card("point")["command"]
    assert (made["bundled"], made["seed"], made["exported_by"]) == ("point", 0, f"ibol {ibol.__version__}")
    assert made["versions"] == zoo.card("point")["versions"]
    export_agent("linearizer:ant:1", tmp_path / "b")
    assert described(tmp_path / "b")["provenance"]["command"] == "ibol linearize ant --preset fast --seed 1"
    export_agent(point_skills, tmp_path / "c")
    made = described(tmp_path / "c")["provenance"]
    assert made["command"] == "ibol discover point --method ibol --preset smoke --seed 0 --epochs 2"
    assert str(point_skills) not in (tmp_path / "c" / "skills.json").read_text()


def test_json_reads_as_it_was() -> None:
    value = {"a": [1, 2.5, None], "b": {"c": {"d": "ö\n"}, "e": []}, "f": [{"g": [1]}, {"h": True}], "i": [[1], [2]]}
    assert json.loads(readable(value)) == value


# The example drives robots as we do.


def path_of(agent: Skills | Linearizer, act: Act) -> NDArray[np.float32]:
    """Where the robot is in an episode from rest."""
    still, options = dataclasses.replace(ROBOTS[agent.env], qpos_noise=0.0, qvel_noise=0.0), {"autoreset": "Disabled"}
    env = DKittyEnv(still, randomize=False, **options) if agent.env == "dkitty" else RobotEnv(still, **options)
    found = collect(env, act, seed=0)
    return found.states[0, : found.lengths[0] + 1][:, list(agent.description.location_dims)]


def driven(place: Path, *asked: float) -> NDArray[np.float32]:
    """The example's path, and what it prints, in a process without us."""
    example = ROOT / "examples" / "drive_with_onnx.py"
    code = (
        f"{WITHOUT_US}\nimport json, runpy\ndrive = runpy.run_path({str(example)!r})['drive']\n"
        "print(json.dumps(drive(sys.argv[1], *map(float, sys.argv[2:])).tolist()))"
    )
    return np.array(json.loads(in_a_process(code, place, *asked)))


def angle_between(a: NDArray[np.floating], b: NDArray[np.floating]) -> float:
    return float(np.degrees(np.arccos(np.clip(a @ b / np.linalg.norm(a) / np.linalg.norm(b), -1, 1))))


@pytest.mark.slow
@pytest.mark.parametrize("env", list(ROBOTS))
def test_the_example_drives_a_linearizer(env: str, tmp_path: Path) -> None:
    linearizer = ibol.load_linearizer(env)
    if env == "dkitty":  # the model file's own dynamics, so that there is one path to compare with
        fixed = dataclasses.replace(linearizer.description, env_settings=EnvSettings(randomize=False))
        linearizer = Linearizer(fixed, linearizer.policy, linearizer.normalizer)
    goal = np.zeros((1, linearizer.goal_dim), np.float32)
    goal[0, :2] = 0.8, 0.3
    ours = path_of(linearizer, lambda states, step: linearizer.act(states, goal))
    theirs = driven(write(linearizer, tmp_path / "out"), 0.8, 0.3)
    assert np.abs(theirs[:12] - ours[:12]).max() < 1e-4
    assert len(ours) > 100
    assert angle_between(theirs[-1] - theirs[0], ours[-1] - ours[0]) < 15


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ant, squeezed", "ant, no linearizer, sphere", "half_cheetah, tanh-Gaussian"])
def test_the_example_holds_a_skills_goals(kind: str, tmp_path: Path) -> None:
    skills = make_skills(**SKILLS[kind])
    latent = skills.sample_latents(1, seed=2)
    ours = path_of(skills, skills.controller(latent, deterministic=True))
    theirs = driven(write(skills, tmp_path / "out"), *latent[0])
    assert len(theirs) == len(ours) == 201
    # Into the second macro step, where another goal makes a difference of 2e-3; later, contacts enlarge any rounding.
    assert np.abs(theirs[:12] - ours[:12]).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [("ant", 0), ("ant", 3), ("half_cheetah", 2), ("half_cheetah", 6)])
def test_the_example_goes_where_bundled_skills_go(name: str, number: int, tmp_path: Path) -> None:
    if name not in zoo.names():
        pytest.skip(f"there are no bundled skills of {name}")
    skills = ibol.load_skills(name)
    latent = skills.prior.shown()[number]
    ours = skills.rollout(np.tile(latent, (8, 1)), deterministic=True).states[..., list(skills.location_dims)]
    theirs = driven(write(skills, tmp_path / "out"), *latent)
    assert np.linalg.norm(theirs[-1] - theirs[0]) > 10  # metres
    assert angle_between(theirs[-1] - theirs[0], (ours[:, -1] - ours[:, 0]).mean(axis=0)) < 20


# The command line.


def test_the_command_line_writes_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "new" / "place"
    call("export", "point", "--format", "onnx", "--output", place)
    assert "skill_policy.onnx, skills.json" in capsys.readouterr().out
    assert sorted(file.name for file in place.iterdir()) == ["skill_policy.onnx", "skills.json"]
    (place / "mine.txt").write_text("mine")
    assert "is not empty" in fails(capsys, "export", "point", "--format", "npz", "--output", place)
    assert sorted(file.name for file in place.iterdir()) == ["mine.txt", "skill_policy.onnx", "skills.json"]
    call("export", "point", "--format", "npz", "--output", place, "--overwrite")
    # What the earlier export had and this one has not is gone, and nobody else's file.
    assert sorted(file.name for file in place.iterdir()) == [
        "mine.txt", "numpy_policy.py", "skills.json", "skills.npz",
    ]  # fmt: skip
    with np.load(place / "skills.npz", allow_pickle=False) as arrays:
        assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
        assert "skill_policy/layers/0/weight" in arrays.files


def test_what_an_earlier_export_claims_is_not_believed(tmp_path: Path) -> None:
    place, outside = tmp_path / "out", tmp_path / "precious.onnx"
    place.mkdir()
    outside.write_text("precious")
    (place / "mine.txt").write_text("mine")
    (place / "skills.json").write_text(json.dumps({"files": ["../precious.onnx", "mine.txt", str(outside), 3]}))
    export_agent("point", place, overwrite=True)
    assert outside.exists()
    assert (place / "mine.txt").read_text() == "mine"


def test_nothing_is_written_through_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, precious = tmp_path / "out", tmp_path / "precious"
    place.mkdir()
    precious.write_text("precious")
    (place / "skill_policy.onnx").symlink_to(precious)
    assert "is a symbolic link" in fails(capsys, "export", "point", "--output", place, "--overwrite")
    assert precious.read_text() == "precious"


def test_wrong_calls_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, run = tmp_path / "out", tmp_path / "run"
    call("sac", "point", "--preset", "smoke", "--epochs", "1", "--run-dir", run, "--quiet")
    assert "only skills and linearizers can be exported" in fails(capsys, "export", run, "--output", place)
    assert "bundled skills are called" in fails(capsys, "export", "nobody", "--output", place)
    assert "choose one of ant, dkitty" in fails(capsys, "export", "linearizer:an", "--output", place)
    assert "onnx" in fails(capsys, "export", "point", "--format", "onyx", "--output", place)
    assert "output" in fails(capsys, "export", "point")
    (tmp_path / "file").write_text("")
    assert "is a file" in fails(capsys, "export", "point", "--output", tmp_path / "file")
    with pytest.raises(IbolError, match="unknown format 'onyx'"):
        export_agent("point", place, "onyx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    said = fails(capsys, "export", "point", "--output", place)
    assert (
        said
        == "ibol: ONNX graphs are written with the package onnx: pip install 'ibol[onnx]', or choose --format npz\n"
    )
    call("export", "point", "--format", "npz", "--output", tmp_path / "arrays")  # needs no onnx
    assert not place.exists()


def test_formats_explain_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call("export", "--help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert all(f"{name}: {form.summary}" in shown for name, form in FORMATS.items())
