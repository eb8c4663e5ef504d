"""Experiments as data: what a file becomes, what the paper's needs, and what is refused before anything is trained."""

import json
import sys
from pathlib import Path

import pytest

from conftest import fails
from ibol.errors import IbolError
from ibol.evaluation.skills import evaluate_skills
from ibol.experiments import expand, states
from ibol.experiments.cells import SET
from ibol.experiments.engines.work import perform, task_of
from ibol.experiments.model import CLAIMS, Experiment, paper_experiment, parse, read_experiment

OWN = """
title = "Two methods"
[comparison]
figures = ["boxes"]
shared = { env = "point", seed = [0, 1, 2] }
runs = [{ method = ["ibol", "diayn"] }]
"""


def parsed(text: str, **options: object) -> Experiment:
    return parse(text, "own.toml", **options)  # type: ignore[arg-type]


def test_lists_are_grids_and_several_seeds_are_several_runs() -> None:
    entry = parsed(OWN.replace("{ method", "{ epochs = [5, 7], hidden = [8, 8], method")).entries[0]
    assert len(entry.cells) == 2 * 3 * 2
    assert {tuple(cell.settings["hidden"]) for cell in entry.cells} == {(8, 8)}
    assert {(cell.method, cell.seed, cell.epochs) for cell in entry.cells} == {
        (method, seed, epochs) for method in ("ibol", "diayn") for seed in range(3) for epochs in (5, 7)
    }
    sizes = parsed(OWN.replace("{ method", "{ hidden = [[8, 8], [4]], method")).entries[0].cells
    assert {tuple(cell.settings["hidden"]) for cell in sizes} == {(8, 8), (4,)}


def test_a_run_that_two_entries_need_is_one_run() -> None:
    twice = parsed(OWN + OWN.replace("comparison", "again").replace('title = "Two methods"', ""))
    assert [len(entry.cells) for entry in twice.entries] == [6, 6]
    assert len(twice.needed) == 6
    one, other = twice.entries[0].cells[0], twice.entries[1].cells[0]
    assert (one, one.name, hash(one)) == (other, other.name, hash(other))


def test_anything_that_is_set_makes_another_run() -> None:
    def only(change: str) -> str:
        text = '[a]\nruns = [{ method = "ibol", env = "point", CHANGE }]'.replace(", CHANGE", change)
        return parsed(text).entries[0].cells[0].identity

    changes = ["", ", seed = 1", ", beta = 0.5", ", horizon = 20", ', preset = "smoke"', ', variant = "xy"']
    assert len({only(change) for change in changes}) == len(changes)
    assert only("") == only(", seed = 0")
    assert only("") == only(', linearizer = "none"'), "what the preset says anyway"


def test_tables_in_the_place_of_sources_are_runs_that_come_first() -> None:
    text = """
[task]
runs = [{ method = "downstream", env = "point_goal", skills = { linearizer = { epochs = 2 }, seed = [0, 1] } }]
"""
    entry = parsed(text, preset="smoke", seeds=2).entries[0]
    assert [cell.method for cell in entry.cells] == ["downstream", "downstream"]
    order = [cell.method for cell in entry.needed]
    assert order == ["linearize", "ibol", "downstream", "ibol", "downstream"]
    controller = entry.cells[0]
    skills = controller.sources["skills"]
    assert (skills.env, skills.preset) == ("point", "smoke")
    assert controller.config().skills == str(skills.place)
    assert controller.linearizer == skills.linearizer == skills.sources["linearizer"].identity
    assert controller.identity != entry.cells[1].identity


def test_bundled_linearizers_are_not_trained_again() -> None:
    text = '[a]\nruns = [{ method = "ibol", env = "ant", linearizer = [{ seed = 0 }, { seed = 9 }] }]'
    shipped, trained = parsed(text).entries[0].cells
    assert shipped.settings["linearizer"] == "bundled"
    assert not shipped.needs
    assert [(cell.method, cell.seed) for cell in trained.needs] == [("linearize", 9)]
    assert [len(cell.needs) for cell in parsed(text, preset="paper").entries[0].cells] == [1, 1]
    plain = parsed('[a]\nruns = [{ method = "ibol", env = "ant" }]').entries[0].cells[0]
    assert plain == shipped


