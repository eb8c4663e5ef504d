"""Skills in an environment without a location: measured and drawn along principal directions, and refused in time."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from conftest import call, copy_run, fails, made_once
from ibol.evaluation.loading import load_run
from ibol.evaluation.rollouts import skill_rollouts
from ibol.metrics.catalogue import CATALOGUE
from ibol.metrics.directions import AXES, principal_directions
from ibol.metrics.information import neighbour_information

PENDULUM = ("Pendulum-v1", "--horizon", "12", "--preset", "smoke", "--quiet")
STATE = {"state_information", "state_corrected", "state_accuracy", "state_spread", "state_explained"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skills of a pendulum after one epoch."""
    train = ["discover", *PENDULUM, "--linearizer", "none", "--epochs", "1", "--evaluate-every", "1", "--run-dir"]
    return made_once(tmp_path_factory, "shared_pendulum", lambda place: call(*train, place))


def test_training_logs_and_draws_it(run: Path) -> None:
    (row,) = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {"evaluation/state_information", "evaluation/state_spread"} <= set(row)
    assert not {"evaluation/information", "evaluation/spread"} & set(row)
    assert (run / "pictures" / "epoch-000001.png").stat().st_size > 10_000


def test_all_runs_are_measured_along_the_same_directions(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy_run(run, tmp_path / "other", seed=1)
    call("evaluate", run, other, "--trajectories", 60, "--json", tmp_path / "scores.json", "--quiet")
    rows = json.loads((tmp_path / "scores.json").read_text())
    assert [row["policy"] for row in rows] == [*("skills", "untrained", "random") * 2, "skills"]
    names = set(rows[0]) - {"run", "env", "method", "policy"}
    assert names == STATE | {"return_std", "return_range"}, "none of the names of locations"
    assert names <= set(CATALOGUE)
    assert "intervals" in rows[-1]
    found = [skill_rollouts(one, trajectories=60) for one in (run, other)]
    assert found[0].locations.shape == (60, 13, 3), "whole states"
    along = principal_directions(np.concatenate([one.ends for one in found]))
    exact = neighbour_information(found[0].latents, along(found[0].ends))
    assert rows[0]["state_information"] == pytest.approx(exact)
    assert "I(Z; final state)" in capsys.readouterr().out


def test_it_is_drawn_filmed_and_reported(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ibol.evaluation.plots import skills as plots

    panel = plots.eight_skills(load_run(run))
    assert (panel.axes, panel.paths.shape) == (AXES, (48, 13, 2))
    monkeypatch.chdir(tmp_path)
    call("plot", run, "--trajectories", 40, "--output", "a.png", "--quiet")
    call("plot", run, "--trajectories", 40, "--figure", "returns", "--output", "b.png", "--quiet")
    call("video", run, "--output", "c.png", "--steps", 3, "--size", 64, "--quiet")
    call("report", run, "--trajectories", 40, "--no-films", "--output", "d.html", "--quiet")
    assert re.search(r'"axes":\["principal direction 1 \(std\)"', Path("d.html").read_text())
    assert min(Path(name).stat().st_size for name in ("a.png", "b.png", "c.png")) > 1000


def test_what_needs_a_location_says_so_at_once(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    discover = ("discover", *PENDULUM, "--linearizer", "none", "--run-dir", "new")
    for variant in (("--variant", "xy"), ("--encoder-sees", "location")):
        assert "has no location: " in fails(capsys, *discover, *variant)
    assert not Path("new").exists()
    for figure in ("boxes", "bins"):
        said = fails(capsys, "plot", run, "--figure", figure, "--output", "a.png")
        assert "have no location, but these measures are of the final location" in said
    text = '[a]\nruns = [{ env = "Pendulum-v1", method = "ibol", linearizer = "none", encoder_sees = "location" }]'
    Path("own.toml").write_text(text)
    assert "has no location: " in fails(capsys, "experiment", "own.toml")
    assert list(tmp_path.iterdir()) == [tmp_path / "own.toml"]


def test_runs_with_and_without_a_location_are_not_compared(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    located = copy_run(run, tmp_path / "located")
    config = json.loads((located / "config.json").read_text())
    config["skills"]["location_dims"] = config["skills"]["env_settings"]["location_dims"] = [0, 1]
    (located / "config.json").write_text(json.dumps(config))
    assert "measure them apart" in fails(capsys, "evaluate", run, located, "--trajectories", 16)


def test_other_methods_are_measured_by_the_same_numbers(tmp_path: Path) -> None:
    train = ["discover", *PENDULUM, "--method", "diayn", "--linearizer", "none", "--epochs", "1"]
    call(*train, "--evaluate-every", "0", "--run-dir", tmp_path / "run")
    scores = tmp_path / "scores.json"
    call("evaluate", tmp_path / "run", "--trajectories", 16, "--no-references", "--json", scores, "--quiet")
    (row,) = json.loads(scores.read_text())
    assert set(row) >= STATE
