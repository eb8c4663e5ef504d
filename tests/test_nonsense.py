"""Nonsense is refused where it is said, in one sentence that names it, and before anything is written."""

import dataclasses
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import ibol
from conftest import call, copy_run, fails
from ibol import bounds, memory
from ibol.bounds import array, whole_number
from ibol.cli import main
from ibol.downstream.imitation import make_imitation_set
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.evaluation.downstream import evaluate_downstream
from ibol.evaluation.loading import load_run, load_runs
from ibol.evaluation.plots import plot_runs
from ibol.evaluation.plots.common import PlotOptions
from ibol.evaluation.rollouts import skill_rollouts
from ibol.evaluation.runs import evaluate_runs, linearizer_coverage
from ibol.evaluation.skills import evaluate_skills
from ibol.figures.skills import SkillPicture, plot_skills
from ibol.films.episodes import episodes_of, load_episodes
from ibol.learners.normalizer import compute_normalizer
from ibol.learners.replay import Replay
from ibol.learners.rollout import collect
from ibol.linearizer.evaluation import evaluate_linearizer, random_goal_paths
from ibol.methods.ibol import IBOLConfig
from ibol.metrics import coverage, information, locations, separability, spread
from ibol.nn.networks import MLP, TrajectoryEncoder
from ibol.report.page import write_report
from ibol.seeding import derive
from ibol.skills.env import SkillEnv
from ibol.skills.latents import Gaussian, OneHot
from ibol.training import launch
from ibol.training.loop import RunSettings

NAN, INF = float("nan"), float("inf")
HUGE = 10**11
LONG = "x" * 300
DISCOVER = ("discover", "point", "--preset", "smoke")
SAC = ("sac", "point", "--preset", "smoke")
LINEARIZE = ("linearize", "point", "--preset", "smoke")


# The command line.

TRAINING = [
    (DISCOVER, ["--beta", -1], "--beta is -1, but at least 0 is needed"),
    (DISCOVER, ["--alpha", -1], "--alpha is -1, but at least 0"),
    (DISCOVER, ["--method", "valor", "--alpha", -1], "--alpha is -1, but at least 0"),
    (DISCOVER, ["--lambda", -0.5], "--lambda is -0.5, but at least 0"),
    (DISCOVER, ["--latent-weight", -1], "--latent-weight is -1, but at least 0"),
    (DISCOVER, ["--epochs", 0], "--epochs is 0, but at least 1"),
    (SAC, ["--epochs", 0], "--epochs is 0, but at least 1"),
    (SAC, ["--num-threads", 0], "--num-threads is 0, but at least 1"),
    (SAC, ["--num-threads", 10**6], "--num-threads is 1000000, but at most 1024"),
    (SAC, ["--horizon", 0], "--horizon is 0, but at least 1"),
    (SAC, ["--replay-size", 0], "replay_size is 0 (the epoch alone), which goes with --batch-size 0 only"),
    (LINEARIZE, ["--replay-size", 0], "replay_size is 0 (the epoch alone), which goes with --batch-size 0 only"),
    (SAC, ["--gradient-steps", 0], "--gradient-steps is 0, but at least 1"),
    (DISCOVER, ["--gradient-steps", 0], "--gradient-steps is 0, but at least 1"),
    (DISCOVER, ["--method", "dads", "--model-steps", 0], "--model-steps is 0, but at least 1"),
    (SAC, ["--temperature", 0], "--temperature is 0, but more than 0"),
    (SAC, ["--hidden"], "--hidden is empty, but at least one value"),
    (SAC, ["--location-dims"], "--location-dims is empty, but at least one value"),
    (SAC, ["--checkpoint-minutes", "inf"], "--checkpoint-minutes is inf, but a finite number"),
    (SAC, ["--target-entropy", "nan"], "--target-entropy is nan, but a finite number"),
    (SAC, ["--discount", "nan"], "--discount is nan, but a finite number"),
    (LINEARIZE, ["--alive-bonus", "-inf"], "--alive-bonus is -inf, but a finite number"),
    (DISCOVER, ["--beta", "inf"], "--beta is inf, but a finite number"),
    (DISCOVER, ["--beta", "1e39"], "--beta is 1e+39, but at most 1e+38"),
    (DISCOVER, ["--seed", 10**30], "but at most 9.22337e+18 is allowed"),
    (LINEARIZE, ["--macro-length", 51], "is 51, but an episode has 50 steps: choose a smaller --macro-length"),
    (LINEARIZE, ["--n-step", 51], "is 51, but an episode has 50 steps: choose a smaller --n-step"),
    (DISCOVER, ["--marginal-steps", 51], "has 50 steps of the policy: choose a smaller --marginal-steps"),
    (DISCOVER, ["--method", "metra", "--slack", "0"], "--slack is 0, but more than 0 is needed"),
    # Sizes that cannot fit.
    (SAC, ["--replay-size", HUGE], "a replay buffer of 100000000000 rows would take 3.2e+03 GB, but"),
    (SAC, ["--batch-size", HUGE], "choose a smaller --batch-size or --gradient-steps"),
    (SAC, ["--gradient-steps", HUGE], "choose a smaller --batch-size or --gradient-steps"),
    (SAC, ["--horizon", HUGE], "choose a smaller --episodes-per-epoch"),
    (SAC, ["--hidden", HUGE], "choose smaller sizes (--hidden"),
    (SAC, ["--episodes-per-epoch", HUGE], "num_envs 100000000000 of point would take"),
    (SAC, ["--evaluation-episodes", HUGE], "num_envs 100000000000 of point would take"),
    (DISCOVER, ["--hidden", 10**6, 10**6], "of memory are free: choose smaller sizes (--hidden"),
    (DISCOVER, ["--horizon", HUGE], "choose a smaller --episodes-per-epoch"),
    (DISCOVER, ["--latent-dim", HUGE], "--latent-dim"),
    (DISCOVER, ["--latent-samples", HUGE], "choose a smaller --latent-samples"),
    (DISCOVER, ["--marginal-samples", HUGE], "choose a smaller --marginal-samples"),
    (DISCOVER, ["--recent-epochs", HUGE], "choose a smaller --recent-epochs"),
    (DISCOVER, ["--evaluation-trajectories", HUGE], "choose a smaller --evaluation-trajectories"),
    (DISCOVER, ["--method", "dads", "--prior-samples", HUGE], "choose a smaller --prior-samples"),
    (DISCOVER, ["--method", "dads", "--model-steps", HUGE], "choose a smaller --batch-size or --model-steps"),
    (DISCOVER, ["--method", "sectar", "--model-steps", HUGE], "choose a smaller --batch-size or --model-steps"),
    (DISCOVER, ["--method", "sectar", "--replay-size", HUGE], "choose a smaller --replay-size"),
    (DISCOVER, ["--method", "sectar", "--episodes-per-epoch", 1], "SeCTAR needs 2 episodes"),
    (DISCOVER, ["--method", "diayn", "--discrete-latents", HUGE], "choose a smaller --discrete-latents"),
    (DISCOVER, ["--method", "metra", "--discrete-latents", HUGE], "choose a smaller --discrete-latents"),
    (DISCOVER, ["--method", "csf", "--prior-samples", HUGE], "choose a smaller --prior-samples"),
    (LINEARIZE, ["--imitation-steps", HUGE], "choose fewer --imitation-steps"),
    # Names and paths.
    (DISCOVER, ["--preset", ""], "unknown preset ''"),
    (DISCOVER, ["--preset", "a[/b]"], "unknown preset 'a[/b]'"),
    (DISCOVER, ["--method", ""], "unknown method ''"),
    (DISCOVER, ["--linearizer", "a[/b]"], "unknown linearizer 'a[/b]'"),
    (DISCOVER, ["--linearizer", LONG], "--linearizer"),
    (DISCOVER, ["--linearizer", "bundled:"], "no linearizer is bundled for point"),
    (DISCOVER, ["--linearizer", "a\0b"], "--linearizer is 'a\\x00b', which is not valid text"),
    (DISCOVER, ["--linearizer", "a\udcff"], "--linearizer is 'a\\udcff', which is not valid text"),
    (DISCOVER, ["--unknown[/b]", 1], "--unknown[/b]"),
    (DISCOVER, ["[/b]"], "[/b]"),
    (DISCOVER, ["--epochs", "[/b]"], "[/b]"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "words", "said"), TRAINING)
