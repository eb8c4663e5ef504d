"""`ibol evaluate` on skills, as a user calls it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from conftest import call, copy_run
from ibol import load_agent
from ibol.cli import main
from ibol.evaluation.downstream import last_return
from ibol.evaluation.rollouts import skill_rollouts
from ibol.metrics.catalogue import CATALOGUE
from ibol.metrics.information import pooled_limits
from ibol.metrics.separability import separability
from ibol.seeding import derive

COUNT = 40


@pytest.fixture(scope="module")
def runs(point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one setting: the second stands one epoch further."""
    folder = tmp_path_factory.mktemp("evaluation")
    found = [copy_run(point_skills, folder / str(seed), seed=seed) for seed in (0, 1)]
    main(["resume", str(found[1]), "--epochs", "3", "--quiet"])
    return [found[0], copy_run(found[1], folder / "2", epochs=2)]


def parts(shown: str) -> int:
    """In how many pieces a table is printed: a wide one continues below."""
    return len(re.findall("^run  ", shown, re.M))


def evaluate(runs: list[Path], file: Path, *options: str) -> list[dict[str, object]]:
    names = [str(run) for run in runs]
    main(["evaluate", *names, "--trajectories", str(COUNT), "--json", str(file), "--quiet", *options])
    return json.loads(file.read_text())