def test_seeds_of_the_user_come_first() -> None:
    text = OWN + '[one]\nruns = [{ method = "ibol", env = "point", seed = 5 }]'
    few = parsed(text, seeds=2)
    assert [sorted({cell.seed for cell in entry.cells}) for entry in few.entries] == [[0, 1], [5]]
    assert len(parsed(text, preset="smoke").entries[0].cells) == 2, "one seed of each method"
    own = '[one]\nruns = [{ method = "ibol", env = "point", seed = [10, 12] }]'
    assert [cell.seed for cell in parsed(own, seeds=1).entries[0].cells] == [10]
    assert [cell.seed for cell in parsed(own, seeds=4).entries[0].cells] == [10, 12, 13, 14]


def test_settings_for_a_preset_hold_for_no_other_and_a_run_may_have_its_own() -> None:
    text = "smoke = { discover = { evaluate_every = 7, beta = 0.5 } }\n"
    text += '[a]\nruns = [{ method = ["ibol", "sac"], env = "point" }, { method = "ibol", env = "point", beta = 0.25 }]'
    found = [(one.settings["evaluate_every"], one.settings.get("beta")) for one in parsed(text, preset="smoke").needed]
    assert found == [(7, 0.5), (2, None), (7, 0.25)]
    assert parsed(text).needed[0].settings["evaluate_every"] != 7


def test_what_is_shared_with_one_preset_holds_for_no_other() -> None:
    text = """
[a]
shared = { method = "ibol", env = "point", beta = 0.5 }
shared_fast = { beta = 0.25, epochs = 7 }
runs = [{ seed = 0 }, { beta = 0.125 }]
"""
    assert [(one.settings["beta"], one.epochs) for one in parsed(text).needed] == [(0.25, 7), (0.125, 7)]
    assert [one.settings["beta"] for one in parsed(text, preset="smoke").needed] == [0.5, 0.125]


def test_a_run_is_simulated_as_often_as_the_entry_that_asks_for_most_with_this_preset() -> None:
    text = """
[measured]
figures = ["boxes"]
trajectories_fast = 1000
runs = [{ method = "ibol", env = "point", seed = [0, 1] }]

[drawn]
figures = ["trajectories"]
trajectories = 50
drawn = 1500
runs = [{ method = "ibol", env = "point" }]
"""
    assert list(parsed(text).simulated.values()) == [1500, 1000]
    assert list(parsed(text, preset="paper").simulated.values()) == [2000, 2000]


def test_captions_say_what_differs_with_this_preset() -> None:
    text = RUN.replace("runs", 'differs = "All."\ndiffers_fast = "Fast."\ndiffers_smoke = "Smoke."\nruns')
    said = {preset: parsed(text, preset=preset).entries[0].about.differs for preset in ("fast", "smoke", "paper")}
    assert said == {"fast": "All. Fast.", "smoke": "All. Smoke.", "paper": "All."}
    for entry in paper_experiment("paper").entries:
        assert "fast" not in entry.about.differs


def test_runs_that_differ_by_seeds_and_linearizers_are_one_setting() -> None:
    text = """
[a]
seeds_shown = 1
runs = [
    { method = ["ibol", "diayn"], env = "ant", linearizer = [{ seed = 0 }, { seed = 1 }, { seed = 7 }], seed = [0, 1] },
    { method = "diayn", env = "ant", linearizer = ["none", { seed = 0, variant = "velocity_free" }] },
]
"""
    entry = parsed(text).entries[0]
    assert [len(cells) for cells in entry.rows[0]] == [6, 6, 1, 1]
    assert [cell.method for cell in entry.shown] == ["ibol", "diayn", "diayn", "diayn"]


