"""The wheel and the source distribution: what is in them, and that an installed package works by itself."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import ibol
from conftest import made_once

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ibol"
BUILT = {"IBOL_WITHOUT_PAGE": "1"}  # what is not built yet is not built here, either: that takes the network

# What somebody does who has installed the wheel: skills, a linearizer, presets, a figure, the page.
USE = """
import json, sys
from pathlib import Path
import ibol
from ibol import doctor, presets
from ibol.cli import main
from ibol.page.write import is_built

print(json.dumps({
    "file": ibol.__file__,
    "end": ibol.load_skills("point").rollout([[1.0, 0.0]], seed=0).states.shape,
    "linearizer": ibol.load_linearizer("ant").env,
    "presets": presets.names("ibol"),
    "tested": sorted(doctor.tested_versions()),
    "page": is_built(),
}))
main(["plot", "point", "--trajectories", "8", "--output", "skills.png", "--quiet"])
if is_built():
    main(["page", "point"])
"""


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, and the wheel that it makes."""

    def make(folder: Path) -> None:
        build(ROOT, folder, "sdist")
        (source,) = folder.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(folder, filter="data")
        build(folder / source.name.removesuffix(".tar.gz"), folder, "wheel")

    return made_once(tmp_path_factory, "dist", make)


def build(root: Path, folder: Path, target: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True, env={**os.environ, **BUILT})


def test_both_have_the_version_that_the_package_says(dist: Path) -> None:
    names = {file.name for file in dist.iterdir() if file.is_file()}
    assert names == {f"ibol-{ibol.__version__}.tar.gz", f"ibol-{ibol.__version__}-py3-none-any.whl"}
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {ibol.__version__} (" in changes
    assert f"\nversion: {ibol.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    there = {
        f"ibol/{file.relative_to(SOURCE)}"
        for file in SOURCE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert held == there | {"ibol/constraints.txt"}
    kinds = ("/py.typed", "/presets/ibol.toml", "/models/dkitty.xml", "/bundled/ant-0.safetensors", "/template.html")
    for kind in (*kinds, "zoo/skills/ant-ibol/card.json", "experiments/paper.toml", "report/script.js"):
        assert any(name.endswith(kind) for name in held), kind


def test_the_source_distribution_has_all_that_tests_and_documentation_need(dist: Path) -> None:
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        held = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"src", "tests", "docs", "web", "tools", "examples", "constraints.txt", "README.md", "LICENSE"} <= held
    assert not {".git", ".ci", ".venv", "runs", "dist", "build"} & held


@pytest.mark.slow
def test_an_installed_wheel_works_without_the_repository(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    place = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place)}
    run = subprocess.run(
        [sys.executable, "-P", "-c", USE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[0])
    assert found["file"] == str(place / "ibol" / "__init__.py")
    assert found["end"] == [1, 51, 2]
    assert found["linearizer"] == "ant"
    assert {"paper", "fast", "smoke"} <= set(found["presets"])
    assert {"jax", "mujoco", "gymnasium"} <= set(found["tested"])
    assert found["page"] == (SOURCE / "page" / "assets" / "page.js").is_file()
    assert (tmp_path / "skills.png").read_bytes().startswith(b"\x89PNG")
    assert not found["page"] or "<html" in (tmp_path / "skills.html").read_text()