def test_a_training_that_makes_no_sense_writes_nothing(
    command: tuple[str, ...], words: list[object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in fails(capsys, *command, "--run-dir", tmp_path / "run", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--l-m", 6], "l_m is 6, which holds a latent for 60 steps, but an episode has 50: choose a smaller --l-m"),
        (["--controller", "planner", "--elites", 7], "elites is 7, but from 2 to all 6 candidates can be"),
        (["--controller", "planner", "--elites", 1], "choose another --elites or more --candidates"),
        (["--controller", "planner", "--candidates", HUGE], "num_envs 300000000000 of point would take"),
        (["--goal-range", "nan"], "--goal-range is nan, but a finite number"),
        (["--latent-range", 0], "--latent-range is 0, but more than 0"),
    ],
)
def test_a_task_that_makes_no_sense_writes_nothing(
    words: list[object], said: str, point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ("downstream", "point_goal", "--preset", "smoke", "--skills", point_skills)
    assert said in fails(capsys, *start, *words, "--run-dir", tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


USING = [
    (["evaluate", "RUN", "--bins", 1], "--bins is 1, but at least 2 is needed"),
    (["evaluate", "RUN", "--bins"], "--bins is empty, but at least one value"),
    (["evaluate", "RUN", "--bins", 10**8], "--bins is 100000000, but at most 10000"),
    (["evaluate", "RUN", "--bins", "1e8"], "--bins"),
    (["evaluate", "RUN", "--trajectories", HUGE], "100000000000 latents would take 1.6e+03 GB, but"),
    (["evaluate", "RUN", "--json", LONG], "File name too long"),
    (["evaluate", ""], "an argument is empty"),
    (["evaluate", "a[/b]"], "a[/b] is not a run"),
    (["evaluate", "/dev/null"], "/dev/null"),
    (["evaluate", "x" * 5000], "cannot be read as a run"),
    (["plot", "RUN", "--bins", 1], "--bins is 1, but at least 2"),
    (["plot", "RUN", "--bins"], "--bins is empty"),
    (["plot", "RUN", "--trajectories", 0], "--trajectories is 0, but at least 1"),
    (["plot", "RUN", "--seed", -1], "--seed is -1, but at least 0"),
    (["plot", "RUN", "--output", "a.docx"], "the ending of --output must be one of"),
    (["plot", "RUN", "--output="], "--output is empty"),
    (["plot", LONG], "File name too long"),
    (["plot", "a[/b]"], "a[/b] is not a run"),
    (["video", "RUN", "--latents", ""], "--latents is empty"),
    (["video", "RUN", "--latents", "nan,0"], "latents 'nan,0' are not valid"),
    (["video", "RUN", "--latents", "[/b]"], "latents '[/b]' are not valid"),
    (["video", "RUN", "--output", "a.avi"], "a.avi ends in '.avi': choose .mp4, .gif, .png"),
    (["video", "RUN", "--size", 10], "--size is 10, but a whole number of at least 64"),
    (["video", "RUN", "--size", 10**6], "--size is 1000000, but at most 1920"),
    (["video", "RUN", "--frames-per-second", "nan"], "--frames-per-second is nan"),
    (["video", "RUN", "--frames-per-second", 0.5], "--frames-per-second is 0.5, but 1 to 100"),
    (["video", LONG], "File name too long"),
    (["report", "RUN", "--output", "a.docx"], "a.docx ends in '.docx': choose .html, .htm"),
    (["report", "RUN", "--output", "nowhere/a.html"], "make it or choose another --output"),
    (["report", LONG], "File name too long"),
    (["imitation-set", "RUN", "--output", "a.foo"], "choose .safetensors"),
    (["imitation-set", "RUN", "--trajectories", HUGE], "ask for fewer (--trajectories)"),
    (["resume", "RUN", "--epochs", 0], "--epochs is 0, but at least 1"),
    (["resume", "RUN", "--checkpoint-minutes", "nan"], "--checkpoint-minutes is nan"),
    (["resume", LONG], "File name too long"),
    (["resume", "a[/b]"], "a[/b] is not a run"),
    (["experiment", ""], "an argument is empty"),
    (["experiment", "a[/b]"], "cannot read a[/b]"),
    (["experiment", "a.toml", "--seeds", 0], "--seeds is 0, but at least 1"),
    (["paper", "a[/b]", "--preset", "smoke"], "unknown entry 'a[/b]'"),
    (["paper", "point-ibl", "--preset", "smoke"], "did you mean 'point-ibol'?"),
    (["paper", "point-ibol", "--preset", "smok"], "unknown preset 'smok': did you mean 'smoke'?"),
    (["paper", "point-ibol", "--preset", "smoke", "--dir", LONG], "File name too long"),
    (["presets", "a[/b]"], "unknown command 'a[/b]'"),
    (["presets", LONG], "File name too long"),
    (["normalize", ""], "an argument is empty"),
    (["normalize", "[/b]"], "unknown environment '[/b]'"),
    (["normalize", "point", "--steps", 0], "--steps is 0, but at least 1"),
    (["sac", ""], "an argument is empty"),
    (["sac", "x" * 5000], "File name too long"),
    (["sac", "point", "--run-dir", LONG], "ibol: --run-dir xxx"),
    (["downstream", "point_goal", "--skills", "nowhere"], "(--skills)"),
    (["discover", "ant", "--linearizer", "RUN"], "not of 'ibol linearize' (--linearizer)"),
    (["discover", "ant", "--linearizer", "bundled:"], "unknown seed or variant of the bundled linearizer ant ''"),
    (["evaluate", "RUN", "--json", "a.txt"], "choose .json for --json"),
    (["evaluate", "RUN", "--trajectories", 8, "--sepin-k", 3, "--quiet"], "choose k (--sepin-k) from 1 to 2"),
    (["plot", "RUN", "--figure", "curves", "--metric", "nonsense"], "for --metric"),
    (["paper", "point-ibol", "--preset", "smoke", "--dir", "/dev/null"], "/dev/null is a file: choose another --dir"),
    (["paper", "point-ibol", "--preset", "smoke", "--dir", "RUN"], "is not an experiment's: choose another --dir"),
    (["sac", "point", "--run-dir", "x/" * 3000], "File name too long"),
    (["sac", "point", "--run-dir", ""], "--run-dir is empty"),
    (["sac", "point", "--run-dir", "/dev/null/x"], "cannot write to /dev/null/x"),
    (["a[/b]"], "unknown command 'a[/b]'"),
    ([""], "unknown command ''"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), USING)
def test_a_command_that_makes_no_sense_writes_nothing(
    words: list[object],
    said: str,
    point_skills: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    told = fails(capsys, *(point_skills if word == "RUN" else word for word in words))
    assert said in told
    assert len(told) < 2500
    assert list(tmp_path.iterdir()) == []


def test_names_with_markup_and_dollars_are_printed_and_drawn_as_they_are(
    point_skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a[/b] :smile:", "$x^{y$ [red]"):
        run = copy_run(point_skills, Path(name))
        call("evaluate", run, "--trajectories", 8, "--no-references", "--quiet", "--json", f"{name}.json")
        assert f"{name} " in capsys.readouterr().out
        assert json.loads(Path(f"{name}.json").read_text())[0]["run"] == name
    ways = np.ones((2, 3, 2), np.float32)
    plot_skills([SkillPicture("$x^{y$", ways[:, 0], ways, Gaussian(2))], Path("a.svg"), title="$\\frac$")
    assert "<svg" in Path("a.svg").read_text()


def test_the_last_of_two_presets_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown preset 'none'" in fails(capsys, *SAC, "--preset", "none", "--run-dir", tmp_path / "run")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "a/b"), "ibol: a/b: No space left on device\n"),
        (OSError("odd"), "ibol: odd\n"),
        (MemoryError("1 GB"), "ibol: there is not enough memory (1 GB): choose smaller sizes\n"),
        (RuntimeError("RESOURCE_EXHAUSTED: 1 GB"), "not enough memory"),
    ],
)
def test_faults_of_the_system_are_one_sentence(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(argv: list[str]) -> None:
        raise error

    monkeypatch.setitem(ibol.cli.COMMANDS, "envs", broken)
    assert said in fails(capsys, "envs")


def test_other_faults_of_the_program_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str]) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.setitem(ibol.cli.COMMANDS, "envs", broken)
    with pytest.raises(RuntimeError, match="a mistake"):
        main(["envs"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_is_refused_at_once(
    point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    assert "cannot be written" in fails(capsys, "plot", point_skills, "--output", tmp_path / "a.png")


# Settings.


@dataclasses.dataclass(frozen=True)
class Inner:
    rate: bounds.Positive = 1.0


@dataclasses.dataclass(frozen=True)
class Outer:
    whole: int = 1
    number: float = 1.0
    switch: bool = False
    text: str = "a"
    path: Path | None = None
    choice: Literal["a", "b"] = "a"
    count: bounds.Count | None = None
    several: bounds.Counts = (1,)
    some: tuple[int, ...] = ()
    lambda_: bounds.NonNegative = 0.0
    inner: Inner = Inner()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("whole", 1.0, "whole is 1, but a whole number is needed"),
        ("whole", True, "whole is True, but a whole number is needed"),
        ("whole", "1", "whole is '1', but a whole number is needed"),
        ("whole", None, "whole is None, but a whole number is needed"),
        ("number", True, "number is True, but a number is needed"),
        ("number", NAN, "number is nan, but a finite number is needed"),
        ("number", -INF, "number is -inf, but a finite number is needed"),
        ("number", 10**400, "without a decimal point"),
        ("number", [1.0], "number is [1.0], but a number is needed"),
        ("switch", 1, "switch is 1, but true or false is needed"),
        ("text", 3, "text is 3, but text is needed"),
        ("text", "\ud800", "but it has characters that no text has"),
        ("text", "a\0", "but it has characters that no text has"),
        ("path", "a", "path is 'a', but a path is needed"),
        ("choice", "c", "choice is 'c', but it must be one of a, b"),
        ("choice", ["a"], "it must be one of a, b"),
        ("count", 0, "count is 0, but at least 1 is needed"),
        ("count", "x", "count is 'x', but a whole number is needed"),
        ("several", (), "several is empty, but at least one value is needed"),
        ("several", (1, 0), "several is 0, but at least 1 is needed"),
        ("several", (1, 2.5), "several is 2.5, but a whole number is needed"),
        ("several", [1], "several is [1], but several values are needed"),
        ("several", {"a": "b" * 1000}, "several is {'a': 'bbb"),
        ("some", (1, None), "some is None, but a whole number is needed"),
        ("lambda_", -1.0, "lambda is -1, but at least 0 is needed"),
        ("inner", {}, "inner is {}, but settings are needed"),
        ("inner", Inner(0.0), "rate is 0, but more than 0 is needed"),
    ],
)
def test_settings_have_the_types_that_they_say(field: str, value: Any, said: str) -> None:
    with pytest.raises(IbolError) as error:
        bounds.check(dataclasses.replace(Outer(), **{field: value}))
    assert said in str(error.value)
    assert len(str(error.value)) < 200
    if field == "lambda_":
        with pytest.raises(IbolError, match=r"^--lambda is -1, but at least 0 is needed$"):
            bounds.check(Outer(lambda_=-1.0), flags=True)


def test_settings_that_make_sense_pass() -> None:
    bounds.check(Outer(number=1, count=3, several=(1, 2), path=Path("a"), some=()))
    for name in (*launch.discovery_methods(), *launch.COMMANDS):
        bounds.check(launch.find(name).config())
    for settings in (EnvSettings(), RunSettings(), PlotOptions(), EnvSettings(location_dims=(0, 1), num_threads=2)):
        bounds.check(settings)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"hidden": ()}, {"hidden": [8]}, {"beta": NAN}, {"use_u": 1}])
def test_settings_are_checked_where_a_run_starts_from_python(wrong: dict[str, Any], tmp_path: Path) -> None:
    config = dataclasses.replace(IBOLConfig(linearizer="none"), **wrong)
    with pytest.raises(IbolError, match=f"^{next(iter(wrong))} is"):
        launch.start(
            "ibol",
            "point",
            config,
            preset="smoke",
            env_settings=EnvSettings(),
            run_settings=RunSettings(run_dir=tmp_path / "run", quiet=True),
        )
    assert list(tmp_path.iterdir()) == []


# Memory.


def test_what_does_not_fit_is_refused_and_says_how_much_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 2 * 10**9)
    memory.check(2 * 10**9, "a thing", "make it smaller")
    with pytest.raises(IbolError, match=r"^a thing would take 2.5 GB, but 2 GB of memory are free: make it smaller$"):
        memory.check(25 * 10**8, "a thing", "make it smaller")
    with pytest.raises(IbolError, match=r"^a replay buffer of 1000000000 rows would take 12 GB"):
        Replay(10**9, {"a": (2,), "b": ()})
    with pytest.raises(IbolError, match=r"^a layer of 3 x 100000000 weights would take 8 GB"):
        MLP(3, 1, (10**8,), np.tanh, "xavier_uniform", _key())
    with pytest.raises(IbolError, match=r"^a layer of 20003 x 80000 weights would take"):
        TrajectoryEncoder(3, 1, (20_000,), _key())
    with pytest.raises(IbolError, match=r"^100 episodes of 10000000 steps would take 20 GB"):
        collect(ibol.make("point", 100, horizon=10**7, autoreset="Disabled"), lambda states, step: states, seed=0)
    monkeypatch.setattr(memory, "available", lambda: 10**8)
    with pytest.raises(IbolError, match=r"^num_envs 1000 of dkitty would take"):  # a model for each
        ibol.make("dkitty", 1000)


