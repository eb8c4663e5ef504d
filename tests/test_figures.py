"""Each figure from tiny runs, as a user asks for it; and what the pictures are made of."""

from pathlib import Path

import numpy as np
import pytest

from conftest import copy_run
from ibol.cli import main
from ibol.evaluation.groups import group_runs
from ibol.evaluation.plots import measures, training
from ibol.evaluation.plots import skills as skill_plots
from ibol.evaluation.plots.common import PlotOptions
from ibol.figures.common import method_colours
from ibol.figures.orientation import torso_axis

FEW = ["--trajectories", "16", "--quiet"]


@pytest.fixture(scope="module")
def runs(point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skills of two methods, one of them with two seeds, and two linearizers."""
    folder = tmp_path_factory.mktemp("figures")
    for seed in (0, 1):
        copy_run(point_skills, folder / f"ibol-{seed}", seed=seed)
    common = ["--preset", "smoke", "--epochs", "2", "--quiet", "--run-dir"]
    main(["discover", "point", "--method", "diayn", *common, str(folder / "diayn-0")])
    main(["linearize", "point", *common, str(folder / "lin-10")])
    copy_run(folder / "lin-10", folder / "lin-1", macro_length=1)
    return folder


def draw(figure: str, runs: list[Path], output: Path, *options: str) -> bytes:
    main(["plot", *map(str, runs), "--figure", figure, "--output", str(output), *options])
    return output.read_bytes()


def skills(runs: Path) -> list[Path]:
    return [runs / "ibol-0", runs / "ibol-1", runs / "diayn-0"]


def refusal(capsys: pytest.CaptureFixture[str], figure: str, runs: list[Path], output: Path, *options: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        draw(figure, runs, output, *options)
    assert stop.value.code == 2
    assert not output.exists()
    said = capsys.readouterr().err
    assert said.count("\n") == 1, "one sentence"
    return said


def test_runs_are_grouped_by_setting(runs: Path) -> None:
    groups = group_runs(skills(runs))
    assert [(group.env, group.label, len(group.runs), group.seeds) for group in groups] == [
        ("point", "IBOL", 2, [0, 1]),
        ("point", "DIAYN", 1, [0]),
    ]
    labels = [group.label for group in group_runs([runs / "lin-1", runs / "lin-10"])]
    assert labels == ["linearizer macro_length=1", "linearizer macro_length=10"]


def test_trajectories_in_every_format(runs: Path, tmp_path: Path) -> None:
    assert draw("trajectories", skills(runs), tmp_path / "a.png", *FEW).startswith(b"\x89PNG")
    assert draw("trajectories", skills(runs), tmp_path / "a.pdf", *FEW).startswith(b"%PDF")
    content = draw("trajectories", skills(runs), tmp_path / "a.svg", *FEW)
    assert b"<svg" in content
    assert content.count(b"DIAYN on point") == 1
    assert content.count(b"16 random latents") == 3


def test_boxes_show_every_run(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(measures, "plot_boxes", lambda panels, output, title: shown.append((panels, title)))
    monkeypatch.setattr(measures, "plot_bins", lambda panels, output, title: shown.append((panels, title)))
    options = PlotOptions(trajectories=16, quiet=True)
    names = [str(run) for run in skills(runs)]
    measures.plot_measures_over_runs(names, tmp_path / "x.png", options)
    (panels, title) = shown[0]
    assert "3 runs, preset smoke, seeds 0, 1" in title
    assert "32 bins, 16 skills" in title
    assert [[panel.title for panel in row] for row in panels] == [
        [f"{measure} on point, {how}" for measure in ("I(Z; S)", "WSEPIN", "SEPIN@1")]
        for how in ("published", "minus chance", "from neighbours")
    ]
    assert {label: len(values) for label, values in panels[0][0].values.items()} == {"IBOL": 2, "DIAYN": 1}
    measures.plot_measures_over_bins(names, tmp_path / "x.png", options)
    ((sweep,), _) = shown[1]
    by_bins = sweep[0].values["IBOL", "published"]
    assert sorted(by_bins) == [8, 16, 32, 64, 128]
    assert by_bins[32] == panels[0][0].values["IBOL"], "the same numbers in both figures"


@pytest.mark.parametrize("figure", ["boxes", "bins", "returns", "curves"])
def test_figures_of_several_methods(runs: Path, tmp_path: Path, figure: str) -> None:
    content = draw(figure, skills(runs), tmp_path / "x.svg", *FEW)
    assert content.count(b"<!-- IBOL") >= 1
    assert content.count(b"<!-- DIAYN") >= 1
    assert draw(figure, skills(runs)[:1], tmp_path / "one.png", *FEW).startswith(b"\x89PNG"), "one run is enough"


def test_returns_are_those_of_the_skills(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(skill_plots, "plot_returns", lambda rows, output, title: shown.append(rows))
    options = PlotOptions(trajectories=16, quiet=True)
    skill_plots.plot_return_bars([str(run) for run in skills(runs)], tmp_path / "x.png", options)
    ((row,),) = shown
    assert [len(panel.returns) for panel in row] == [2, 1]
    assert all(len(returns) == 16 for panel in row for returns in panel.returns)


def test_curves_are_aligned_by_epoch(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr(training, "plot_curves", lambda curves, output, **words: shown.append((curves, words)))
    for against in ("env_steps", "minutes"):
        options = PlotOptions(metric="episode_length", against=against)
        training.plot_learning_curves([str(run) for run in skills(runs)], tmp_path / "x.png", options)
    (ibol, diayn), words = shown[0]
    assert words["ylabel"] == "episode_length", "a metric without an entry is called by its own name"
    assert ibol.y.tolist() == [[50.0, 50.0]] * 2
    assert np.all(np.diff(ibol.x, axis=1) > 0)
    assert np.all(np.diff(shown[1][0][0].x, axis=1) > 0)
    assert diayn.y.shape == (1, 2)


def test_axes_are_labelled_with_the_catalogues_units(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    monkeypatch.setattr(training, "plot_curves", lambda curves, output, **words: shown.append(words))
    options = PlotOptions(metric="evaluation/spread")
    training.plot_learning_curves([str(run) for run in skills(runs)[:1]], tmp_path / "x.png", options)
    assert shown[0]["ylabel"] == "spread of the ends (m)"
    assert shown[0]["xlabel"] == "environment steps"
    assert shown[0]["title"] == "point: 1 run, preset smoke, seed 0"


def test_linearizers_are_compared_by_reward_and_macro_length(runs: Path, tmp_path: Path) -> None:
    content = draw("linearizer-rewards", [runs / "lin-1", runs / "lin-10"], tmp_path / "lin.svg", *FEW)
    assert content.count(b"<!-- inner") >= 2
    assert content.count(b"l=10") >= 1
    longer = copy_run(runs / "lin-10", tmp_path / "longer", epochs=4)
    content = draw("linearizer-rewards", [runs / "lin-10", longer], tmp_path / "both.svg", *FEW)
    assert content.count(b"epochs=4") >= 1, "linearizers that differ otherwise are not one box"


def test_traces_of_linearizers(runs: Path, tmp_path: Path) -> None:
    content = draw("trajectories", [runs / "lin-1", runs / "lin-10"], tmp_path / "lin.svg", *FEW)
    assert content.count(b"point linearizer (") == 2
    assert content.count(b"<!-- mean ") == 2


@pytest.mark.slow
def test_orientation_of_a_free_robot(tmp_path: Path) -> None:
    run = tmp_path / "ant"
    sees = ["--encoder-sees", "no_location", "--policy-sees", "no_location", "--latent-dim", "1"]
    short = ["--epochs", "1", "--episodes-per-epoch", "2", "--evaluate-every", "0", "--quiet"]
    main(["discover", "ant", "--preset", "smoke", *sees, *short, "--run-dir", str(run)])
    content = draw("orientation", [run], tmp_path / "turns.svg", "--trajectories", "4", "--quiet")
    assert b"linearizer alone" in content
    assert b"IBOL (encoder and policy see no location)" in content


def test_the_torsos_axis_follows_from_the_quaternion() -> None:
    half = np.pi / 4
    upright, left = [1.0, 0, 0, 0], [np.cos(half), 0, 0, np.sin(half)]
    nose_up = [np.cos(half), 0, -np.sin(half), 0]
    found = torso_axis(np.array([upright, left, nose_up, [2.0, 0, 0, 0]]))
    assert np.allclose(found, [[1, 0], [0, 1], [0, 0], [1, 0]], atol=1e-12)
    quarter = np.pi / 2
    angles = np.array([[0, 0, 0], [0, 0, quarter], [0, -quarter, 0], [0.3, 0, 0], [quarter, quarter, 0]])
    assert np.allclose(torso_axis(angles), [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]], atol=1e-12)


def test_runs_that_do_not_fit_the_figure(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some, lin, out = runs / "ibol-0", runs / "lin-1", tmp_path / "no.png"
    for figure in ("boxes", "bins", "returns", "orientation"):
        assert "holds no skills" in refusal(capsys, figure, [some, lin], out, *FEW)
    assert "only free robots turn: ant, humanoid, dkitty" in refusal(capsys, "orientation", [some], out, *FEW)
    assert "no run of 'ibol linearize'" in refusal(capsys, "linearizer-rewards", [lin, some], out, *FEW)
    assert "unknown metric 'epsode_length': did you mean 'episode_length'" in refusal(
        capsys, "curves", [some], out, "--metric", "epsode_length"
    )
    assert "one number of bins" in refusal(capsys, "boxes", [some], out, "--bins", "8", "16", *FEW)
    assert "pictures of their own" in refusal(capsys, "trajectories", [some, lin], out, *FEW)
    assert "no directory" in refusal(capsys, "returns", [some], tmp_path / "nowhere" / "x.png", *FEW)
    with pytest.raises(SystemExit):
        draw("pie", [some], out)


def test_methods_keep_their_colours() -> None:
    first = method_colours(["IBOL", "DIAYN-L", "VALOR"])
    assert method_colours(["VALOR", "IBOL"])["IBOL"] == first["IBOL"]
    many = method_colours([f"IBOL beta={i}" for i in range(8)])
    assert len(set(many.values())) == 8
