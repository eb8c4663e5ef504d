"""Each figure from tiny runs, as a user asks for it; and what the pictures are made of."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from conftest import copy_run
from ibol.cli import main
from ibol.evaluation.groups import Group, group_runs
from ibol.evaluation.plots import measures, training
from ibol.evaluation.plots import skills as skill_plots
from ibol.evaluation.plots.common import PlotOptions, said_once
from ibol.figures import boxes, curves, keys
from ibol.figures import skills as drawing
from ibol.figures.common import PAGE, in_rows, method_colours, wide_enough
from ibol.figures.keys import latent_colours
from ibol.figures.orientation import torso_axis
from ibol.skills.latents import Gaussian, OneHot, Prior, Sphere

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
    monkeypatch.setattr(measures, "plot_boxes", lambda panels, output, title, note: shown.append((panels, title, note)))
    monkeypatch.setattr(measures, "plot_bins", lambda panels, output, title, note: shown.append((panels, title, note)))
    options = PlotOptions(trajectories=16, quiet=True)
    names = [str(run) for run in skills(runs)]
    measures.plot_measures_over_runs(names, tmp_path / "x.png", options)
    panels, title, note = shown[0]
    assert "minus chance: less its mean over 10 shuffles" in note
    assert "3 runs, preset smoke, seeds 0, 1" in title
    assert "32 bins, 16 skills" in title
    assert [[panel.title for panel in row] for row in panels] == [
        [f"{measure} on point, {how}" for measure in ("I(Z; S)", "WSEPIN", "SEPIN@1")]
        for how in ("published", "minus chance", "from neighbours")
    ]
    assert {label: len(values) for label, values in panels[0][0].values.items()} == {"IBOL": 2, "DIAYN": 1}
    measures.plot_measures_over_bins(names, tmp_path / "x.png", options)
    (sweep,), *_ = shown[1]
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
    assert b"encoder and policy see no location" in content


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
        assert "has no skills" in refusal(capsys, figure, [some, lin], out, *FEW)
    assert "only free robots turn: ant, humanoid, dkitty" in refusal(capsys, "orientation", [some], out, *FEW)
    assert "is not a run of 'ibol linearize'" in refusal(capsys, "linearizer-rewards", [lin, some], out, *FEW)
    assert "unknown metric 'epsode_length': did you mean 'episode_length'" in refusal(
        capsys, "curves", [some], out, "--metric", "epsode_length"
    )
    assert "one number of bins" in refusal(capsys, "boxes", [some], out, "--bins", "8", "16", *FEW)
    assert "in separate figures" in refusal(capsys, "trajectories", [some, lin], out, *FEW)
    assert "no directory" in refusal(capsys, "returns", [some], tmp_path / "nowhere" / "x.png", *FEW)
    with pytest.raises(SystemExit):
        draw("pie", [some], out)


def test_methods_keep_their_colours() -> None:
    first = method_colours(["IBOL", "DIAYN-L", "VALOR"])
    assert method_colours(["VALOR", "IBOL"])["IBOL"] == first["IBOL"]
    many = method_colours([f"IBOL beta={i}" for i in range(8)])
    assert len(set(many.values())) == 8
    mixed = method_colours(["IBOL a", "IBOL b", "METRA"])
    assert mixed["METRA"] == method_colours(["METRA"])["METRA"], "no other label takes a method's colour"


_SEEN_BY = {  # linear RGB as people without one kind of cone see it (Machado et al. 2009, severity 1)
    "everybody": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}


@pytest.mark.parametrize("matrix", _SEEN_BY.values(), ids=list(_SEEN_BY))
def test_the_colour_blind_can_tell_the_papers_methods_apart(matrix: object) -> None:
    names = ["IBOL", "DIAYN", "VALOR", "DADS", "METRA", "EDL", "SAC"]
    colours = np.array([to_rgb(colour) for colour in method_colours(names).values()])
    seen = np.clip((colours**2.2) @ np.array(matrix).T, 0, 1) ** (1 / 2.2)
    apart = np.linalg.norm(seen[:, None] - seen[None], axis=-1) + np.eye(len(names))
    assert apart.min() > 0.12


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be written, laid out."""
    figures: list[Figure] = []

    def keep(figure: Figure, output: Path) -> None:
        figure.draw_without_rendering()
        figures.append(figure)

    for module in (drawing, boxes, curves):
        monkeypatch.setattr(module, "save", keep)
    return figures