def test_memory_that_is_free_is_found_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    free = memory.available()
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    assert 0 < free <= memory.available()


def test_networks_within_a_limit_have_no_more_weights_in_all() -> None:
    layers = 4 * (4 * 8 + 9)  # bytes: 3 inputs and a bias, 8 hidden, 1 output and a bias
    with memory.at_most(layers, "the file has no more"):
        MLP(3, 1, (8,), np.tanh, "xavier_uniform", _key())
        with memory.at_most(10**6, "another file"):
            MLP(3, 1, (8,), np.tanh, "xavier_uniform", _key())
        with pytest.raises(IbolError, match=r"^a layer of 3 x 8 weights is larger .*: the file has no more$"):
            MLP(3, 1, (8,), np.tanh, "xavier_uniform", _key())
    MLP(3, 1, (8,), np.tanh, "xavier_uniform", _key())


def _key() -> Any:
    import jax

    return jax.random.key(0)


# Arguments of functions.


def refused(wrong: Callable[[], object], match: str) -> None:
    with pytest.raises(IbolError, match=match):
        wrong()


@pytest.mark.parametrize("wrong", [1.5, 2.0, 0, -1, "3", None, True, NAN, [1], 10**30])
def test_sizes_are_whole_numbers(wrong: Any) -> None:
    refused(lambda: whole_number("size", wrong), "^size is .*, but ")
    assert whole_number("size", np.int64(3)) == 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1, 2, 3]], r"latents have shape \(1, 3\), but \(N, 2\) is needed"),
        ([1, 2], r"latents have shape \(2,\), but \(N, 2\) is needed"),
        (np.zeros((0, 2)), r"latents have shape \(0, 2\), but \(N, 2\) is needed, and at least one of each"),
        ([[1, NAN]], "latents have values that are not finite"),
        ([[1, 1e300]], "latents have values that are not finite"),
        ([["a", "b"]], "latents are of type str"),
        ([[1], [1, 2]], "latents are of type object"),
        (None, "latents are of type object"),
        ({"a": 1}, "latents are of type object"),
        ([[1j, 2]], "latents are of type complex"),
    ],
)
def test_arrays_have_their_shape_and_are_finite(values: Any, said: str) -> None:
    refused(lambda: array("latents", values, "N", 2, dtype=np.float32), said)