def test_ranges_are_pooled_and_runs_averaged(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = evaluate(runs, tmp_path / "scores.json", "--bins", "4", "8")
    keys = [(row["run"], row["policy"], row["bins"]) for row in rows]
    policies = ("skills", "untrained", "random")
    expected = [(str(run), policy, bins) for run in runs for policy in policies for bins in (4, 8)]
    assert keys == [*expected, ("mean of 2 runs", "skills", 4), ("mean of 2 runs", "skills", 8)]
    found = [skill_rollouts(run, trajectories=COUNT) for run in runs]
    limits = pooled_limits([f.latents for f in found]), pooled_limits([f.ends for f in found])
    exact = separability(found[1].latents, found[1].ends, bins=8, limits=limits)
    row = rows[keys.index((str(runs[1]), "skills", 8))]
    assert (row["information"], row["sepin@1"], row["wsepin"]) == (exact.information, exact.sepin, exact.wsepin)
    assert row["return_range"] == pytest.approx(float(np.ptp(found[1].returns)))
    values = [rows[keys.index((str(run), "skills", 8))]["accuracy"] for run in runs]
    mean = rows[-1]
    assert mean["accuracy"] == pytest.approx(np.mean(values))
    assert mean["intervals"]["accuracy"] == pytest.approx([min(values), max(values)])
    shown = capsys.readouterr().out
    assert "mean of 2 runs" in shown
    assert shown.count("initial policy") == 2 * 2 * parts(shown), "of each run, for each number of bins"
    assert shown.count("random") == 2 * 2 * parts(shown)


def test_references_are_shown_for_each_run(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the numbers are equal, as they are for two names of one run."""
    twin = copy_run(runs[0], tmp_path / "twin")
    evaluate([runs[0], twin], tmp_path / "scores.json")
    shown = capsys.readouterr().out
    assert shown.count("initial policy") == shown.count("random") == 2 * parts(shown)


def test_a_run_is_loaded_once(runs: list[Path], tmp_path: Path, loads: list[Path]) -> None:
    evaluate(runs, tmp_path / "scores.json", "--bins", "4", "8")
    assert sorted(loads) == sorted(runs)


def test_every_number_has_its_entry_in_the_catalogue(runs: list[Path], point_controller: Path, tmp_path: Path) -> None:
    common = ["--preset", "smoke", "--epochs", "1", "--quiet", "--run-dir"]
    main(["sac", "point", *common, str(tmp_path / "sac")])
    main(["linearize", "point", *common, str(tmp_path / "linearizer")])
    others = [tmp_path / "sac", tmp_path / "linearizer", point_controller]
    for row in evaluate([*runs, *others], tmp_path / "scores.json", "--sepin-k", "2"):
        numbers = [name for name in row if name not in ("run", "env", "method", "policy", "intervals")]
        assert [name for name in numbers if name.replace("@2", "@k") not in CATALOGUE] == []


@pytest.fixture(scope="module")
def point_controller(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("downstream") / "run"
    call("downstream", "point_goal", "--skills", runs[0], "--preset", "smoke", "--run-dir", run, "--quiet")
    return run


def test_episodes_and_seed_count_for_controllers(point_controller: Path, tmp_path: Path) -> None:
    def row(*options: str) -> dict[str, object]:
        (found,) = evaluate([point_controller], tmp_path / "scores.json", "--overwrite", *options)
        return found

    agent = load_agent(point_controller)
    few, other, many = row("--episodes", "5"), row("--episodes", "5", "--seed", "1"), row("--episodes", "9")
    returns = agent.rollout(9, seed=derive(0, "evaluation")).returns
    assert (few["episodes"], many["episodes"]) == (5, 9)
    assert few["return_mean"] == pytest.approx(returns[:5].mean(), rel=1e-5)
    assert many["return_mean"] == pytest.approx(returns.mean(), rel=1e-5)
    assert few["goal_distance_mean"] == pytest.approx(-returns[:5].mean(), rel=1e-5)
    assert (few["episodes_from"], other["episodes_from"]) == ("seed 0", "seed 1")
    assert abs(float(str(other["return_mean"])) - float(str(few["return_mean"]))) > 1e-4
    assert few["final_return"] == other["final_return"], "from the log"


def test_a_planner_plays_its_own_episodes(runs: list[Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    search = ("--controller", "planner", "--candidates", 4, "--elites", 2, "--iterations", 1)
    kept = ("--evaluation-episodes", 6, "--preset", "smoke", "--run-dir", run, "--quiet")
    call("downstream", "point_goal", "--skills", runs[0], *search, *kept)
    first, second = (
        evaluate([run], tmp_path / f"{seed}.json", "--episodes", "64", "--seed", str(seed))[0] for seed in (0, 1)
    )
    assert (first["episodes"], first["episodes_from"]) == (6, "its plans")
    assert first["return_mean"] == second["return_mean"] == pytest.approx(first["final_return"], rel=1e-4)


def test_the_last_return_is_of_the_last_tenth() -> None:
    assert last_return([1.0, 2.0, 4.0]) == 4.0
    assert last_return(list(range(40))) == np.mean([36, 37, 38, 39])
    assert last_return(list(range(5000))) == np.mean(range(4900, 5000)), "the paper's 100 epochs"


def test_the_docs_explain_every_number_of_skills() -> None:
    text = (Path(__file__).parents[1] / "docs" / "guides" / "evaluation.md").read_text()
    for metric in CATALOGUE.values():
        if metric.kind in ("information", "behaviour"):
            assert f"| {metric.header} | {metric.unit} | {metric.explanation} |" in text


def test_options(runs: list[Path], tmp_path: Path) -> None:
    rows = evaluate(runs[:1], tmp_path / "scores.json", "--no-references", "--sepin-k", "2")
    assert len(rows) == 1
    assert rows[0]["sepin@2"] <= rows[0]["information"]
    assert rows == evaluate(runs[:1], tmp_path / "again.json", "--no-references", "--sepin-k", "2")


def test_nothing_is_lost_and_nothing_wrong_is_measured(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.json"
    file.write_text("precious")
    for options, said in (
        (["--json", str(file)], "exists: choose another --json"),
        (["--json", str(tmp_path)], "is a directory"),
        (["--json", str(tmp_path / "a" / "b.json")], "no directory"),
        (["--trajectories", "5"], "at least 8"),
        (["--trajectories", "16", "--sepin-k", "3"], "from 1 to 2"),
        (["--trajectories", "16", "--bins", "0"], "at least 2"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", str(runs[0]), "--no-references", "--quiet", *options])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert evaluate(runs[:1], file, "--overwrite", "--no-references")[0]["policy"] == "skills"
