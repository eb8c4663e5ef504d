"""Grids of runs: what they are made of, and one from the command line to its figure."""

import json
from pathlib import Path

import pytest

from conftest import fails
from ibol.cli import main
from ibol.errors import IbolError
from ibol.sweeps import Sweep, _config, find_sweep, label, sweeps, title

OWN = """
[mine]
summary = "two weights"
env = "point"
method = "ibol"
rows = [{ beta = 0.1 }]
columns = [{ lambda_ = 1.0 }, { use_u = false }]
"""


def test_the_papers_grid_on_the_point() -> None:
    sweep = sweeps()["point-ibol"]
    assert len(sweep.cells()) == 12
    assert {"lambda_": 0.45, "beta": 2.25e-3} in sweep.cells()
    assert [cell for cell in sweep.cells() if "use_u" in cell] == [
        {"use_u": False, "beta": beta} for beta in (0.225, 2.25e-3, 0.0)
    ]
    assert len({label(cell) for cell in sweep.cells()}) == 12


def test_the_papers_grid_of_baselines() -> None:
    sweep = sweeps()["point-baselines"]
    assert [len(row) for row in sweep.rows] == [3, 4, 4]
    assert [sweep.method_of(row[0]) for row in sweep.rows] == ["valor", "diayn", "dads"]
    assert len({label(cell) for cell in sweep.cells()}) == 11
    for cell in sweep.cells():
        config = _config(sweep, "paper", cell, 7)
        weight = config.alpha if cell["method"] == "valor" else config.temperature
        assert weight in (cell.get("alpha"), cell.get("temperature")) or config.learn_temperature
    assert title(sweep.rows[0][1]) == "VALOR\nalpha=0.1"


def test_a_grid_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    sweep = find_sweep(str(file))
    assert isinstance(sweep, Sweep)
    assert [label(cell) for cell in sweep.cells()] == ["beta=0.1,lambda=1.0", "beta=0.1,use_u=False"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "has 0 sweeps"),
        ("[a]\nsummary = 1", "no description"),
        ("not toml", "no description"),
        ('[a]\nsummary = ""\nenv = "point"\ncells = [["b"]]', "tables of settings"),
        ('[a]\nsummary = ""\nenv = "point"\ncells = [[{ d = 1 }], [{ d = 1 }]]', "a cell twice"),
        (OWN + OWN.replace("mine", "other"), "has 2 sweeps"),
    ],
)
def test_what_is_no_grid_is_refused(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(IbolError, match=match):
        find_sweep(str(file))


def test_unknown_names_are_told_what_there_is() -> None:
    with pytest.raises(IbolError, match="point-ibol"):
        find_sweep("nothing")
    with pytest.raises(IbolError, match="cannot read"):
        find_sweep("nowhere.toml")


def test_a_wrong_setting_is_found_before_anything_is_trained(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(OWN.replace("beta", "bta"))
    with pytest.raises(SystemExit):
        main(["sweep", str(file), "--preset", "smoke", "--sweep-dir", str(tmp_path / "sweep")])
    assert not (tmp_path / "sweep").exists()


def test_lists_in_a_file_become_tuples_and_numbers_are_checked() -> None:
    sweep = Sweep("own", "", "point", (({"hidden": [8, 8]},), ({"hidden": [8, 0]},)), "valor")
    right, wrong = sweep.cells()
    assert _config(sweep, "smoke", right, None).hidden == (8, 8)
    with pytest.raises(IbolError, match="hidden is 0, but at least 1 is needed"):
        _config(sweep, "smoke", wrong, None)


def test_a_sweep_from_the_command_line_to_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, made = tmp_path / "mine.toml", tmp_path / "sweep"
    file.write_text(OWN.replace(", { use_u = false }", ""))
    command = ["sweep", str(file), "--preset", "smoke", "--epochs", "1", "--jobs", "1", "--sweep-dir", str(made)]
    main(command)
    assert "1/1 beta=0.1,lambda=1.0" in capsys.readouterr().out
    assert (made / "figure.png").stat().st_size > 10_000
    assert (made / "figure.pdf").exists()
    rows = json.loads((made / "scores.json").read_text())
    assert len(rows) == 3, "the run, its untrained policy, a random one"
    config = json.loads((made / "beta=0.1,lambda=1.0" / "config.json").read_text())
    assert config["settings"]["beta"] == 0.1
    metrics = (made / "beta=0.1,lambda=1.0" / "metrics.jsonl").read_text()
    main(command)
    assert (made / "beta=0.1,lambda=1.0" / "metrics.jsonl").read_text() == metrics, "finished runs stay"
    assert "with epochs 1 and not 2" in fails(capsys, *command, "--epochs", 2)