def picture(prior: Prior, dims: int = 2, title: str = "") -> drawing.SkillPicture:
    rng = np.random.default_rng(0)
    return drawing.SkillPicture(title, prior.draw(rng, 5), rng.normal(size=(5, 9, dims)).astype(np.float32), prior)


def lines_of(figure: Figure) -> list[LineCollection]:
    return [artist for axes in figure.axes for artist in axes.collections if isinstance(artist, LineCollection)]


@pytest.mark.parametrize("prior", [Gaussian(1), Gaussian(2), Gaussian(5), Sphere(2), Sphere(3), OneHot(6), OneHot(40)])
def test_the_key_has_the_colours_of_the_lines(prior: Prior, shown: list[Figure]) -> None:
    panel = picture(prior)
    drawing.plot_skills([panel], Path("x.png"))
    (figure,) = shown
    (key,) = [axes for axes in figure.axes if axes.get_label() == "key"]
    (lines,) = lines_of(figure)
    drawn = np.asarray(lines.get_colors())[:, :3]
    np.testing.assert_allclose(drawn, latent_colours(panel.latents, prior), atol=1e-6)
    if isinstance(prior, OneHot):
        legend = key.get_legend()
        assert legend is not None
        named = {
            int(text.get_text()): to_rgb(handle.get_color())  # type: ignore[attr-defined]
            for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
        }
        assert len(named) == (6 if prior.dim == 6 else 8)
        for number, colour in named.items():
            np.testing.assert_allclose(colour, latent_colours(prior.vectors([number]), prior)[0], atol=1e-6)
        return
    colours = np.asarray(key.images[0].get_array())
    left, right, bottom, top = key.images[0].get_extent()
    inside = [i for i, z in enumerate(panel.latents) if abs(z[:2]).max() <= right]
    assert inside
    for i in inside:
        z = panel.latents[i]
        column = round((z[0] - left) / (right - left) * (colours.shape[1] - 1))
        row = 0 if prior.dim == 1 else round((z[1] - bottom) / (top - bottom) * (colours.shape[0] - 1))
        np.testing.assert_allclose(colours[row, column, :3], drawn[i], atol=0.02)
    assert key.get_xlabel() == ("z" if prior.dim == 1 else "z₁")
    assert "latent z" in key.get_title()
    assert (f"first 2 of {prior.dim}" in key.get_title()) == (prior.dim > 2)


def test_eight_panels_stand_in_two_rows_as_wide_as_a_page(shown: list[Figure]) -> None:
    panels = [picture(Gaussian(2), title=f"METHOD {i} (policy sees no location) on ant, seed 0") for i in range(8)]
    drawing.plot_skill_rows([panels], Path("x.png"))
    (figure,) = shown
    drawn = [axes for axes in figure.axes if axes.get_label() != "key"]
    assert len(drawn) == 8
    assert len({round(axes.get_position().y0, 2) for axes in drawn}) == 2
    assert len({round(axes.get_position().x0, 2) for axes in drawn}) == 4
    assert figure.get_figwidth() <= PAGE
    sizes = [axes.get_window_extent() for axes in drawn]
    titles = [axes.title.get_window_extent() for axes in drawn]
    assert min(size.width for size in sizes) / figure.dpi > 1.2, "inches"
    for row in (titles[:4], titles[4:]):
        assert all(one.x1 <= other.x0 for one, other in itertools.pairwise(row)), "titles do not collide"
    assert [len(row) for row in in_rows(range(9))] == [3, 3, 3]


