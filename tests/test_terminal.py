"""What the terminal shows: widths, help, mistakes, what to do next, the doctor, completion."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ibol
from conftest import call, copy_run, fails
from ibol import cache, doctor, tables
from ibol.cli import COMMANDS, HELP
from ibol.cli.completion import options_of as all_options
from ibol.cli.completion import script
from ibol.cli.help import FEW
from ibol.cli.parsing import HelpAsked
from ibol.cli.train import next_commands
from ibol.evaluation.rows import mean_rows
from ibol.metrics.catalogue import CATALOGUE
from ibol.tables.layout import Column, Sheet, middle_out, short_names, show

ROOT = Path(__file__).parents[1]
WIDTHS = (80, 100)


@pytest.fixture(params=WIDTHS)
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of this width."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    return int(request.param)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


# Tables.


def rows_of(kind: str, runs: Sequence[str] = ("a", "b")) -> list[dict[str, Any]]:
    """Rows as 'ibol evaluate' makes them, with all measures of a kind and long numbers."""
    kinds = {"skills": ("information", "behaviour", "goals"), "controllers": ("task",)}.get(kind, (kind,))
    names = [metric.name for metric in CATALOGUE.values() if metric.kind in kinds]
    if kind == "controllers":
        names = ["return_mean", *names]
    numbers = {name.replace("@k", "@1"): -12345.678 if i % 2 else -0.000123 for i, name in enumerate(names)}
    head = {"env": "half_cheetah"} | ({"method": "IBOL (encoder of location only)"} if kind == "skills" else {})
    rows = []
    for run in runs:
        for policy in ("skills", "untrained", "random") if kind == "skills" else ("",):
            about = {"policy": policy, "bins": 32} if policy else {}
            rows.append({"run": run, **head, **about, **numbers})
    return rows


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("kind", ["skills", "controllers", "linearizer", "policy"])
def test_evaluations_fit_with_means_and_long_names(
    kind: str, everything: bool, columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"experiments/some-long-name/runs/ibol-half_cheetah-fast-{part}-seed{n}" for part in "ab" for n in (0, 1)]
    rows = rows_of(kind, names)
    rows += mean_rows([row for row in rows if row.get("policy", "skills") == "skills"])
    show(*tables.evaluation_tables(rows, everything=everything))
    shown = capsys.readouterr().out
    assert widest(shown) <= columns
    assert "mean of 4 runs" in shown
    assert "95 % from" in shown
    assert "is better)" in " ".join(shown.split())
    assert all(head in shown for head in ("corrected", "neighbour") if kind == "skills"), "no word is broken"
    assert "a-seed1" in shown
    assert not everything or "'--all' shows" not in shown
    if kind == "skills":
        assert "initial policy" in shown
        assert "untrained" not in shown


def test_all_measures_are_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of("skills")
    show(*tables.evaluation_tables(rows))
    few = capsys.readouterr().out
    show(*tables.evaluation_tables(rows, everything=True))
    shown = capsys.readouterr().out
    for name in ("return_range", "goal_stay_1m", "unit_coverage", "sepin@k"):
        said = CATALOGUE[name].header.replace("@k", "@1")
        assert said in shown
        assert said not in few


def test_other_tables_fit(columns: int, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in (
        ["zoo"], ["zoo", "humanoid"], ["presets", "linearize", "--env", "ant", "--all"], ["presets", "edl"],
        ["paper", "--preset", "smoke", "--dir", tmp_path / "results"],
    ):  # fmt: skip
        call(*words)
        shown = capsys.readouterr().out
        assert widest(shown) <= columns, words
        assert "\x1b" not in shown
        assert not re.search("[\u2500-\u257f]", shown), "a pipe gets plain text"


def settings_of(table: str) -> list[str]:
    """The names in the first column, without those of continued lines."""
    return re.findall(r"^([a-z_]+)  ", table, re.M)


def test_presets_show_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    call("presets", "linearize", "--env", "ant")
    few = capsys.readouterr().out
    call("presets", "linearize", "--env", "ant", "--all")
    everything = capsys.readouterr().out
    assert "action_cost" in everything
    assert "action_cost" not in few
    assert "gradient_steps" in few
    count = int(re.search(r"(\d+) more settings are the same", few)[1])  # type: ignore[index]
    assert len(settings_of(everything)) == len(settings_of(few)) + count


def test_a_single_preset_is_shown_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lonely.py").write_text("from ibol.methods.diayn import METHOD")
    (tmp_path / "lonely.toml").write_text("[fast.all]\nepochs = 7")
    monkeypatch.syspath_prepend(tmp_path)
    call("presets", "lonely:METHOD")
    shown = capsys.readouterr().out
    assert re.search(r"^epochs +7$", shown, re.M)
    assert "more settings" not in shown


def test_a_terminal_gets_lines_and_a_narrow_one_wraps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    table = Sheet([Column("name", number=False), Column("what it is", number=False)], notes=["A note. " * 20])
    table.add("one", "word " * 30)
    show(table)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "\u2500" in shown
    assert widest(shown) <= 44
    assert shown.count("word") == 30


def test_names_are_shortened_by_what_they_share_and_then_in_the_middle() -> None:
    assert short_names(["runs/a", "runs/b"]) == {"runs/a": "runs/a", "runs/b": "runs/b"}
    seeds = [f"runs/ibol-half_cheetah-fast-with_something-seed{n}" for n in range(3)]
    assert list(short_names(seeds).values()) == ["seed0", "seed1", "seed2"]
    methods = [f"experiments/paper-fast/runs/{name}-ant-fast-seed0" for name in ("ibol", "diayn")]
    assert list(short_names(methods).values()) == ["ibol", "diayn"]
    alone = short_names(["x" * 50 + "y"])["x" * 50 + "y"]
    assert len(alone) == 28
    assert alone.startswith("xxx")
    assert alone.endswith("y")
    near = ["p" * 40 + str(n) + "q" * 40 for n in range(3)]
    assert len(set(short_names(near).values())) == 3
    assert middle_out("abcdefghij", 7) == "ab...ij"
    assert middle_out("abc", 7) == "abc"


# Help.


def imports(*words: str) -> tuple[set[str], str]:
    """What a command imports, and what it prints."""
    timed = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ibol", *words], capture_output=True, text=True, check=True
    )
    return {line.rpartition("|")[2].strip() for line in timed.stderr.splitlines()}, timed.stdout


def test_the_list_of_commands_imports_nothing_that_takes_long() -> None:
    imported, printed = imports("--help")
    assert "ibol.cli" in imported
    assert not {"jax", "mujoco", "numpy", "gymnasium", "tyro", "rich"} & imported
    assert printed.strip() == HELP
    assert widest(HELP) <= 100


def test_mujoco_does_not_look_for_a_window_system(tmp_path: Path) -> None:
    """GLFW would be looked for by a process that outlives a command which is stopped, and complains."""
    imported, _ = imports(
        "sac", "point", "--preset", "smoke", "--epochs", "1", "--quiet", "--run-dir", str(tmp_path / "run")
    )
    assert "ibol.gl" in imported
    assert "glfw" not in imported


def asked(*words: str) -> Any:
    with pytest.raises(HelpAsked) as help_asked:
        COMMANDS[words[0]]([*words[1:], "--help"])
    return help_asked.value.help


@pytest.mark.parametrize("command", ["discover", "linearize", "downstream", "sac"])
def test_trainings_show_ten_options_first_and_all_on_request(
    command: str, columns: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(command)
    few, everything = found.text(), found.text(everything=True)
    flags = re.findall(r"^  (--[\w\[\]-]+)", few, re.M)
    assert len(flags) == 10
    assert "--help-all" in few
    assert "--seed" in few
    assert "examples\n  ibol" in few
    names = [option.name for option in found.options if not option.positional]
    assert len(names) > FEW
    assert all(name in everything or name.replace("--", "--[no-]") in everything for name in names)
    assert max(widest(few), widest(everything)) <= columns
    assert "how the environment is run" in everything
    assert all(option.help for option in found.options), "every option says what it is"


@pytest.mark.parametrize("command", list(COMMANDS))
def test_help_of_every_command_fits_and_says_what_each_option_is(command: str, columns: int) -> None:
    found = asked(command)
    assert found.text().startswith(f"usage: ibol {command}")
    assert widest(found.text(everything=True)) <= columns
    assert [option.name for option in found.options if not option.help] == []


def test_help_has_defaults_of_the_preset_and_of_the_environment() -> None:
    fast, paper = asked("linearize", "ant"), asked("linearize", "ant", "--preset", "paper")
    of = lambda found: {option.name: option.default for option in found.options}  # noqa: E731
    assert (of(fast)["--epochs"], of(paper)["--epochs"]) == ("400", "100000")
    assert of(fast)["--hidden"] == "128 128"
    assert of(fast)["--symmetric"] == "yes"
    assert of(paper)["--symmetric"] == "no"


# Mistakes.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sac", "point", "--learning-rat", 1], "unknown option --learning-rat: did you mean --learning-rate?"),
        (["sac", "point", "--learning_rat", 1], "did you mean --learning-rate?"),
        (["sac", "point", "--zzzz"], "unknown option --zzzz: 'ibol sac --help-all' lists the options"),
        (["zoo", "--zzzz"], "unknown option --zzzz: 'ibol zoo --help' lists the options"),
        (["sac", "point", "-z"], "unknown option -z: 'ibol sac --help-all' lists the options"),
        (["sac", "point", "--epochs", "many"], "--epochs is 'many', but a whole number is needed"),
        (["sac", "point", "--epochs", "1.5"], "--epochs is '1.5', but a whole number is needed"),
        (["sac", "point", "--epochs=1.5"], "--epochs is '1.5', but a whole number is needed"),
        (["sac", "point", "--hidden", "8", "wide"], "--hidden is 'wide', but a whole number is needed"),
        (["sac", "point", "--learning-rate", "fast"], "--learning-rate is 'fast', but a number is needed"),
        (["sac", "point", "--epochs"], "--epochs needs a value: a whole number"),
        (["sac", "--epochs", "1"], "'ibol sac' needs ENV: a name that 'ibol envs' lists"),
        (["downstream"], "'ibol downstream' needs TASK: one of ant_goal,"),
        (["sac", "point", "ant"], "'ant' is one argument too many: ENV is 'point'"),
        (["sac", "point", "--quiet", "True"], "'True' is one argument too many"),
        (["sac", "point", "--quiet=True"], "--quiet takes no value: give --quiet or --no-quiet"),
        (["envs", "--all", "--al"], "unknown option --al: did you mean --all?"),
        (["linearize", "ant", "--reward", "inner_produkt"], "euclidean; did you mean 'inner_product'?"),
        (["discover", "point", "--slack", "1"], "unknown option --slack: --method ibol does not have it, but"),
        (["plot", "point", "--figure", "box"], "--figure is 'box', but it must be one of trajectories, boxes"),
        (["video"], "'ibol video' needs RUN: a run of 'ibol discover'"),
        (["completion", "tcsh"], "it must be one of bash, zsh, fish"),
        (["completion"], "'ibol completion' needs SHELL"),
        (["evaluat", "x"], "did you mean 'evaluate'?"),
    ],
)  # fmt: skip
def test_wrong_calls_get_one_sentence(words: list[object], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = fails(capsys, *words)
    assert told.startswith("ibol: ")
    assert said in told
    assert told.count("\n") == 1
    assert not re.search("[\u2500-\u257f]", told)


# What comes next.


def test_a_finished_run_says_commands_that_work(
    point_skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = copy_run(point_skills, tmp_path / "my run")
    call("resume", run, "--quiet")
    said = capsys.readouterr().out
    assert said.startswith(f"done: {run} holds")
    commands = [line.strip() for line in said.partition("next:\n")[2].splitlines()]
    assert [line.split()[1] for line in commands] in (["evaluate", "plot", "page"], ["evaluate", "plot"])
    short = {"evaluate": ("--trajectories", "8", "--quiet"), "plot": ("--trajectories", "8", "--quiet")}
    for line in commands:
        words = shlex.split(line)[1:]
        call(*words, *short.get(words[0], ()))
    assert (tmp_path / "my run.png").exists()


def test_what_comes_next_depends_on_what_was_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    def after(command: str, env: str) -> list[str]:
        made = SimpleNamespace(path=Path("runs/x"), command=command, config={"env": env}, method=command)
        return [" ".join(line.split()[1:3]) for line in next_commands(made)]

    monkeypatch.setattr("ibol.page.write.is_built", lambda: True)
    first = ["evaluate runs/x", "plot runs/x"]
    assert after("linearize", "ant") == [*first, "page runs/x", "discover ant"]
    assert after("linearize", "cart@0123abcd")[-1] == "discover runs/x/robot/robot.toml"
    assert after("discover", "cart@0123abcd") == [*first, "page runs/x"]
    assert after("discover", "Pendulum-v1") == after("sac", "ant") == first
    made = SimpleNamespace(path=Path("runs/x"), command="sac", config={"env": "own:make"}, method="sac")
    assert all(line.endswith("--trust-env own:make") for line in next_commands(made))


# The doctor.


@pytest.fixture(scope="module")
def checks() -> list[doctor.Check]:
    return doctor.examine(ibol.__version__)


def test_the_doctor_finds_this_installation_fit(
    checks: list[doctor.Check], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda version: checks)
    call("doctor", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] is True
    by_name = {check["name"]: check for check in found["checks"]}
    assert {"ibol", "Python", "jax", "mujoco", "cores", "memory", "simulation", "OpenGL", "cache", "page"} <= set(
        by_name
    )
    assert by_name["simulation"]["state"] == by_name["JAX computes on"]["state"] == "ok"
    assert by_name["jax"]["tested"] == doctor.tested_versions()["jax"]
    assert all(check["advice"] for check in found["checks"] if check["state"] in ("broken", "missing"))
    call("doctor")
    shown = capsys.readouterr().out
    assert widest(shown) <= 100
    assert "Everything that ibol needs works." in shown


def test_the_doctor_says_what_is_broken_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = doctor.Check("software", "jax", "not installed", "broken", "1.0", "jax is not installed: do this.")
    monkeypatch.setattr(doctor, "examine", lambda version: [broken])
    with pytest.raises(SystemExit) as stop:
        call("doctor")
    assert stop.value.code == 1
    said = capsys.readouterr().out
    assert "jax is not installed: do this." in said
    assert "ibol cannot work: see jax." in said


def test_the_doctor_compares_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = lambda text: doctor._package(doctor.Requirement(text), {"numpy": "0.1"}, "software", "broken", "pip")  # noqa: E731
    assert judge("numpy>=1").state == "note"
    assert judge("numpy>=999").state == "broken"
    assert "does not fit" in judge("numpy>=999").advice
    assert judge("nobody-has-this>=1").state == "broken"
    assert "nobody-has-this is not installed" in judge("nobody-has-this>=1").advice
    monkeypatch.setattr(doctor, "_TESTED", ())
    assert doctor.tested_versions() == {}


def test_the_doctor_tells_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise RuntimeError("no such thing\nand more")

    check = doctor._tried("hardware", "x", fail, "x cannot be done")
    assert (check.state, check.advice) == ("broken", "x cannot be done: no such thing")
    monkeypatch.setattr(doctor, "_small_picture", fail)
    picture = next(iter(doctor._pictures()))
    assert (picture.name, picture.state) == ("OpenGL", "missing")
    assert "no such thing" in picture.advice


def test_the_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBOL_CACHE", str(tmp_path))
    assert cache.place() == tmp_path
    assert cache.content(tmp_path) == (0, 0)
    (tmp_path / "compiled-0").mkdir()
    (tmp_path / "compiled-0" / f"jit_f-{'0' * 64}").write_bytes(b"12345")
    assert cache.content(tmp_path) == (1, 5)
    monkeypatch.setenv("IBOL_CACHE", "")
    assert cache.place() is None


# Completion.


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("completion") / "ibol"
    file.write_text(script("bash"))
    return file


def test_the_script_for_bash_is_valid_and_completes(bash: Path) -> None:
    subprocess.run(["bash", "-n", str(bash)], check=True)
    tries = {
        "ibol dis": "discover",
        "ibol discover ant --slac": "--slack",
        "ibol discover ant --method me": "metra",
        "ibol linearize ant --preset pa": "paper",
        "ibol evaluate x --trajec": "--trajectories",
    }
    complete = 'COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=(); _tyro_ibol; echo "${{COMPREPLY[*]}}"'
    lines = [f"source {shlex.quote(str(bash))}"]
    lines += [complete.format(line, len(line.split()) - 1) for line in tries]
    run = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == list(tries.values())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_for_other_shells(shell: str, tmp_path: Path) -> None:
    text = script(shell)
    assert all(command in text for command in COMMANDS)
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_completion_knows_the_options_of_all_methods() -> None:
    names = {option.name for option in all_options("discover")[1]}
    assert {"--beta", "--slack", "--discrete-latents", "--seed"} <= names
