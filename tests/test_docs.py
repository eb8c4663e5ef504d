"""Every command and every Python block of README and docs/ does what the page says: a page is run from top to bottom.

Commands that train keep their preset and get a tiny size on top of it; a name such as RUN stands for a tiny run.
"""

import contextlib
import dataclasses
import glob
import hashlib
import json
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import call, made_once
from ibol import cache, gl
from ibol.errors import IbolError
from ibol.evaluation import rollouts, skills
from ibol.experiments import conduct
from ibol.page.write import ASSETS
from ibol.training import launch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
"""They are read by test_tutorials.py, with all that they write and print."""

# What is not run, and why.
ILLUSTRATIONS = {
    "ibol discover ENV --method NAME": "NAME is the method that the page adds",
    "ibol presets steps": "test_outside_methods.py does",
    "ibol discover point --method steps --sharpness 2 --run-dir runs/steps": "test_outside_methods.py does",
    "ibol resume runs/steps --epochs 40": "test_outside_methods.py does",
    "ibol evaluate runs/steps": "test_outside_methods.py does",
    "ibol plot runs/steps --output steps.png": "test_outside_methods.py does",
    "ibol discover point --method skill_steps.steps --run-dir runs/steps": "test_outside_methods.py does",
    "ibol evaluate runs/steps --trust-method skill_steps.steps": "test_outside_methods.py does",
    "ibol discover RUN/robot/robot.toml --linearizer RUN": "test_own_robot.py reads such a file",
    "ibol normalize NAME --update": "writes into the package",
    "ibol discover half_cheetah --linearizer RUN": "RUN is a linearizer's",
    "ibol completion bash > ibol-completion.bash": "test_terminal.py does",
    "ibol downstream TASK": "the command's name with its argument",
    "ibol experiment FILE": "docs/guides/experiments.md has one",
    "ibol plot --figure curves": "an option, without the runs",
    "ibol plot runs/downstream-ant_goal-* --figure curves --metric goal_distance": "as for half_cheetah_goal above it",
    'ibol video --latents "0; 3"': "an option, without the run",
}
PYTHON_ELSEWHERE = {"docs/guides/add-a-method.md": "test_outside_methods.py runs it"}

# The settings of a tiny training, as far as a command has them, and the flags that make other commands quick.
TINY = {
    "epochs": 1, "episodes_per_epoch": 2, "gradient_steps": 1, "model_steps": 1, "batch_size": 8, "hidden": (8, 8),
    "evaluate_every": 0, "latent_samples": 2, "marginal_samples": 2, "prior_samples": 2, "normalizer_trajectories": 4,
    "final_steps": 1, "discover_steps": 1, "candidates": 8, "iterations": 1, "evaluation_episodes": 2, "l_m": 5,
}  # fmt: skip
QUICK = {
    "export": "--overwrite",
    "evaluate": "--trajectories 16 --episodes 2 --quiet",
    "imitation-set": "--trajectories 4 --quiet --overwrite",
    "normalize": "--trajectories 4",
    "page": "--overwrite",
    "plot": "--trajectories 8 --overwrite --quiet",
    "report": "--trajectories 16 --no-films --overwrite --quiet",
    "resume": "--quiet",
    "video": "--steps 2 --size 64 --overwrite --quiet",
}
SMALLER = {"trajectories=2000": "trajectories=20", "steps=100": "steps=2", "epoch-0000000300": "epoch-0000000002"}

MY_PACKAGE = "import gymnasium\ndef make_arm():\n    return gymnasium.make('Pendulum-v1')\n"


def blocks(text: str, *languages: str) -> list[str]:
    return [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S) if language in languages]