def test_a_line_is_drawn_over_time_in_metres(shown: list[Figure]) -> None:
    panel = picture(Gaussian(2), dims=1)
    drawing.plot_skills([panel], Path("x.png"))
    (lines,) = lines_of(shown[0])
    axes = shown[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("environment step", "x (m)")
    assert len(lines.get_segments()) == 5, "one line for each episode"
    np.testing.assert_allclose(
        lines.get_segments()[2], np.stack([np.arange(9), panel.paths[2, :, 0]], axis=1), rtol=1e-6
    )
    low, high = axes.get_ylim()
    assert low == -high
    assert high >= abs(panel.paths).max()


def test_few_runs_are_points_and_axes_do_not_show_noise(shown: list[Figure]) -> None:
    values = {"IBOL": [1.00012, 1.0001, 1.00011], "DIAYN": [1.00013] * 4}
    boxes.plot_boxes([[boxes.BoxPanel("I(Z; S) on ant", "nats", values)]], Path("x.png"), title="ant", note="a note")
    (figure,) = shown
    (axes,) = figure.axes
    assert len(axes.patches) == 1, "a box for four runs, none for three"
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in points] == [3, 4]  # type: ignore[arg-type]
    low, high = axes.get_ylim()
    assert high - low >= 0.5
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert (axes.get_ylabel(), axes.get_title()) == ("nats", "I(Z; S) on ant")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["IBOL (3)", "DIAYN (4)"]


def test_limits_show_all_but_no_less_than_matters() -> None:
    assert wide_enough([5.0, 5.0], "m") == pytest.approx((5 - 0.625 - 0.075, 5 + 0.625 + 0.075))
    low, high = wide_enough([0.0, 100.0], "m")
    assert low < 0 < 100 < high < 110
    assert np.ptp(wide_enough([0.012, 0.013], "nats")) >= 0.5
    assert np.ptp(wide_enough([float("nan")])) > 0


def test_curves_mark_few_points_and_say_their_unit(shown: list[Figure]) -> None:
    for count in (5, 100):
        steps = np.linspace(1e5, 2e6, count)[None]
        curves.plot_curves(
            [curves.Curve("IBOL", steps, 0.5 + 1e-6 * steps / 2e6)], Path("x.png"), xlabel="environment steps",
            ylabel="spread of the ends (m)", title="ant", unit="m",
        )  # fmt: skip
    few, many = (figure.axes[0] for figure in shown)
    assert few.lines[0].get_marker() == "o"
    assert many.lines[0].get_marker() == ""
    assert (few.get_xlabel(), few.get_ylabel()) == ("environment steps", "spread of the ends (m)")
    assert np.ptp(few.get_ylim()) >= 1.0
    assert few.get_xlim()[0] == 0
    labels = [text.get_text() for text in few.get_xticklabels()]
    assert "1 M" in labels
    assert few.xaxis.get_offset_text().get_text() == few.yaxis.get_offset_text().get_text() == ""


def test_letters_are_inside_the_file(tmp_path: Path) -> None:
    drawing.plot_skills([picture(Gaussian(2), title="IBOL")], tmp_path / "a.pdf")
    drawing.plot_skills([picture(Gaussian(2), title="IBOL")], tmp_path / "a.svg")
    assert b"/FontFile2" in (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in (tmp_path / "a.pdf").read_bytes()
    assert b"font-family" not in (tmp_path / "a.svg").read_bytes(), "letters are shapes"


def test_what_all_policies_see_is_said_once() -> None:
    blind = [Group("ant", f"{name} (policy sees no location) beta=1", ()) for name in ("IBOL", "DIAYN-L")]
    groups, view = said_once(blind)
    assert [group.label for group in groups] == ["IBOL beta=1", "DIAYN-L beta=1"]
    assert view == "policy sees no location"
    mixed = [*blind, Group("ant", "VALOR", ())]
    assert said_once(mixed) == (mixed, "")


def test_goals_have_the_colours_of_latents_in_their_direction() -> None:
    goals = np.array([[1.0, 0.0], [0.0, -1.0]], np.float32)
    np.testing.assert_allclose(keys.goal_colours(goals), latent_colours(1.5 * goals, Gaussian(2)))