def test_skills_refuse_what_they_cannot_use(point_skills: Path) -> None:
    skills = ibol.load_skills(point_skills)
    obs, z = np.zeros((3, 2)), np.zeros((3, 2))
    for wrong, match in (
        (lambda: skills.act(obs * NAN, z), "observations have values that are not finite"),
        (lambda: skills.act(np.zeros((3, 5)), z), r"observations have shape \(3, 5\), but \(..., 2\) is needed"),
        (lambda: skills.act(3.0, z), r"observations have shape \(\)"),
        (lambda: skills.act("a", z), "observations are of type str"),
        (lambda: skills.act(obs, z + INF), "latents have values that are not finite"),
        (lambda: skills.act(obs, z[:2]), r"latents have shape \(2, 2\), but \(3, 2\) is needed"),
        (lambda: skills.act(obs[0], z), r"latents have shape \(3, 2\), but \(2,\) is needed"),
        (lambda: skills.act(obs, z, seed=0.5), "seed is 0.5"),
        (lambda: skills.rollout(z, deterministic=None), "deterministic is None, but True or False"),
        (lambda: skills.act(obs, z, step=-1), "step is -1"),
        (lambda: skills.controller(z * NAN), "latents have values that are not finite"),
        (lambda: skills.controller(z[:, :1]), r"latents have shape \(3, 1\)"),
        (lambda: skills.controller(z, seed=-1), "seed is -1"),
        (lambda: skills.controller(z)(obs * NAN, 0), "observations have values that are not finite"),
        (lambda: skills.controller(z)(obs[:2], 0), r"observations have shape \(2, 2\), but \(3, 2\) is needed"),
        (lambda: skills.rollout(z * NAN), "latents have values that are not finite"),
        (lambda: skills.rollout(z[0]), r"latents have shape \(2,\)"),
        (lambda: skills.rollout(z[:0]), "at least one of each"),
        (lambda: skills.rollout(z, seed=-1), "seed is -1"),
        (lambda: skills.rollout(z, seed=1.5), "seed is 1.5"),
        (lambda: skills.sample_latents(0), "the number of latents is 0"),
        (lambda: skills.sample_latents(2.5), "the number of latents is 2.5"),
        (lambda: skills.sample_latents(HUGE), "100000000000 latents would take"),
        (lambda: skills.sample_latents(2, seed=-1), "seed is -1"),
        (lambda: skills.make_env(1.5), "num_envs is 1.5"),
        (lambda: derive(-1, "a"), "seed is -1"),
    ):
        refused(wrong, match)


