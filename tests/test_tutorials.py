"""The tutorials of docs/tutorials/ are read as their readers do: from top to bottom, in a folder of their own.

A block with a language is an instruction. `sh` runs commands, `python` runs code, and a block that begins with a file's
name in a comment is that file. A `text` block is what the block before it printed: each word of it must be printed by
the tiny run, too. Trainings get the tiny settings of `test_docs.py`, experiments the preset `smoke`; what else is
smaller is in `SMALLER`. Numbers are not those of the tiny run: where a page prints them from a file of scores, the same
code must print the page's numbers from the file of the real run in `benchmarks/results/tutorials/`.
"""

import contextlib
import io
import itertools
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ibol
from conftest import call
from ibol.evaluation import rollouts
from test_docs import QUICK, tiny
from test_stable_baselines3 import python as python_with_torch  # noqa: F401 (a fixture)

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
RESULTS = ROOT / "benchmarks" / "results" / "tutorials"
PAGES = sorted(FOLDER.glob("*.md"))
NAMES = ("cluster", "comparison", "first_skills", "new_method", "own_environment", "skills_for_a_task")
POLICIES = ("skills", "untrained", "random")
MOST_LINES, MOST_PICTURES, MOST_BYTES = 200, 12, 100_000

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"(?:#!.*\n)?# ([\w./-]+\.(?:py|toml|sh))\n")
WORD = re.compile(r"[A-Za-z][A-Za-z_]{2,}")

ILLUSTRATIONS = ("pip ", "ray ", "sbatch ", "squeue ", "kill ", "parallel ")
"""Beginnings of commands that are not run here: what they install or start is tested elsewhere (`test_ray.py`)."""
SMALLER = {
    "forward.py 40 2": "forward.py 6 1",
    "--engine ray --jobs 2": "",
    "epochs = 40, evaluate": "epochs = 2, evaluate",
}
"""What is smaller than on the pages, besides trainings. Clusters are left to `test_ray.py`."""
NOT_PRINTED = {"supported", "contradicted", "undecided", "fast"}
"""Words that depend on numbers or on the preset."""

ENV = {
    **os.environ, "PYTHONPATH": str(Path(ibol.__file__).parents[1]), "OMP_NUM_THREADS": "1",
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
}  # fmt: skip
"""Where programs of their own find this `ibol`, as a command and as a package."""

Blocks = list[tuple[str, str]]


def blocks_of(page: str) -> Blocks:
    return BLOCK.findall((FOLDER / f"{page}.md").read_text())


def words_of(shown: str) -> set[str]:
    """What must be printed in any run: words."""
    return set(WORD.findall(shown)) - NOT_PRINTED


def smaller(text: str) -> str:
    """Commands and files with `SMALLER` in the place of what takes long."""
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    return text


def made_small(words: list[str]) -> list[str]:
    """A command of `ibol` with tiny settings, which says what it does; runs are those that the tutorial made."""
    command, method = words[0], words[words.index("--method") + 1] if "--method" in words else "ibol"
    if command == "downstream":
        small = [*tiny(command), "--evaluate-every", "1"]  # 'ibol evaluate' wants its evaluations
    elif command in ("discover", "linearize"):
        small = tiny(method if command == "discover" else command)
    elif command == "resume":
        small = ["--epochs", "2"]
    else:
        small = QUICK.get(command, "").split()
    return [*words, *(word for word in small if word != "--quiet")]


