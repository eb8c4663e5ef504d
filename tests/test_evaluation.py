"""`ibol evaluate` on skills, as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest

from conftest import copy_run
from ibol.cli import main
from ibol.evaluation.rollouts import skill_rollouts
from ibol.metrics.information import pooled_limits
from ibol.metrics.separability import separability

COUNT = 40


@pytest.fixture(scope="module")
def runs(point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs of one setting: the second stands one epoch further."""
    folder = tmp_path_factory.mktemp("evaluation")
    found = [copy_run(point_skills, folder / str(seed), seed=seed) for seed in (0, 1)]
    main(["resume", str(found[1]), "--epochs", "3", "--quiet"])
    return [found[0], copy_run(found[1], folder / "2", epochs=2)]


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
    assert shown.count("untrained") == 2 + 1, "information for each number of bins, behaviour once"


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
        (["--trajectories", "16", "--sepin-k", "3"], "choose 1 to 2"),
        (["--trajectories", "16", "--bins", "0"], "at least 1"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(["evaluate", str(runs[0]), "--no-references", "--quiet", *options])
        assert stop.value.code == 2
        assert said in capsys.readouterr().err
    assert file.read_text() == "precious"
    assert evaluate(runs[:1], file, "--overwrite", "--no-references")[0]["policy"] == "skills"