def command_lines(text: str) -> Iterator[str]:
    """A page's commands: in fenced blocks (loops with their first values), and in its text those with arguments."""
    for block in blocks(text, "", "sh", "bash"):
        for name, value in re.findall(r"for (\w+) in (\S+)", block):
            block = block.replace(f"${name}", value)
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split(" #")[0].split()
            if words[:1] in (["ibol"], ["make"], ["python"]):
                yield " ".join(words)
    for inline in re.findall(r"`((?:ibol|python) [^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        if len(inline.split()) > 2 or inline.startswith("python"):
            yield " ".join(inline.split())


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def all_commands() -> list[str]:
    return [line for page in PAGES for line in command_lines(page.read_text())]


def test_they_are_found() -> None:
    commands = all_commands()
    assert len([line for line in commands if line.startswith("ibol ")]) > 50
    assert set(ILLUSTRATIONS) <= set(commands), "an illustration that no page has any more"
    assert all((ROOT / page).exists() for page in PYTHON_ELSEWHERE)


def test_files_and_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    written = {f"{name}.py" for page in TUTORIALS for name in re.findall(r"^# (\w+)\.py$", page.read_text(), re.M)}
    for line in all_commands():
        program, what = line.split()[:2]
        assert program != "make" or what in targets, line
        assert program != "python" or what in written or (ROOT / what).is_file(), line


@pytest.fixture
def tiny_run(point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Skills of a robot after one tiny epoch, or of the point, in the place of a reader's run."""

    def find(env: str) -> Path:
        train = ["discover", env, *tiny("ibol"), "--run-dir"]
        return made_once(tmp_path_factory, f"docs_{env}", lambda run: call(*train, run))

    return lambda env: point_skills if env == "point" else find(env)


def tiny(method: str) -> list[str]:
    """Flags for a training of a few steps."""
    fields = {field.name for field in dataclasses.fields(launch.find(method).config)}
    flags = ["--quiet", "--overwrite", "--horizon", "50"]
    for name, value in TINY.items():
        if name in fields:
            values = value if isinstance(value, tuple) else (value,)
            flags += [f"--{name.replace('_', '-')}", *map(str, values)]
    return flags


def prepared(line: str, tiny_run: Callable[[str], Path]) -> list[str]:
    """The words of a command with runs in the place of names, and tiny."""
    words = [word for word in shlex.split(line)[1:] if word != "..."]
    command = words[0]
    for number, word in enumerate(words[1:], start=1):
        if word == "ENV":
            words[number] = "point"
        elif word in ("RUN", "RUN..."):
            run = tiny_run("ant" if "ant_goal" in words else "point")
            words[number] = str(
                shutil.copytree(run, tempfile.mkdtemp(dir="."), dirs_exist_ok=True) if command == "resume" else run
            )
        elif word.startswith("runs/") and words[number - 1] != "--run-dir" and not glob.glob(word):
            shutil.copytree(tiny_run("half_cheetah"), word.replace("*", "0"))
    words = [name for word in words for name in (sorted(glob.glob(word)) if "*" in word else [word])]
    if {"--help", "--help-all"} & set(words):
        return words
    if command == "discover":
        return [*words, *tiny(words[words.index("--method") + 1] if "--method" in words else "ibol")]
    if command in ("linearize", "sac"):
        return [*words, *tiny(command)]
    if command == "resume":
        return [*(word if word != value_of(words, "--epochs") else "3" for word in words), "--quiet"]
    if command == "downstream":  # 'ibol evaluate' wants its evaluations
        return [*words, *tiny(command), "--evaluate-every", "1"]
    return [*words, *QUICK.get(command, "").split()]


def is_the_same_everywhere(words: list[str]) -> bool:
    """Whether a command trains, and nothing but a run: several pages then show the same training."""
    others = [word for word in words if word != value_of(words, "--run-dir")]
    trains = words[0] in ("discover", "linearize", "sac") and "--help" not in words
    return trains and not any("/" in word or (":" in word and not word.startswith("bundled")) for word in others)


def value_of(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1] if flag in words else ""


def train_once(words: list[str], factory: pytest.TempPathFactory) -> None:
    """What the command does, with a run that an earlier page has trained if there is one."""
    target = value_of(words, "--run-dir")
    words = [word for word in words if word not in ("--run-dir", target)] if target else words

    def train(place: Path) -> None:
        place.mkdir()
        with contextlib.chdir(place):
            call(*words)

    name = f"docs_trained_{hashlib.sha256(' '.join(words).encode()).hexdigest()[:16]}"
    (run,) = (made_once(factory, name, train) / "runs").iterdir()
    shutil.copytree(run, target or f"runs/{run.name}", dirs_exist_ok=True)


def films_can_be_made() -> bool:
    try:
        gl.find_backend()
    except IbolError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page not in TUTORIALS], ids=page_id)