def test_skills_as_an_environment_refuse_what_they_cannot_use(point_skills: Path) -> None:
    skills = ibol.load_skills(point_skills)
    for hold in (0, -1, 1.5, "2", None, True, NAN):
        refused(lambda hold=hold: SkillEnv(skills, hold=hold), "^hold is .*a whole number of at least 1")
    refused(lambda: SkillEnv(3), "skills are 3, but skills or the directory of a run")
    refused(lambda: SkillEnv(skills, render_mode="film"), "render_mode")
    env = SkillEnv(point_skills)
    refused(lambda: env.step([0, 0]), "call reset")
    refused(lambda: env.reset(seed=-1), "seed is -1")
    env.reset(seed=0)
    for action, match in (([0, NAN], "not finite"), ([0], "shape"), ("a", "type str"), ([[0, 0]], "shape")):
        refused(lambda action=action: env.step(action), match)
    for action in (3, -1, 0.5, "a", None, [0, 1], NAN):
        refused(lambda action=action: OneHot(3).from_action(action), "was asked for, but there are 0 to 2")


def test_linearizers_refuse_what_they_cannot_use() -> None:
    lin = ibol.load_linearizer("half_cheetah")
    obs, goals = np.zeros((2, 18)), np.zeros((2, 18))
    for wrong, match in (
        (lambda: lin.act(obs * NAN, goals), "observations have values that are not finite"),
        (lambda: lin.act(obs[:, :3], goals), r"observations have shape \(2, 3\), but \(..., 18\) is needed"),
        (lambda: lin.act(obs, goals + INF), "goals have values that are not finite"),
        (lambda: lin.act(obs, goals[:, :3]), r"goals have shape \(2, 3\), but \(2, 18\) is needed"),
        (lambda: lin.act(obs[0], goals), r"goals have shape \(2, 18\), but \(18,\) is needed"),
        (lambda: lin.rollout(goals * NAN), "goals have values that are not finite"),
        (lambda: lin.rollout(goals[0]), r"goals have shape \(18,\)"),
        (lambda: lin.rollout(goals, seed=-1), "seed is -1"),
        (lambda: lin.make_env(0), "num_envs is 0"),
        (lambda: random_goal_paths(lin, trajectories=1.5), "trajectories is 1.5"),
        (lambda: random_goal_paths(lin, trajectories=2, goal_beta=-1.0), "goal_beta is -1"),
        (lambda: random_goal_paths(lin, trajectories=HUGE), "would take"),
        (lambda: evaluate_linearizer(lin, seed=-1), "seed is -1"),
        (lambda: linearizer_coverage([lin], trajectories=0, seed=0, quiet=True), "trajectories is 0"),
    ):
        refused(wrong, match)


