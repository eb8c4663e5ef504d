"""The page about runs: its data, its tables, and what a browser makes of it."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import copy_run
from ibol.cli import main
from ibol.errors import IbolError
from ibol.evaluation.rollouts import skill_rollouts
from ibol.figures.common import method_colours
from ibol.films import film
from ibol.report.curves import curves
from ibol.report.page import short_names, write_report
from ibol.report.tables import command_line
from ibol.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def runs(point_skills: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Skills twice, with names that a page must not take for its own, and a plain policy."""
    folder = tmp_path_factory.mktemp("report")
    main(["sac", "point", "--preset", "smoke", "--epochs", "2", "--quiet", "--run-dir", str(folder / "plain")])
    one = copy_run(point_skills, folder / "one")
    return [one, copy_run(point_skills, folder / "a<b>&'c", learning_rate=0.01), folder / "plain"]


@pytest.fixture(scope="module")
def page(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("page") / "report.html"
    main(["report", *map(str, runs), "--output", str(output), "--trajectories", "40", "--quiet"])
    return output


def data_of(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_it_holds_all_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text()
    links = set(re.findall(r'(?:src|href)="([^"]{0,30})', text))
    assert all(link.startswith(("data:", "#")) for link in links)
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
    assert text.count("data:video/mp4;base64,") == 3
    assert len(text) < 4e6
    assert "a<b>" not in text
    assert "a&lt;b&gt;&amp;&#x27;c" in text


def test_trajectories_are_those_that_were_measured(page: Path, runs: list[Path]) -> None:
    found = data_of(page)["runs"]
    assert [len(run["pictures"]) for run in found] == [4, 4, 1]
    picture = found[0]["pictures"][0]
    kept = skill_rollouts(runs[0], trajectories=40)
    drawn = picture["scale"] * np.array(picture["paths"]).reshape(40, -1, 2)
    np.testing.assert_allclose(drawn, kept.locations[:, picture["steps"]], atol=picture["scale"])
    np.testing.assert_allclose(picture["latents"], kept.latents, atol=0.006)
    assert found[2]["pictures"][0]["latents"][0] == []


def test_settings_that_differ_are_marked_and_references_stand_beside(page: Path) -> None:
    text = page.read_text()
    row = re.search(r'<tr><th scope="row">learning_rate</th>(.*?)</tr>', text)
    assert row is not None
    assert 'class="other">0.01<' in row.group(1)
    assert "initial policy" in text
    assert "random policy" in text
    assert re.search(r'<th scope="col" title="how often [^"]*">accuracy ↑</th>', text)
    assert (
        "<dt>spread</dt><dd>root mean square distance of the ends from their mean, in m; higher is better</dd>" in text
    )


def test_estimators_are_explained_below_their_table(page: Path) -> None:
    text = page.read_text()
    table = text[text.index("neighbour WSEPIN") :]
    note = table[: table.index("<details>")]
    for words in (
        "corrected (minus chance)",
        "10 shuffles of the latents",
        "neighbour (from neighbours)",
        "nearest neigh",
    ):
        assert words in note


def test_a_run_has_its_methods_colour(page: Path) -> None:
    first, second, plain = (run["colour"] for run in data_of(page)["runs"])
    assert first == method_colours(["IBOL"])["IBOL"]
    assert plain == "currentColor", "black would vanish on a dark page"
    assert len({first, second, plain}) == 3


def test_every_run_is_loaded_once(runs: list[Path], tmp_path: Path, loads: list[Path]) -> None:
    write_report(runs, tmp_path / "page.html", trajectories=40, quiet=True)
    assert sorted(loads) == sorted(runs)


def test_the_command_makes_the_run_again(runs: list[Path], tmp_path: Path) -> None:
    command = "ibol discover point --method ibol --preset smoke --seed 0 --epochs 2"
    assert command_line(RunDirectory.open(runs[0])) == command
    assert command_line(RunDirectory.open(runs[1])) == f"{command} --learning-rate 0.01"
    shorter = copy_run(runs[0], tmp_path / "run", env_settings={"horizon": 8}, hidden=[8, 4], use_u=False)
    assert command_line(RunDirectory.open(shorter)) == f"{command} --hidden 8 4 --no-use-u --horizon 8"


def test_curves_are_means_over_pieces() -> None:
    rows = [{"epoch": i + 1, "env_steps": 10 * (i + 1), "objective": float(i), "else": 1.0} for i in range(400)]
    rows[5]["objective"] = float("nan")
    assert curves(rows[:6]) == {"objective": [[10, 20, 30, 40, 50], [0, 1, 2, 3, 4]]}
    rows[5]["objective"] = 5.0
    steps, values = curves(rows)["objective"]
    assert len(steps) == len(values) == 200
    assert values[-1] == pytest.approx(398.5)


def test_names_are_short_where_they_can_be() -> None:
    assert short_names([Path("/a/one"), Path("/a/two")]) == ["one", "two"]
    assert short_names([Path("/a/one"), Path("/b/one")]) == ["/a/one", "/b/one"]


def test_without_opengl_the_page_says_so(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stage(*_: object, **__: object) -> None:
        raise IbolError("films need an OpenGL library")

    monkeypatch.setattr(film, "_painter", no_stage)
    write_report(runs[:1], tmp_path / "page.html", trajectories=40, quiet=True)
    text = (tmp_path / "page.html").read_text()
    assert "No film of one: films need an OpenGL library." in text
    assert "<video" not in text


def test_wrong_calls_are_explained(runs: list[Path], page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*args: object) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["report", *map(str, args)])
        assert stop.value.code == 2
        return capsys.readouterr().err

    before = page.read_bytes()
    assert "--overwrite" in fails(runs[0], "--output", page)
    assert page.read_bytes() == before
    assert "at least one run" in fails("--output", page.parent / "other.html")
    assert "is not a run" in fails(page.parent, "--output", page.parent / "other.html")


def test_a_browser_shows_it(browser: Any, page: Path) -> None:
    from selenium.webdriver import ActionChains, Keys
    from selenium.webdriver.common.by import By

    def find(selector: str) -> list[Any]:
        return list(browser.find_elements(By.CSS_SELECTOR, selector))

    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    figures, plots = find("#trajectory-figures figure"), find("svg.plot")
    assert len(figures) == 3
    for drawn in [*plots, *find("video")]:
        assert min(drawn.rect["width"], drawn.rect["height"]) > 50
    reach = [max(path.rect["width"], path.rect["height"]) for path in find(".path")]
    assert min(reach) > 0
    assert max(reach) > 20
    assert len(find("#curve-figures figure")) >= 4
    assert browser.execute_script(
        "return Array.from(document.querySelectorAll('video')).every((film) => film.error === null)"
    )

    said = figures[0].find_element(By.CSS_SELECTOR, ".said")
    assert said.text == "40 trajectories"
    chosen = "return document.querySelectorAll('.on').length"
    picture, plane = figures[0].find_elements(By.CSS_SELECTOR, "svg.plot")
    for place in (picture, plane):
        ActionChains(browser).move_to_element(place).perform()
        assert re.match(r"z = \(-?[\d.]+, -?[\d.]+\): ends at ", said.text)
        assert browser.execute_script(chosen) == 2  # the trajectory and its latent
    ActionChains(browser).move_to_element(find("h1")[0]).perform()
    assert said.text == "40 trajectories"

    browser.execute_script("arguments[0].focus()", picture)
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    first = said.text
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert first.startswith("z = (")
    assert said.text.startswith("z = (")
    assert said.text != first
    find("input[type=radio]")[1].click()
    assert figures[0].find_element(By.CSS_SELECTOR, ".said").text == "16 trajectories"

    browser.set_window_size(1400, 1600)
    tables = browser.execute_script(
        "return Array.from(document.querySelectorAll('.wide')).map((box) => [box.scrollWidth, box.clientWidth])"
    )
    assert len(tables) >= 4
    assert all(needed <= room <= 1400 for needed, room in tables), tables
    browser.set_window_size(400, 800)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.get_log("browser") == []