def test_a_page_does_what_it_says(
    page: Path,
    tiny_run: Callable[[str], Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = page.read_text()
    monkeypatch.chdir(tmp_path)
    # Experiments train many runs in processes of their own, which test_engines.py does; here they are only read.
    nothing = SimpleNamespace(verdicts=(), results=(), page="", board=SimpleNamespace(done=(), cells=(), failed={}))
    monkeypatch.setattr(conduct, "conduct", lambda *args: nothing)
    monkeypatch.setattr(rollouts, "BATCH", 16)  # policies act on whole batches, however few episodes are asked for
    monkeypatch.setattr(skills, "COVERING", 8)
    references = made_once(tmp_path_factory, "docs_references", lambda place: place.mkdir())
    monkeypatch.setattr(cache, "directory", lambda name: references)
    for number, file in enumerate(blocks(text, "toml")):
        (tmp_path / f"my-experiment{number or ''}.toml").write_text(file)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "envs.py").write_text(MY_PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)

    for line in dict.fromkeys(command_lines(text)):
        if not line.startswith("ibol ") or line in ILLUSTRATIONS:
            continue
        words = prepared(line, tiny_run)
        if words[0] == "video" and "point" not in words[1] and not films_can_be_made():
            continue
        if words[0] == "page" and not (ASSETS / "page.js").is_file():  # 'make web' needs node
            continue
        print(f"{line!r} as {words}")
        with contextlib.suppress(*([SystemExit] if {"--help", "--help-all"} & set(words) else [])):
            train_once(words, tmp_path_factory) if is_the_same_everywhere(words) else call(*words)

    known: dict[str, Any] = {"MyArm": lambda: None, "my_function": lambda goals: goals}
    exec(MY_PACKAGE.replace("make_arm", "MyArm"), known)
    if '"runs/half_cheetah"' in text:
        shutil.copytree(tiny_run("half_cheetah"), "runs/half_cheetah")
    (tmp_path / "RUN").symlink_to(tiny_run("point"))
    for block in blocks(text, "python"):
        for large, small in SMALLER.items():
            block = block.replace(large, small)
        code = compile(block, page_id(page), "exec")
        if page_id(page) not in PYTHON_ELSEWHERE and not ("video" in text and not films_can_be_made()):
            exec(code, known)
    assert logged(tmp_path / "runs") <= explained_metrics()


def logged(runs: Path) -> set[str]:
    """All names in the metrics of runs."""
    lines = (line for file in runs.glob("*/metrics.jsonl") for line in file.read_text().splitlines())
    return {name for line in lines for name in json.loads(line)}


def explained_metrics() -> set[str]:
    """What the page of the metrics explains."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    return {name for row in re.findall(r"^\| (`.*?) \|", page, re.M) for name in re.findall(r"`([\w/]+)`", row)}


def test_each_method_is_trained_by_its_page() -> None:
    """So that `logged` sees the metrics of all of them, with those of evaluations in the fixture."""
    for method in launch.discovery_methods():
        page = ROOT / "docs" / "background" / "methods" / f"{method}.md"
        commands = [line for line in command_lines(page.read_text()) if line not in ILLUSTRATIONS]
        wanted = f"--method {method}" if method != "ibol" else "ibol discover"
        assert any(line.startswith("ibol discover") and wanted in line for line in commands), method


def test_metrics_of_evaluations_are_explained(point_skills: Path) -> None:
    assert logged(point_skills.parent) <= explained_metrics()
    assert {"evaluation/spread", "evaluation/information"} <= logged(point_skills.parent)