def test_a_grid_has_rows_and_may_be_ragged() -> None:
    text = """
[grid]
figures = ["grid"]
shared = { env = "point", method = "ibol", seed = [0, 1] }
rows = [{ lambda_ = 1.5 }, { use_u = false }]
columns = [{ beta = 0.1 }, { beta = 0.2 }, { beta = 0.3 }]
cells = [[{ method = "valor" }]]
"""
    entry = parsed(text).entries[0]
    assert [[len(cells) for cells in row] for row in entry.rows] == [[2, 2, 2], [2, 2, 2], [2]]
    assert dict(entry.rows[1][2][0].overrides) == {"use_u": False, "beta": 0.3}


@pytest.mark.parametrize("preset", ["fast", "smoke", "paper"])
def test_the_papers_experiments_can_be_read(preset: str) -> None:
    paper = paper_experiment(preset)
    assert {claim for entry in paper.entries for claim in entry.about.claims} == set(CLAIMS)
    assert len({cell.name for cell in paper.needed}) == len(paper.needed)
    for entry in paper.entries:
        assert entry.about.title
        assert entry.about.paper
        assert entry.cells


def test_what_the_paper_needs() -> None:
    paper = {entry.name: entry for entry in paper_experiment("fast").entries}
    metrics = paper["metrics"]
    assert len(metrics.cells) == 4 * 4 * 2 * 4
    assert set(paper["external-returns"].cells) < set(metrics.cells)
    assert paper["bins"].cells == metrics.cells
    assert len(paper["linearizer-rewards"].cells) == 5 * 4
    assert {cell.epochs for cell in paper["linearizer-rewards"].cells} == {100}
    assert [[len(cells) for cells in row] for row in paper["point-baselines"].rows] == [[1] * 3, [1] * 4, [1] * 4]
    tasks = paper["downstream"]
    assert len(tasks.cells) == 4 * (4 * 8 + 4)
    sets = {cell for cell in tasks.needed if cell.method == SET}
    assert len(sets) == 1
    assert len(next(iter(sets)).members) == 4 * 8
    assert {skills for cell in tasks.cells for skills in cell.needs if skills.method != SET} < set(metrics.cells)


