"""From runs to the page: numbers and figures of entries, made once, and what a browser makes of the page."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import call, copy_run, fails
from ibol.experiments.cells import Cell
from ibol.experiments.conduct import Order, Report, conclude
from ibol.experiments.costs import KNOWN, Costs, chains, name_of, wall_seconds
from ibol.experiments.model import Experiment, paper_experiment, parse
from ibol.experiments.results import label, means
from ibol.experiments.schedule import Board
from ibol.experiments.states import state_of
from ibol.experiments.status import commands, status_of

TEXT = """
title = "Weights <b>of</b> the bottleneck"
differs = "Nothing <i>learns</i>."
differs_smoke = "It is small."
differs_fast = "It is fast."

[weights]
title = "Boxes & paths."
paper = "Figure 0"
differs = "Everything is small."
figures = ["boxes", "trajectories"]
claims = ["C7"]
seeds_shown = 1
shared = { method = "ibol", env = "point", epochs = 2, seed = [0, 1] }
runs = [{ beta = [2.25e-3, 0.0] }]

[grid]
figures = ["grid-eight", "grid"]
shared = { method = "ibol", env = "point", epochs = 2 }
cells = [[{ beta = 2.25e-3 }, { beta = 0.0 }], [{ beta = 2.25e-3, seed = 1 }]]

[turning]
figures = ["orientation"]
runs = [{ method = "ibol", env = "point", epochs = 2, beta = 0.0 }]
"""


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return parse(TEXT, "own.toml", "smoke", 2)


@pytest.fixture(scope="module")
def place(experiment: Experiment, point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs but one, as if they had been trained."""
    directory = tmp_path_factory.mktemp("experiment")
    for cell in experiment.needed[:-1]:
        pretend(cell, point_skills, directory)
    return directory


def pretend(cell: Cell, run: Path, directory: Path) -> None:
    copy_run(run, directory / cell.place, seed=cell.seed, **cell.overrides)


def concluded(experiment: Experiment, directory: Path) -> tuple[Report, list[str]]:
    board = Board({cell.name: cell for cell in experiment.needed})
    board.done = {cell.name for cell in experiment.needed if state_of(cell, directory).kind == "done"}
    board.failed = {name: "its <last> message" for name in board.cells if name not in board.done}
    said: list[str] = []
    return conclude(experiment, board, Order(directory), said.append), said


@pytest.fixture(scope="module")
def report(experiment: Experiment, place: Path) -> Report:
    return concluded(experiment, place)[0]


def test_runs_that_figures_share_are_one(experiment: Experiment, report: Report) -> None:
    assert len(experiment.needed) == 4
    assert len(report.board.done) == 3
    assert [len(result.cells) for result in report.results] == [3, 3, 1]


def test_every_run_has_its_numbers_and_what_is_missing_is_said(report: Report) -> None:
    weights, grid, turning = report.results
    assert len([row for row in weights.rows if "cell" in row]) == 3
    assert {row["cell"] for row in weights.rows if "cell" in row} == {cell.name for cell in weights.cells}
    shown = means(weights.rows)
    assert [row["run"].startswith("mean of") for row in shown] == [True, False], (
        "two runs of one setting, one of another"
    )
    assert [file.name for file in weights.figures] == ["boxes.png", "trajectories.png"]
    assert [file.name for file in grid.figures] == ["grid-eight.png", "grid.png"]
    assert all(file.stat().st_size > 10_000 and file.with_suffix(".pdf").is_file() for file in weights.figures)
    assert turning.figures == ()
    assert "only free robots turn" in turning.notes[0]


def test_the_claims_are_judged_and_kept(report: Report, place: Path) -> None:
    (claim,) = json.loads((place / "claims.json").read_text())
    assert (claim["claim"], claim["verdict"], claim["runs"], claim["preset"]) == ("C7", "undecided", 3, "smoke")
    assert set(claim["by_estimator"]) == {"published", "minus chance", "from neighbours"}
    assert report.verdicts[0].row() == claim


def test_the_costs_are_those_of_the_runs(experiment: Experiment, report: Report, place: Path) -> None:
    (cost,) = json.loads((place / "costs.json").read_text())
    assert (cost["method"], cost["env"], cost["runs"]) == ("ibol", "point", 3)
    rows = (place / experiment.needed[0].place / "metrics.jsonl").read_text().splitlines()
    seconds = sum(json.loads(row)["time/epoch_seconds"] for row in rows)
    assert cost["minutes"] == pytest.approx(seconds / 60, abs=1e-3)
    assert Costs(experiment.needed, place).seconds(experiment.needed[0], done=1) == pytest.approx(seconds / 2)


