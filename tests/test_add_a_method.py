"""The example of docs/guides/add-a-method.md, from the page: trained, resumed and measured as any other method."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import ibol.methods
from conftest import call
from ibol import presets
from ibol.training import launch

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "add-a-method.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The method's two files, where those of the package are looked for."""
    text = PAGE.read_text()
    code, toml = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "toml"))
    assert code is not None
    assert toml is not None
    methods, folder = tmp_path / "methods", tmp_path / "presets"
    methods.mkdir()
    (methods / "steps.py").write_text(code[1])
    shutil.copytree(Path(presets.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "steps.toml").write_text(toml[1])
    monkeypatch.setattr(ibol.methods, "__path__", [*ibol.methods.__path__, str(methods)])
    monkeypatch.setattr(presets, "_FOLDER", folder)
    monkeypatch.delitem(sys.modules, "ibol.methods.steps", raising=False)
    return "steps"


def test_the_example_becomes_a_method(example: str, tmp_path: Path) -> None:
    assert example in launch.discovery_methods()
    run, scores = tmp_path / "run", tmp_path / "scores.json"
    call("discover", "point", "--method", example, "--epochs", 10, "--evaluate-every", 0, "--run-dir", run, "--quiet")
    call("resume", run, "--epochs", 20, "--quiet")
    call("evaluate", run, "--trajectories", 200, "--json", scores, "--quiet")
    call("plot", run, "--trajectories", 40, "--output", tmp_path / "steps.png", "--quiet")
    skills, untrained, random = json.loads(scores.read_text())
    assert skills["method"].startswith("Steps")
    assert skills["accuracy"] > 0.7 > 0.4 > max(untrained["accuracy"], random["accuracy"])
    assert (tmp_path / "steps.png").stat().st_size > 10_000
