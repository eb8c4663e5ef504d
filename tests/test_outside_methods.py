"""A method in a package of its own, that of the guide, is as any other: trained, resumed, measured, drawn.

A run from a stranger that names a method imports nothing without the user's word.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ibol
from conftest import call, copy_run, fails
from ibol import trust
from ibol.errors import IbolError
from ibol.evaluation.groups import group_runs
from ibol.training import launch

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "add-a-method.md"
TINY = ("--epochs", "2", "--episodes-per-epoch", "4", "--evaluate-every", "0", "--quiet")
MODULE = "skill_steps.steps"


def files_of_the_page() -> dict[str, str]:
    code, settings, project = re.findall(r"^```(?:python|toml)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {
        "skill_steps/__init__.py": "", "skill_steps/steps.py": code, "skill_steps/steps.toml": settings,
        "pyproject.toml": project,
    }  # fmt: skip


def write(place: Path) -> Path:
    for name, text in files_of_the_page().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Modules of the example are forgotten afterwards, and so are places that Python looks for modules in."""
    before = list(sys.path)
    yield
    sys.path[:] = before
    for name in [name for name in sys.modules if name.partition(".")[0] in ("skill_steps", "planted")]:
        del sys.modules[name]


@pytest.fixture
def by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> str:
    """The method, as pip leaves it."""
    about = tmp_path / "site" / "skill_steps-0.1.dist-info"
    write(tmp_path / "site")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: skill-steps\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[ibol.methods]\nsteps = {MODULE}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return "steps"


def test_an_installed_method_is_as_any_other(
    by_entry_point: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert by_entry_point in launch.discovery_methods()
    run, scores = tmp_path / "run", tmp_path / "scores.json"
    train = ["discover", "point", "--method", by_entry_point, "--epochs", 10, "--evaluate-every", 0, "--quiet"]
    call(*train, "--sharpness", 2, "--run-dir", run)
    assert f"next:\n  ibol evaluate {run}\n" in capsys.readouterr().out, "nobody has to be trusted"
    call("resume", run, "--epochs", 20, "--quiet")
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 20
    call("evaluate", run, "--trajectories", 200, "--json", scores, "--quiet")
    call("plot", run, "--trajectories", 40, "--output", tmp_path / "steps.png", "--quiet")
    call("report", run, "--trajectories", 40, "--output", tmp_path / "steps.html", "--quiet", "--no-films")
    assert "<td>Steps</td>" in (tmp_path / "steps.html").read_text()
    skills, untrained, random = json.loads(scores.read_text())
    assert skills["method"] == "Steps"
    assert skills["accuracy"] > 0.7 > 0.4 > max(untrained["accuracy"], random["accuracy"])
    assert (tmp_path / "steps.png").stat().st_size > 10_000

    capsys.readouterr()
    call("presets", by_entry_point, "--all")
    assert "sharpness" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call("discover", "point", "--method", by_entry_point, "--help-all")
    assert "What the reward is multiplied by" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text('[two]\nruns = [{ env = "point", method = ["diayn", "steps"] }]')
    call("experiment", "two.toml", "--commands", "--preset", "fast")
    assert "ibol discover point --method steps --preset fast" in capsys.readouterr().out


@pytest.fixture
def run_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: None) -> Path:
    """A run of the method in the working directory, named by its module."""
    monkeypatch.chdir(write(tmp_path))
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    call("discover", "point", "--method", MODULE, *TINY, "--run-dir", "run")
    return Path("run")