@pytest.mark.parametrize(
    ("env", "options", "said"),
    [
        ("nowhere", {}, "unknown environment 'nowhere'"),
        ("", {}, "unknown environment ''"),
        (5, {}, "env is 5"),
        (None, {}, "env is None"),
        ("ant", {"terminated": False}, "unknown option of ant 'terminated'"),
        ("ant", {"terminate": "no"}, "terminate is 'no', but True or False"),
        ("hopper", {"end_when_fallen": 1}, "end_when_fallen is 1, but True or False"),
        ("dkitty", {"randomize": "yes"}, "randomize is 'yes', but True or False"),
        ("point", {"randomize": False}, "unknown option of point 'randomize'"),
        ("point", {"num_envs": 1.5}, "num_envs is 1.5"),
        ("point", {"num_envs": HUGE}, "num_envs 100000000000 of point would take"),
        ("ant", {"num_threads": 0.5}, "num_threads is 0.5"),
        ("ant", {"num_threads": 5000}, "num_threads is 5000, but at most 1024"),
        ("point", {"horizon": 2.5}, "horizon is 2.5"),
        ("point", {"horizon": -1}, "horizon is -1"),
        ("point", {"seed": -1}, "seed is -1"),
        ("point", {"seed": 0.5}, "seed is 0.5"),
        ("point", {"autoreset": "never"}, "autoreset is 'never'"),
        ("point", {"location_dims": (0,)}, "location_dims are for own environments"),
        ("point_goal", {"goal_range": True}, "goal_range is True"),
        ("point_goal", {"goal_range": NAN}, "goal_range is nan"),
        ("point_goal", {"goal_range": "3"}, "goal_range is '3'"),
        ("half_cheetah_imitation", {"imitation_set": 3}, "imitation_set is 3, but the path of a file"),
    ],
)
def test_environments_refuse_what_they_do_not_know(env: Any, options: dict[str, Any], said: str) -> None:
    refused(lambda: ibol.make(env, **options), said)