class Reader:
    """Somebody who does what a tutorial says, with tiny settings."""

    def __init__(self, folder: Path, torch: Callable[[], Path]) -> None:
        self.folder, self.torch = folder, torch
        self.known: dict[str, Any] = {"__name__": "tutorial"}
        self.printed = ""
        self.did: list[str] = []

    def read(self, blocks: Blocks) -> None:
        for language, body in blocks:
            if language == "text":
                missing = words_of(body) - words_of(self.printed)
                assert not missing, f"{self.did[-1]!r} does not print {sorted(missing)}:\n{self.printed}"
                continue
            self.did.append(body)
            if (file := FILE.match(body)) is not None:
                path = self.folder / file[1]
                path.parent.mkdir(exist_ok=True, parents=True)
                path.write_text(smaller(body))
                continue
            self.printed = self.does(language, body)

    def does(self, language: str, body: str) -> str:
        """What a block prints."""
        assert language in ("sh", "python"), f"{language}: {body}"
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught), contextlib.redirect_stderr(caught):
            if language == "python":
                exec(compile(body, "tutorial", "exec"), self.known)
            else:
                for line in body.replace("\\\n", " ").splitlines():
                    caught.write(self.command(line.split(" #")[0].strip()))
        return caught.getvalue()

    def command(self, line: str) -> str:
        """What a line of a shell prints by itself."""
        line, _, file = smaller(line).partition(" > ")
        words = shlex.split(line)
        if not line or line.startswith(ILLUSTRATIONS):
            return ""
        if words[0] == "python":
            return self.program(words[1:])
        if words[0] != "ibol":
            done = subprocess.run(
                ["sh", "-c", line], cwd=self.folder, env=ENV, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout
        if file:
            with (self.folder / file).open("w") as opened, contextlib.redirect_stdout(opened):
                self.ibol(words[1:])
        else:
            self.ibol(words[1:])
        return ""

    def ibol(self, words: list[str]) -> None:
        """A command of `ibol`, made small."""
        if words[0] == "experiment":
            self.experiment(words)
        else:
            call(*made_small(words))

    def program(self, words: list[str]) -> str:
        """A file that a tutorial wrote; those with Stable-Baselines3 run where torch is."""
        if "stable_baselines3" in (self.folder / words[0]).read_text():
            done = subprocess.run(
                [self.torch(), *words], cwd=self.folder, env=ENV, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", words)
            runpy.run_path(str(self.folder / words[0]), run_name="__main__")
        return ""

    def experiment(self, words: list[str]) -> None:
        """With preset `smoke`; what it would train in processes of its own is trained here, by its own commands."""
        small = [*words, "--preset", "smoke", "--jobs", "1", "--seeds", "2"]
        if not {"--status", "--commands"} & set(words):
            listed = io.StringIO()
            with contextlib.redirect_stdout(listed):
                call(*small, "--commands")
            directory = self.folder / words[words.index("--dir") + 1]
            directory.mkdir(exist_ok=True)
            with contextlib.chdir(directory):
                for line in listed.getvalue().splitlines():
                    if line.startswith("ibol "):
                        call(*shlex.split(line)[1:])
        call(*small)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Callable[[str], Reader]:
    """Reads a tutorial in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(rollouts, "BATCH", 16)  # policies act on whole batches, however few episodes are asked for

    def read(page: str) -> Reader:
        reader = Reader(tmp_path, lambda: request.getfixturevalue("python_with_torch"))
        reader.read(blocks_of(page))
        return reader

    return read


def pictures_of(page: str) -> list[Path]:
    return [FOLDER / name for name in re.findall(r"!\[[^]]*\]\(([^):]+)\)", (FOLDER / f"{page}.md").read_text())]


def is_drawn(picture: Path | str) -> bool:
    """Whether this is a picture that shows something: one colour everywhere is nothing."""
    with Image.open(picture) as image:
        return image.width > 300 and len(image.convert("RGB").getcolors(2**24)) > 10


def test_there_are_six_of_a_readable_length() -> None:
    assert tuple(page.stem for page in PAGES) == NAMES
    for page in PAGES:
        assert len(page.read_text().splitlines()) <= MOST_LINES, page


def test_pictures_are_small_and_all_shown() -> None:
    shown = [picture for page in NAMES for picture in pictures_of(page)]
    assert sorted(shown) == sorted(FOLDER.glob("*.png"))
    assert len(shown) <= MOST_PICTURES
    for picture in shown:
        assert picture.stat().st_size <= MOST_BYTES, picture
        assert is_drawn(picture)


def printed_from_results(page: str) -> Iterator[tuple[str, str]]:
    """Code that prints scores, reading the real run's file, and what the page shows."""
    blocks = blocks_of(page)
    for (language, body), (following, shown) in itertools.pairwise(blocks):
        for path in re.findall(r'"([^"]+\.json)"', body):
            kept = RESULTS / f"{page}_{Path(path).parent.name}.json"
            if language == "python" and following == "text" and kept.is_file():
                yield body.replace(path, str(kept)), shown


def test_the_numbers_are_those_of_the_real_runs() -> None:
    known: dict[str, Any] = {}
    checked = 0
    for page in NAMES:
        for code, shown in printed_from_results(page):
            caught = io.StringIO()
            with contextlib.redirect_stdout(caught):
                exec(code, known)
            assert caught.getvalue() == shown, page
            checked += 1
    returns = json.loads((RESULTS / "skills_for_a_task_forward.json").read_text())  # on the page it is a .npz
    for name in ("with_skills", "without"):
        seeds = np.array(returns[name])
        first, last = seeds[:, :5].mean(), seeds[:, -5:].mean(axis=1)
        line = f"{name:12} first five episodes {first:7.1f}, last five, by seed {last.round(1)}\n"
        assert line in (FOLDER / "skills_for_a_task.md").read_text()
    assert checked + 1 == len(list(RESULTS.glob("*.json"))), "a file that no page shows"


@pytest.mark.slow
def test_first_skills(read: Callable[[str], Reader]) -> None:
    reader = read("first_skills")
    assert is_drawn("ant.png")
    assert [row["policy"] for row in json.loads(Path("runs/ant/scores.json").read_text())] == list(POLICIES)
    latents, episodes = reader.known["latents"], reader.known["episodes"]
    assert episodes.states.shape[::2] == (len(latents), 29)
    assert reader.known["env"].hold == 5


@pytest.mark.slow
def test_own_environment(read: Callable[[str], Reader]) -> None:
    reader = read("own_environment")
    skills, linearizer = reader.known["ibol"].load_skills("runs/walker"), reader.known["linearizer"]
    assert skills.env == linearizer.env == "Walker2d-v5"
    assert skills.linearizer.goal_dim == linearizer.goal_dim == 18
    assert skills.env_settings.horizon == 50, "that of the command"
    assert skills.location_dims == (0,)
    assert is_drawn("walker.png")
    assert reader.known["car"].location_dims == (0,)


@pytest.mark.slow
def test_new_method(read: Callable[[str], Reader]) -> None:
    reader = read("new_method")
    about = {name: json.loads(Path(f"runs/{name}/config.json").read_text()) for name in ("direction", "place")}
    assert {name: config["settings"]["latent_is"] for name, config in about.items()} == {
        "direction": "direction", "place": "place",
    }  # fmt: skip
    assert about["place"]["method"] == "my_methods.reach"
    assert about["place"]["settings"]["discount"] == 0.95, "the presets beside the module"
    assert is_drawn("reach.png")
    skills = ibol.load_skills("runs/place")
    assert skills.rollout(skills.sample_latents(3, seed=0), seed=0).states.shape[::2] == (3, 2)
    assert reader.known["along"] is not reader.known["towards"]


@pytest.mark.slow
def test_skills_for_a_task(read: Callable[[str], Reader]) -> None:
    reader = read("skills_for_a_task")
    for run in ("with-skills", "without"):
        assert len(Path(f"runs/{run}/metrics.jsonl").read_text().splitlines()) == 1
    assert is_drawn("curves.png")
    assert is_drawn("forward.png")
    returns = reader.known["returns"]
    assert returns["with_skills"].shape == returns["without"].shape == (1, 6)
    assert np.isfinite(returns["with_skills"]).all()
    assert reader.known["reward"] == -abs(reader.known["observation"][0] - 10)


@pytest.mark.slow
def test_comparison(read: Callable[[str], Reader]) -> None:
    reader = read("comparison")
    rows = reader.known["rows"]
    assert len([row for row in rows if "intervals" not in row]) == 3 * 2
    assert [row["method"] for row in rows if "intervals" in row] == ["IBOL", "DIAYN", "METRA"]
    assert all(len(reader.known["runs_of"](method, "spread")) == 2 for method in ("IBOL", "DIAYN", "METRA"))
    for figure in ("boxes", "trajectories"):
        assert is_drawn(f"comparison/methods/{figure}.png")
    assert "<html" in Path("comparison/index.html").read_text()


@pytest.mark.slow
def test_cluster(read: Callable[[str], Reader]) -> None:
    read("cluster")
    commands = [line for line in Path("commands.txt").read_text().splitlines() if line.startswith("ibol discover")]
    assert len(commands) == 4
    for place in ("results", "shared"):
        assert len(list(Path(place, "runs").iterdir())) == 4
        assert Path(place, "sweep", "scores.json").is_file()