RUN = '[a]\nruns = [{ method = "ibol", env = "point" }]'
TASK = '[a]\nruns = [{ method = "downstream", env = "point_goal", skills = SKILLS }]'
IMITATION = (
    '[a]\nruns = [{ method = "downstream", env = "half_cheetah_imitation", skills = "none", imitation_set = SET }]'
)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "has no entry"),
        ("not toml", "is not valid TOML"),
        ("colour = 1\n" + RUN, "unknown key 'colour'"),
        ("smoke = 1\n" + RUN, "smoke in own.toml is 1"),
        ("smoke = { discover = 1 }\n" + RUN, "a table of settings for each command"),
        ("smoke = { discvr = {} }\n" + RUN, "unknown command 'discvr': did you mean 'discover'"),
        ('preset = "smoke"\nsmoke = { discover = { bta = 1 } }\n' + RUN, "unknown setting 'bta'"),
        ("[a]", "needs runs"),
        ("[a]\nruns = 3", "runs must be a list"),
        (RUN.replace("runs", "shared_fast = 3\nruns"), "must be a table of settings"),
        (RUN.replace("runs", "trajectories_fast = 0\nruns"), "trajectories is 0"),
        (RUN.replace("runs", "trajectories_fst = 3\nruns"), "unknown key 'trajectories_fst'"),
        ("fast = { discover = 1 }\n" + RUN, "a table of settings for each command"),
        (RUN.replace("runs", "shared_fst = {}\nruns"), "unknown key 'shared_fst': did you mean 'shared_fast'"),
        ("[a]\nruns = [3]", "table of settings"),
        ("[a]\nruns = [[{}]]", "table of settings"),
        ("[a]\ncells = [3]", "cells must be a list"),
        ('[a]\nruns = [{ env = "point" }]', "has no method"),
        ('[a]\nruns = [{ method = "ibol" }]', "has no env"),
        (RUN.replace('"ibol"', '"ibl"'), "unknown method 'ibl': did you mean 'ibol'"),
        (RUN.replace('"point"', '"ponit"'), "ponit"),
        (RUN.replace(" }]", ", bta = 1 }]"), "unknown setting 'bta': did you mean 'beta'"),
        (RUN.replace(" }]", ", num_threads = 2 }]"), "unknown setting 'num_threads'"),
        (RUN.replace(" }]", ", beta = -1.0 }]"), "beta is -1, but at least 0 is needed"),
        (RUN.replace(" }]", ", hidden = [0] }]"), "hidden is 0"),
        (RUN.replace(" }]", ", beta = [] }]"), "beta in .* is empty"),
        (RUN.replace(" }]", ", seed = -1 }]"), "seed is -1"),
        (RUN.replace(" }]", ', variant = "zy" }]'), "unknown variant 'zy'"),
        (RUN.replace(" }]", ', preset = "fst" }]'), "unknown preset 'fst'"),
        (RUN.replace(" }]", ', linearizer = "nowhere" }]'), "unknown linearizer 'nowhere'"),
        (RUN.replace(" }]", ', linearizer = "bundled" }]'), "no linearizer is bundled for point"),
        (RUN.replace(" }]", ", linearizer = { betta = 1 } }]"), "unknown setting 'betta'"),
        (RUN.replace(" }]", ", linearizer = 7 }]"), "a name, a path or a table is needed"),
        (RUN.replace(" }]", f", seed = {list(range(101))}, beta = {list(range(101))} }}]"), "more than 10000 runs"),
        (RUN.replace('"ibol", env = "point"', '"downstream", env = "ant"'), "unknown task 'ant'"),
        (RUN.replace('"ibol", env = "point"', '"downstream", env = "point_goal"'), "needs skills"),
        (RUN.replace("runs", 'figures = ["boxs"]\nruns'), "unknown figure 'boxs': did you mean 'boxes'"),
        (RUN.replace("runs", 'figures = ["grid"]\nruns'), "needs rows and columns"),
        (RUN.replace("runs", 'claims = ["C11"]\nruns'), "unknown claim 'C11'"),
        (RUN.replace("runs", "bins = [1]\nruns"), "bins is 1"),
        (RUN.replace("runs", "titel = 1\nruns"), "unknown key 'titel': did you mean 'title'"),
        (RUN.replace("runs", 'figures = ["linearizer-rewards"]\nruns'), "drawn from runs of 'ibol linearize', not of"),
        (RUN.replace("runs", 'figures = ["boxes"]\nruns').replace('"ibol"', '"sac"'), "not of 'ibol sac'"),
        ("title = {}\n" + RUN, "title in own.toml is {}"),
        (RUN.replace("runs", "differs_fast = 3\nruns"), "differs_fast in .* is 3"),
        (RUN.replace(" }]", ", variant = {} }]"), "variant in .* is {}, but a name"),
        (RUN.replace(" }]", ", preset = [[1]] }]"), r"preset in .* is \[1\], but a name"),
        (RUN.replace('"point"', "{}"), "env in .* is {}, but a name"),
        (TASK.replace("SKILLS", '"nowhere"'), "there are no skills at nowhere"),
        (TASK.replace("SKILLS", '"none"').replace("point_goal", "half_cheetah_imitation"), "needs an imitation_set"),
        (IMITATION.replace("SET", '"nowhere"'), "there is no imitation set at nowhere"),
        (IMITATION.replace("SET", "{ runs = [3] }"), "needs runs: the tables"),
        (IMITATION.replace("SET", "3"), "imitation_set in .* is 3"),
        (RUN.replace("[a]", "[runs]"), "an entry's name"),
        (RUN.replace("[a]", '["../up"]'), "an entry's name"),
        (RUN.replace('"point"', '"os:abort"'), "--trust-env 'os:abort'"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, match: str) -> None:
    with pytest.raises(IbolError, match=match) as error:
        parsed(text)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(IbolError, match="not UTF-8"):
        read_experiment(tmp_path / "bytes.toml")
    with pytest.raises(IbolError, match="cannot read"):
        read_experiment(tmp_path / "nowhere.toml")