def test_environments_refuse_actions_of_another_kind() -> None:
    env = ibol.make("point", 2)
    env.reset(seed=0)
    for action in (np.zeros((2, 3)), np.zeros(2), [[0, NAN], [0, 0]], "a", None, [[0, 0], [0]], np.zeros((2, 2)) * 1j):
        refused(lambda action=action: env.step(action), "action")
    refused(lambda: env.reset(options="all"), "options are 'all', but a dictionary")


def test_policies_refuse_what_they_cannot_use(tmp_path: Path) -> None:
    call(*SAC, "--epochs", 1, "--quiet", "--run-dir", tmp_path / "run")
    policy = ibol.load_agent(tmp_path / "run")
    refused(lambda: policy.act([NAN, 0]), "states have values that are not finite")
    refused(lambda: policy.act(np.zeros((2, 3))), r"states have shape \(2, 3\), but \(..., 2\) is needed")
    refused(lambda: policy.rollout(1.5), "num_envs is 1.5")
    refused(lambda: policy.rollout(0), "num_envs is 0")
    refused(lambda: policy.rollout(2, seed=-1), "seed is -1")
    refused(lambda: evaluate_runs([tmp_path / "run"], episodes=0), "episodes is 0")


Z = np.random.default_rng(0).normal(size=(20, 2))
BAD = {
    "empty": (np.zeros((0, 2)), "at least one of each|is needed"),
    "nan": (np.where(np.arange(20)[:, None] == 3, NAN, Z), "not finite"),
    "text": ([["a", "b"]], "of type str"),
    "ragged": ([[1.0], [1.0, 2.0]], "of type object"),
    "deep": (np.zeros((2, 2, 2)), "shape"),
}


def _deeper(x: Any) -> Any:
    return x[None] if isinstance(x, np.ndarray) else [x]


def _column(x: Any) -> Any:
    return x[:, 0] if isinstance(x, np.ndarray) else x if isinstance(x[0][0], str) else [x[0], 1.0]


OF_ROWS: dict[str, Callable[[Any], object]] = {
    "mutual_information": lambda x: information.mutual_information(x, Z),
    "mutual_information_b": lambda x: information.mutual_information(Z, x),
    "corrected_information": lambda x: information.corrected_information(x, Z),
    "neighbour_information": lambda x: information.neighbour_information(x, Z),
    "paired_rows": lambda x: information.paired_rows(x, x),
    "quantize": lambda x: information.quantize(x, 4),
    "number_cells": information.number_cells,
    "entropy": information.entropy,
    "separability": lambda x: separability.separability(x, Z),
    "corrected_separability": lambda x: separability.corrected_separability(Z, x),
    "neighbour_separability": lambda x: separability.neighbour_separability(x, Z),
    "smallest_sector": locations.smallest_sector,
    "mean_distance": lambda x: locations.mean_distance(Z, x),
    "mean_distance_starts": lambda x: locations.mean_distance(x, Z),
    "location_spread": locations.location_spread,
    "state_coverage": lambda x: coverage.state_coverage(_deeper(x)),
    "unit_coverage": lambda x: coverage.unit_coverage(_deeper(x)),
    "goal_shares": lambda x: locations.goal_shares(_deeper(x), Z, 1.0),
    "goal_shares_goals": lambda x: locations.goal_shares(Z[:, None], x, 1.0),
    "accuracy": lambda x: locations.nearest_centroid_accuracy(_deeper(x)),
    "return_diversity": lambda x: spread.return_diversity(_column(x)),
    "bootstrap_interval": lambda x: spread.bootstrap_interval(_column(x)),
    "counted_entropy": lambda x: information.counted_entropy(_column(x)),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", OF_ROWS)
def test_metrics_refuse_arrays_that_hold_no_samples(name: str, kind: str) -> None:
    values, match = BAD[kind]
    with pytest.raises(IbolError, match=match):
        OF_ROWS[name](values)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda: information.mutual_information(Z, Z, bins=1), "bins is 1, but a whole number of at least 2"),
        (lambda: information.mutual_information(Z, Z, bins=10**8), "bins is 100000000, but at most 10000"),
        (lambda: information.mutual_information(Z, Z, bins=2.5), "bins is 2.5"),
        (lambda: information.mutual_information(Z, Z, limits=(np.zeros((2, 3)), None)), "limits have shape"),
        (lambda: information.mutual_information(Z, Z, limits=(np.full((2, 2), NAN), None)), "limits have values"),
        (lambda: information.corrected_information(Z, Z, shuffles=0), "shuffles is 0"),
        (lambda: information.corrected_information(Z, Z, seed=-1), "seed is -1"),
        (lambda: information.neighbour_information(Z, Z, neighbours=0), "0 neighbours were asked for"),
        (lambda: information.neighbour_information(Z, Z, neighbours=1.5), "neighbours is 1.5"),
        (lambda: information.pooled_limits([]), "limits need samples"),
        (lambda: information.pooled_limits([Z, Z[:, :1]]), "limits need samples, all of the same dimensions"),
        (lambda: information.pooled_limits([Z * NAN]), "not finite"),
        (lambda: separability.separability(Z, Z, k=0), "from 1 to 2"),
        (lambda: separability.separability(Z, Z, k=1.5), "k is 1.5"),
        (lambda: separability.corrected_separability(Z, Z, shuffles=0), "shuffles is 0"),
        (lambda: locations.smallest_sector(Z, sectors=0), "sectors is 0"),
        (lambda: locations.smallest_sector(Z[:, :1]), "shape"),
        (lambda: locations.nearest_centroid_accuracy(Z[:, None]), "at least 2 are needed"),
        (lambda: locations.mean_distance(Z, Z[:5]), "shape"),
        (lambda: coverage.state_coverage(Z[None], limits=np.zeros((3, 2))), "limits have shape"),
        (lambda: spread.bootstrap_interval([1.0], level=2.0), "level is 2"),
        (lambda: spread.bootstrap_interval([1.0], resamples=0), "resamples is 0"),
        (lambda: spread.bootstrap_interval([1.0], resamples=HUGE), "would take"),
    ],
)
def test_metrics_refuse_options_that_make_no_sense(wrong: Callable[[], object], match: str) -> None:
    refused(wrong, match)