def test_first_estimates_are_those_of_the_benchmark() -> None:
    file = Path(__file__).parents[1] / "benchmarks" / "results" / "costs.json"
    measured = json.loads(file.read_text())["results"]
    assert {name: round(row["minutes"], 1) for name, row in measured.items()} == KNOWN
    cells = {name_of(cell): cell for cell in paper_experiment("fast").needed}
    assert set(KNOWN) <= set(cells), "kinds of runs that the paper has"
    some = next(name for name in KNOWN if name in cells)
    assert Costs([], Path("nowhere")).seconds(cells[some]) == pytest.approx(60 * KNOWN[some])


def test_the_page_holds_all_and_asks_for_nothing(experiment: Experiment, report: Report) -> None:
    text = report.page.read_text()
    assert "Weights &lt;b&gt;of&lt;/b&gt; the bottleneck" in text
    assert "its &lt;last&gt; message" in text
    assert '<p class="note">Nothing &lt;i&gt;learns&lt;/i&gt;. It is small.</p>' in text
    assert text.count("data:image/png;base64,") == 4
    assert "http" not in re.sub(r"http-equiv", "", re.sub(r"base64,[^\"]+", "", text))
    assert "<script" not in text
    assert (
        "Figure 0. Boxes &amp; paths. 3 of 4 runs, preset smoke. Other than in the paper: Everything is small." in text
    )
    links = set(re.findall(r'href="([^"#]+)"', text)) - {"data:,"}
    assert {link for link in links if link.startswith("runs/")} == {f"runs/{name}/" for name in report.board.done}
    assert all((report.page.parent / link).exists() for link in links)