def test_a_module_in_the_working_directory_needs_the_users_word_later(
    run_of_a_module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, word = run_of_a_module, ("--trust-method", MODULE)
    call("resume", run, "--quiet", *word)
    assert f"next:\n  ibol evaluate run --trust-method {MODULE}" in capsys.readouterr().out
    sys.modules.pop(MODULE)
    for command in ("resume", "evaluate", "report"):
        assert f"--trust-method '{MODULE}'" in fails(capsys, command, run)
    with pytest.raises(IbolError, match="trust_method='skill_steps"):
        ibol.load_agent(run)
    skills = ibol.load_skills(run)
    assert skills.rollout(skills.sample_latents(2)).states.shape[0] == 2
    assert MODULE not in sys.modules, "skills need no method"
    call("resume", run, "--epochs", 3, "--quiet", *word)
    call("evaluate", run, "--trajectories", 50, "--no-references", "--quiet", *word)
    call("plot", run, "--trajectories", 20, "--quiet", "--output", "a.png", *word)
    assert ibol.load_agent(run, trust_method=MODULE).kind == "skills"
    with pytest.raises(IbolError, match=r"trust_method is \[3\]"):
        ibol.load_agent(run, trust_method=[3])  # type: ignore[list-item]
    with trust.methods(MODULE):
        (group,) = group_runs([run])
    assert group.label == "Steps"


def test_an_experiment_trains_a_module_that_is_trusted(
    run_of_a_module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = 'env = "point", epochs = 1, episodes_per_epoch = 4, evaluate_every = 0, horizon = 5'
    Path("own.toml").write_text(f'[own]\ntrajectories = 16\nruns = [{{ method = "{MODULE}", {settings} }}]')
    experiment = ("experiment", "own.toml", "--jobs", 1, "--quiet")
    assert f"--trust-method '{MODULE}'" in fails(capsys, *experiment)
    call(*experiment, "--trust-method", MODULE)
    assert "1 of 1 runs" in capsys.readouterr().out
    scores = json.loads(Path("experiments/own-fast/own/scores.json").read_text())
    assert scores["rows"][0]["method"] == "Steps"
    call(*experiment, "--trust-method", MODULE, "--commands")


@pytest.mark.parametrize("name", ["planted.method", "planted:METHOD", "os:abort"])
@pytest.mark.parametrize("command", ["evaluate", "plot", "report", "video", "resume", "export --output x"])
def test_a_run_of_a_stranger_imports_nothing(
    command: str, name: str, point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, forgotten: None,
) -> None:  # fmt: skip
    (tmp_path / "planted.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(tmp_path)
    run = copy_run(point_skills, tmp_path / "run", method=name)
    first, *rest = command.split()
    said = fails(capsys, first, run, *rest)
    assert f"--trust-method '{name}'" in said
    assert "planted" not in sys.modules
    assert ibol.load_skills(run).env == "point"


def test_a_method_that_is_not_there_is_said(
    point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], forgotten: None
) -> None:
    run = copy_run(point_skills, tmp_path / "run", method="steps")
    assert "install the package that offers it" in fails(capsys, "evaluate", run)
    assert "choose one of csd" in fails(capsys, "discover", "point", "--method", "steps")
    assert "No module named 'planted'" in fails(capsys, "discover", "point", "--method", "planted.method")
    assert "unknown method" in fails(capsys, "discover", "point", "--method", "../planted.py")


WRONG: dict[str, tuple[str, Any, str]] = {
    "no method": ("method.py", "x = 3", "has no METHOD"),
    "no such thing": ("method.py", "METHOD = 3", "METHOD of 'planted.method' is 3"),
    "an error": ("method.py", "1 / 0", "ZeroDivisionError: division by zero"),
    "a missing import": ("method.py", "import not_there_at_all", "No module named 'not_there_at_all'"),
    "other settings": (
        "method.py",
        "from ibol.training.method import Method\nimport dataclasses\n@dataclasses.dataclass(frozen=True)\nclass A:\n"
        "    x: int = 1\nMETHOD = Method('A', A, None, None)",
        "derive them from DiscoveryConfig",
    ),
    "no presets": ("method.toml", None, "has no presets"),
    "no TOML": ("method.toml", "= 3", "are not valid TOML"),
    "no text": ("method.toml", b"\xff\xfe\xff", "are not UTF-8 text"),
    "no parts": ("method.toml", "[fast]\nepochs = 3", "'fast' without parts"),
    "no fast": ("method.toml", "[quick.all]\nepochs = 3", r"lack the table [fast.all]"),
    "unknown settings": ("method.toml", "[fast.all]\nspeed = 3", "unknown setting 'speed': choose one of"),
    "wrong values": ("method.toml", '[fast.all]\nepochs = "many"', "epochs is 'many'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_method_is_said_in_a_sentence(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    file, text, told = WRONG[wrong]
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "method.py").write_text("from ibol.methods.diayn import METHOD")
    (folder / "method.toml").write_text("[fast.all]\nepochs = 1")
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    said = fails(capsys, "discover", "point", "--method", "planted.method", "--run-dir", "run")
    assert told in " ".join(said.split())
    assert not Path("run").exists()