def test_evaluation_refuses_what_makes_no_sense(point_skills: Path, tmp_path: Path) -> None:
    run = load_run(point_skills)
    for wrong, match in (
        (lambda: evaluate_runs([]), "at least one run"),
        (lambda: evaluate_runs(point_skills), "a list of runs is needed"),
        (lambda: evaluate_runs([3]), "3 is not a run"),
        (lambda: evaluate_runs([run], trajectories=7), "trajectories is 7, but a whole number of at least 8"),
        (lambda: evaluate_runs([run], trajectories=8.5), "trajectories is 8.5"),
        (lambda: evaluate_runs([run], trajectories=8, bins=()), "bins are "),
        (lambda: evaluate_runs([run], trajectories=8, bins=(1,)), "bins is 1, but"),
        (lambda: evaluate_runs([run], trajectories=8, bins=32), "bins are 32, but a list"),
        (lambda: evaluate_runs([run], trajectories=8, k=0), "k is 0"),
        (lambda: evaluate_runs([run], trajectories=8, seed=-1), "seed is -1"),
        (lambda: evaluate_skills([run], trajectories="8"), "trajectories is '8'"),
        (lambda: evaluate_downstream([], episodes=0), "episodes is 0"),
        (lambda: load_runs("runs/a"), "a list of runs is needed"),
        (lambda: skill_rollouts(run, trajectories=0), "trajectories is 0"),
        (lambda: skill_rollouts(run, seed=0.5, trajectories=8), "seed is 0.5"),
        (lambda: skill_rollouts(run, policy="best", trajectories=8), "unknown policy 'best'"),
        (lambda: skill_rollouts(run, which="nine", trajectories=8), "unknown set of latents 'nine'"),
        (lambda: skill_rollouts(run, state_dims=(2,), trajectories=8), "state_dims are"),
        (lambda: skill_rollouts(run, trajectories=10**10), "would take"),
        (lambda: episodes_of(run.agent, "a", ""), "latents '' are not valid"),
        (lambda: episodes_of(run.agent, "a", steps=0), "steps is 0"),
        (lambda: load_episodes(str(point_skills), steps=1.5), "steps is 1.5"),
        (lambda: make_imitation_set([point_skills], tmp_path / "a", trajectories=0), "trajectories is 0"),
        (lambda: compute_normalizer("point", trajectories=0), "trajectories is 0"),
        (lambda: compute_normalizer("point", trajectories=2, steps=0.5), "steps is 0.5"),
        (lambda: write_report([point_skills], tmp_path / "a.html", trajectories=0), "trajectories is 0"),
        (lambda: plot_runs([str(point_skills)], tmp_path / "a.png", options=PlotOptions(bins=())), "bins is empty"),
        (lambda: plot_runs([str(point_skills)], tmp_path / "a.png", options=PlotOptions(trajectories=1.5)), "is 1.5"),
    ):
        refused(wrong, match)
    assert list(tmp_path.iterdir()) == []


def test_errors_survive_the_way_between_processes() -> None:
    with pytest.raises(IbolError) as error:
        bounds.check(Outer(whole=1.5))
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