def test_results_are_made_again_only_when_a_run_was_added(
    experiment: Experiment, report: Report, place: Path, point_skills: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(place, copy)
    again, said = concluded(experiment, copy)
    assert said == []
    assert [result.rows for result in again.results] == [result.rows for result in report.results]
    scores = json.loads((copy / "grid" / "scores.json").read_text())
    scores["rows"][0]["coverage"] = ["no number"]
    (copy / "grid" / "scores.json").write_text(json.dumps(scores))
    assert [line.split(":")[0] for line in concluded(experiment, copy)[1]] == ["grid"]
    pretend(experiment.needed[-1], point_skills, copy)
    more, said = concluded(experiment, copy)
    assert [line.split(":")[0] for line in said] == ["weights"]
    assert len(more.results[0].cells) == 4


def test_a_run_that_is_not_what_its_name_says_is_refused(experiment: Experiment, place: Path, tmp_path: Path) -> None:
    cell = experiment.needed[0]
    copy_run(place / cell.place, tmp_path / cell.place, beta=0.7)
    state = state_of(cell, tmp_path)
    assert state.kind == "failed"
    assert "other settings than its name says" in state.said


def test_the_status_says_what_is_left(experiment: Experiment, report: Report, place: Path, tmp_path: Path) -> None:
    weights, grid, turning, whole = status_of(experiment, place, 2)
    assert (weights.needed, weights.counts, weights.state) == (4, {"done": 3, "missing": 1}, "begun")
    assert weights.seconds > 0
    assert (grid.state, grid.seconds) == ("complete", 0.0)
    assert (whole.name, whole.needed, whole.counts) == ("all", 4, {"done": 3, "missing": 1})
    assert whole.seconds == pytest.approx(weights.seconds + turning.seconds)
    assert {line.state for line in status_of(experiment, tmp_path, 2)} == {"not begun"}


def test_commands_make_the_very_runs(experiment: Experiment, place: Path, tmp_path: Path) -> None:
    comment, line = commands(experiment, place)
    missing = experiment.needed[-1]
    assert comment == "# step 1: 1 runs"
    assert line.startswith("ibol discover point --method ibol --preset smoke --seed 1 ")
    assert f"--run-dir {missing.place}" in line
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        call(*line.split()[1:])
    assert state_of(missing, tmp_path).kind == "done"


def test_commands_come_in_steps() -> None:
    tasks = """
[task]
runs = [{ method = "downstream", env = "point_goal", skills = { linearizer = { epochs = 2 }, seed = [0, 1] } }]
"""
    lines = commands(parse(tasks, "own.toml", "smoke", 2), Path("nowhere"))
    assert [line for line in lines if line.startswith("#")] == [
        "# step 1: 1 runs", "# step 2: 2 runs, after step 1 is done", "# step 3: 2 runs, after step 2 is done",
    ]  # fmt: skip
    assert [line.split()[1] for line in lines if line.startswith("ibol")] == [
        "linearize", "discover", "discover", "downstream", "downstream",
    ]  # fmt: skip


def test_status_and_commands_start_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.toml").write_text(TEXT)
    for flag in ("--status", "--commands"):
        call("experiment", tmp_path / "own.toml", "--preset", "smoke", "--dir", tmp_path / "results", flag)
        assert "ibol discover point" in capsys.readouterr().out or flag == "--status"
    call("paper", "--preset", "smoke", "--dir", tmp_path / "results")
    said = capsys.readouterr().out
    assert "linearizer-rewards" in said
    assert "needs method edl, which this version does not have" in said or "edl" not in said
    assert not (tmp_path / "results").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert "is not an experiment's" in fails(capsys, "paper", "all", "--preset", "smoke", "--dir", tmp_path / "other")


def test_a_chain_counts_as_a_whole(experiment: Experiment) -> None:
    tasks = '[t]\nruns = [{ method = "downstream", env = "point_goal", skills = { seed = 0 } }]'
    skills, controller = parse(tasks, "own.toml", "smoke").needed
    found = chains([skills, controller], {skills.identity: 5.0, controller.identity: 3.0})
    assert found == {skills.identity: 8.0, controller.identity: 3.0}
    assert wall_seconds([5.0, 3.0], 8.0, 2) == 8.0
    assert wall_seconds([5.0] * 8, 5.0, 2) == 20.0
    assert label(experiment.needed[0]) == "IBOL\nepochs=2, beta=0.00225"


def test_a_browser_shows_the_page(browser: Any, report: Report) -> None:
    from selenium.webdriver.common.by import By

    browser.set_window_size(1200, 1600)
    browser.get(report.page.as_uri())
    assert browser.get_log("browser") == []
    pictures = browser.find_elements(By.CSS_SELECTOR, "figure img")
    assert len(pictures) == 4
    for picture in pictures:
        assert browser.execute_script("return arguments[0].naturalWidth", picture) > 300
        assert min(picture.rect["width"], picture.rect["height"]) > 100
    assert browser.find_element(By.CSS_SELECTOR, "#claim-C7 .verdict").text == "undecided"
    browser.find_element(By.LINK_TEXT, "Runs").click()
    assert browser.current_url.endswith("#runs")
    names = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#runs tbody th")]
    assert names == list(report.board.cells)
    browser.set_window_size(400, 800)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.slow
def test_an_entry_of_the_paper_from_nothing_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "paper"
    command = ("paper", "distortion", "--preset", "smoke", "--dir", place, "--quiet")
    call(*command)
    said = capsys.readouterr().out
    assert "C9 undecided" in said
    assert f"done: {place / 'index.html'} shows 4 of 4 runs" in said
    runs = sorted((place / "runs").iterdir())
    assert [run.name.split("-")[0] for run in runs] == ["dads", "diayn", "ibol", "valor"]
    kept = {run: (run / "evaluation" / "skills-random-seed0.safetensors").stat().st_mtime_ns for run in runs}
    scores = json.loads((place / "distortion" / "scores.json").read_text())
    assert {row["run"] for row in scores["rows"]} == {f"runs/{run.name}" for run in runs}
    assert all(row["vertical_reach"] > 0 and row["coverage"] >= 1 for row in scores["rows"])
    assert (scores["figures"], scores["notes"]) == (["trajectories.png"], [])
    (claim,) = json.loads((place / "claims.json").read_text())
    compared = [one["runs"] for parts in claim["by_estimator"].values() for one in parts["comparisons"]]
    assert compared == [[1, 1]] * (3 * 3 * 2), "by three estimators, with three rivals, in two numbers"
    assert (place / "index.html").read_text().count("data:image/png;base64,") == 1

    logs = {run: (run / "metrics.jsonl").read_bytes() for run in runs}
    call(*command)
    assert capsys.readouterr().out == said
    assert {run: (run / "metrics.jsonl").read_bytes() for run in runs} == logs, "nothing is trained twice"
    assert {run: (run / "evaluation" / "skills-random-seed0.safetensors").stat().st_mtime_ns for run in runs} == kept