def test_a_wrong_file_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.toml").write_text(OWN.replace("diayn", "dian"))
    said = fails(capsys, "experiment", tmp_path / "own.toml", "--dir", tmp_path / "results")
    assert "unknown method 'dian': did you mean 'diayn'?" in said
    assert not (tmp_path / "results").exists()


def test_settings_are_json() -> None:
    for cell in paper_experiment("smoke").needed:
        assert json.loads(json.dumps(dict(cell.settings))) == dict(cell.settings)


OWN_ENV = """
[pendulum]
trajectories = 16
shared = { env = "Pendulum-v1", horizon = 20, location_dims = [0], env_kwargs = { g = 3.5 }, seed = 0, hidden = [8, 8] }
runs = [{ method = ["ibol", "diayn"], epochs = 1, evaluate_every = 0, linearizer = { epochs = 1, hidden = [8, 8] } }]
"""


def test_what_a_file_says_of_an_own_environment_holds_for_the_linearizer_too() -> None:
    experiment = parsed(OWN_ENV, preset="smoke")
    assert [cell.method for cell in experiment.needed] == ["linearize", "ibol", "diayn"]
    for cell in experiment.needed:
        assert cell.env_settings == {"horizon": 20, "location_dims": [0], "env_kwargs": ["g=3.5"]}
    other = parsed(OWN_ENV.replace("linearizer = {", "linearizer = { horizon = 30,"), preset="smoke").needed
    assert [cell.env_settings["horizon"] for cell in other] == [30, 20, 20]
    without = OWN_ENV.replace("horizon = 20, ", "")
    only = parsed(without.replace("linearizer = {", "linearizer = { horizon = 30,")).needed
    assert [cell.env_settings["horizon"] for cell in only] == [30, 30, 30], "as the linearizer that they stand on"
    several = parsed(OWN_ENV.replace("{ g = 3.5 }", "[{ g = 3.5 }, { g = 9.8 }]")).entries[0].cells
    assert [cell.env_settings["env_kwargs"] for cell in several] == [["g=3.5"], ["g=9.8"]] * 2


def test_the_location_of_an_own_environment_goes_from_linearizer_to_skills_to_their_measures(tmp_path: Path) -> None:
    experiment = parsed(OWN_ENV.replace('["ibol", "diayn"]', '"diayn"'), preset="smoke")
    for cell in experiment.needed:
        outcome = perform(task_of(cell, tmp_path, trusted=(), checkpoint_minutes=5, measure=16))
        assert (outcome.kind, outcome.said) == ("done", "")
        assert states.saved_epochs(cell, tmp_path) == 1, "its run is what its name says"
    (row,) = evaluate_skills([tmp_path / experiment.needed[1].place], trajectories=16, references=False, quiet=True)
    assert "spread" in row


def test_what_gymnasiums_robots_need_is_there_or_said(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[a]\nruns = [{ method = "ibol", env = "InvertedPendulum-v5", location_dims = [0], linearizer = "none" }]'
    assert parsed(text).entries[0].cells[0].env_settings == {"location_dims": [0]}
    expand._check_own.cache_clear()
    for module in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mujoco", None)  # type: ignore[arg-type]
    with pytest.raises(IbolError, match=r"InvertedPendulum-v5 could not be made.*gymnasium") as error:
        parsed(text)
    assert "\n" not in str(error.value)
