"""The live page of skills: its data, and in a real browser its policies, its physics and its controls."""

import base64
import json
import re
import runpy
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from scipy.stats import spearmanr

from conftest import call, copy_run, fails
from ibol import make, zoo
from ibol.envs.dkitty import RANGES, middle_dynamics
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError
from ibol.learners.normalizer import Normalizer
from ibol.learners.rollout import collect
from ibol.linearizer.policy import Linearizer, load_named
from ibol.page import write
from ibol.page.body import body_of
from ibol.page.data import MOST, collected, describe, page_data
from ibol.skills.policy import SkillDescription, Skills

needs_build = pytest.mark.skipif(
    not (write.ASSETS / "page.js").is_file(), reason="the page's files are not built: 'make web' needs node and npm"
)


def bundled(env: str) -> str:
    """Bundled skills, or the linearizer where there are none."""
    return env if env in zoo.names() else f"linearizer:{env}"


ANT, CHEETAH = bundled("ant"), bundled("half_cheetah")
LINEARIZERS = [f"linearizer:{env}" for env in ("ant", "half_cheetah", "hopper", "humanoid", "dkitty")]


def spread(agent: Skills | Linearizer, n: int) -> np.ndarray:
    """Latents or goals (n, d) all around, or from end to end of one dimension."""
    if isinstance(agent, Skills):
        dims, size, radius = list(range(min(2, agent.latent_dim))), agent.latent_dim, 1.5
    else:
        dims, size, radius = list(agent.description.location_dims), agent.goal_dim, 1.0
    angle = 2 * np.pi * np.arange(n) / n
    chosen = np.zeros((n, size), np.float32)
    chosen[:, dims] = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, : len(dims)]
    if len(dims) == 1:
        chosen[:, dims[0]] = np.linspace(-radius, radius, n)
    return chosen


def episodes(agent: Skills | Linearizer, chosen: np.ndarray, seed: int) -> np.ndarray:
    options = {"deterministic": True} if isinstance(agent, Skills) else {}
    return agent.rollout(chosen, seed=seed, **options).states  # (N, T + 1, n)


# What is written.


def test_arrays_are_kept_once_and_to_the_bit() -> None:
    data = page_data(["linearizer:ant", "linearizer:ant:1", "linearizer:ant"])
    assert [run["name"] for run in data["runs"]] == ["linearizer:ant", "linearizer:ant:1"]
    assert len(set(data["arrays"])) == len(data["arrays"])
    first = data["runs"][0]["agent"]["linearizer"]["layers"][0]["weight"]
    raw = np.frombuffer(base64.b64decode(data["arrays"][first["array"]]), "<f4")
    weight = np.asarray(load_named("linearizer:ant").policy.network.trunk.layers[0].weight)
    assert np.array_equal(raw, weight.ravel())
    masses = [run["body"]["fields"]["body_mass"]["array"] for run in data["runs"]]
    assert masses[0] == masses[1]
    assert data["runs"][0]["trained_with"] == "4.0.0"


def test_the_page_has_the_middle_of_dkittys_dynamics() -> None:
    model = middle_dynamics(make("dkitty", 1, 1).model)
    assert model.body_mass.sum() == pytest.approx(sum(RANGES.mass) / 2)
    assert model.dof_damping[6:] == pytest.approx(sum(RANGES.damping) / 2)
    assert model.actuator_gainprm[:, 0] == pytest.approx(sum(RANGES.gain) / 2)
    assert not model.hfield_data.any()


def test_wrong_calls_are_explained(
    point_skills: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "skills.html"
    monkeypatch.setattr(write, "ASSETS", tmp_path)
    assert "make web" in fails(capsys, "page", point_skills, "--output", output)
    output.write_text("mine")
    assert "--overwrite" in fails(capsys, "page", point_skills, "--output", output)
    assert output.read_text() == "mine"
    assert ".html" in fails(capsys, "page", point_skills, "--output", tmp_path / "skills.pdf")
    monkeypatch.setattr(write, "built", lambda: [""] * 5)
    assert "at least one run" in fails(capsys, "page", "--output", output, "--overwrite")
    assert f"at most {MOST}" in fails(capsys, "page", *map(str, range(MOST + 1)), "--output", output, "--overwrite")
    call("sac", "point", "--preset", "smoke", "--epochs", 1, "--quiet", "--run-dir", tmp_path / "plain")
    said = fails(capsys, "page", tmp_path / "plain", "--output", output, "--overwrite")
    assert "'ibol sac', without latents" in said
    with pytest.raises(IbolError, match=r"cannot simulate .*Pendulum.*our own robots and the point"):
        body_of(make("Pendulum-v1", 1))


@needs_build
def test_its_own_tests_have_our_numbers() -> None:
    """`web/test/numbers.json`, which the page's own tests compare with, is what our policies answer today."""
    folder = Path(__file__).parents[1] / "web" / "test"
    made = runpy.run_path(str(folder / "make_numbers.py"))["numbers"]()
    kept = json.loads((folder / "numbers.json").read_text())
    assert json.loads(json.dumps(made["cases"]), parse_float=lambda text: 0.0) == json.loads(
        json.dumps(kept["cases"]), parse_float=lambda text: 0.0
    )
    for ours, theirs in zip(made["cases"], kept["cases"], strict=True):
        np.testing.assert_allclose(ours["actions"], theirs["actions"], atol=1e-6)
    npm = shutil.which("npm")
    if npm is not None and (folder.parent / "node_modules" / "vitest").is_dir():
        done = subprocess.run([npm, "test", "--silent"], cwd=folder.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# What a browser makes of it.


class Page:
    """A page in the browser, and what it says of itself."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def open(self, address: str) -> "Page":
        self.browser.get_log("browser")
        self.browser.get(address)
        self.until(lambda: self.ask("return document.documentElement.dataset.ready === 'yes'"))
        return self

    def ask(self, script: str, *given: Any) -> Any:
        return self.browser.execute_script(script, *given)

    def until(self, true: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.browser.get_log("browser")
            time.sleep(0.05)

    def state(self, run: int = 0) -> dict[str, Any]:
        return self.ask("return ibol.state(arguments[0])", run)

    def ends(self, chosen: np.ndarray, starts: np.ndarray, run: int = 0) -> np.ndarray:
        """The last states (N, n) of whole episodes."""
        script = "return ibol.rollout(arguments[0], 200, arguments[1], arguments[2]).at(-1)"
        return np.array(
            [self.ask(script, z.tolist(), start.tolist(), run) for z, start in zip(chosen, starts, strict=True)]
        )

    def errors(self) -> list[Any]:
        """What went wrong; of slow drivers the browser only warns."""
        return [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def find(self, selector: str) -> list[Any]:
        from selenium.webdriver.common.by import By

        return list(self.browser.find_elements(By.CSS_SELECTOR, selector))


def written(folder: Path, *names: object) -> Path:
    output = folder / "skills.html"
    call("page", *names, "--output", output)
    return output


@pytest.fixture(scope="module")
def ant_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("ant"), ANT)


@pytest.fixture
def ant(browser: Any, ant_file: Path) -> Page:
    return Page(browser).open(ant_file.as_uri())


@pytest.fixture(scope="module")
def resting(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """All robots on one page, paused, for what is asked of it."""
    page = Page(browser).open(written(tmp_path_factory.mktemp("all"), *LINEARIZERS).as_uri())
    page.press(" ")
    return page


@needs_build
def test_it_is_one_small_file_that_asks_for_nothing(ant_file: Path, browser: Any) -> None:
    text = ant_file.read_text()
    assert len(text) < 6e6
    assert all(link.startswith(("data:", "#")) for link in re.findall(r'<[^>]*(?:src|href)="([^"]{0,30})', text))
    for licence in ("DeepMind", "three.js", "Farama", "Apache License"):
        assert licence in text
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(ant_file.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = Page(browser).open(f"http://127.0.0.1:{server.server_port}/{ant_file.name}")
        page.until(lambda: page.state()["time"] > 0.2)
        assert page.ask("return performance.getEntriesByType('resource').length") == 0
    finally:
        server.shutdown()
        server.server_close()
    assert asked == [f"/{ant_file.name}"]
    assert page.errors() == []


@needs_build
def test_policies_are_ours(ant: Page) -> None:
    agent, rng = load_named(ANT), np.random.default_rng(0)
    seen = episodes(agent, spread(agent, 8), seed=0).reshape(-1, agent.description.state_dim)
    near = seen[rng.integers(len(seen), size=1000)]
    obs = (near + 0.1 * seen.std(axis=0) * rng.standard_normal(near.shape)).astype(np.float32)
    if isinstance(agent, Skills):
        chosen = agent.sample_latents(1000, seed=0)
        answers = agent.act(obs, chosen, deterministic=True)
        actions = answers if agent.linearizer is None else agent.linearizer.act(obs, answers)
    else:
        chosen = answers = rng.uniform(-1, 1, (1000, agent.goal_dim)).astype(np.float32)
        actions = agent.act(obs, chosen)
    found = ant.ask("return arguments[0].map((o, i) => ibol.act(o, arguments[1][i]))", obs.tolist(), chosen.tolist())
    np.testing.assert_allclose([one["answer"] for one in found], answers, atol=1e-5)
    np.testing.assert_allclose([one["action"] for one in found], actions, atol=1e-5)


@needs_build
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(LINEARIZERS)))
def test_a_step_is_that_of_our_physics(resting: Page, number: int) -> None:
    """Observation, policy, control and physics at once: from the same state to nearly the same next one."""
    agent = load_named(LINEARIZERS[number])
    chosen = spread(agent, 4)
    if agent.env == "dkitty":  # from a given state the page has the middle of its dynamics
        env = make("dkitty", 4, 1, randomize=False, autoreset=AutoresetMode.DISABLED)
        env._batch.set_models([middle_dynamics(env.model)] * 4)
        states = collect(env, lambda obs, step: agent.act(obs, chosen), seed=0).states
    else:
        states = episodes(agent, chosen, seed=0)
    for i in range(4):
        for at in (0, 30):
            start = states[i, at].tolist()
            if agent.env == "dkitty" and at > 0:
                continue  # a state lacks the velocities of its root
            script = "return ibol.rollout(arguments[0], 1, arguments[1], arguments[2])"
            before, after = resting.ask(script, chosen[i].tolist(), start, number)
            np.testing.assert_allclose(before, start, atol=1e-6)
            np.testing.assert_allclose(after, states[i, at + 1], atol=2e-3)
    assert resting.errors() == []


@needs_build
@pytest.mark.slow
def test_ant_goes_where_ours_goes(ant: Page) -> None:
    ant.press(" ")
    agent = load_named(ANT)
    chosen = spread(agent, 20)
    ours = [episodes(agent, chosen, seed) for seed in range(4)]
    theirs = [ant.ends(chosen, states[:, 0]) for states in ours[:2]]
    # A single episode may stumble, in ours too: what is compared is the mean of a few.
    x, y = sum(states[:, -1, :2] for states in ours).T
    there_x, there_y = sum(states[:, :2] for states in theirs).T
    apart = np.degrees(np.arctan2(y, x) - np.arctan2(there_y, there_x))
    assert np.abs((apart + 180) % 360 - 180).max() < 15


@needs_build
@pytest.mark.slow
def test_half_cheetah_goes_as_ours_does(browser: Any, tmp_path: Path) -> None:
    page = Page(browser).open(written(tmp_path, CHEETAH).as_uri())
    page.press(" ")
    agent = load_named(CHEETAH)
    chosen = agent.sample_latents(20, seed=0) if isinstance(agent, Skills) else spread(agent, 20)
    ours = episodes(agent, chosen, seed=0)
    ends, theirs = ours[:, -1, 0], page.ends(chosen, ours[:, 0])[:, 0]
    far = np.abs(ends) > 3
    assert far.sum() >= 10
    assert np.array_equal(np.sign(ends[far]), np.sign(theirs[far]))
    assert spearmanr(ends, theirs).statistic > 0.9


def heading(page: Page) -> float:
    """The direction (rad) of the robot over the last metre."""
    before = np.array(page.state()["location"])
    page.until(lambda: float(np.hypot(*(np.array(page.state()["location"]) - before))) > 1)
    x, y = np.array(page.state()["location"]) - before
    return float(np.arctan2(y, x))


@needs_build
@pytest.mark.slow
def test_a_drag_changes_the_direction(ant: Page) -> None:
    from selenium.webdriver import ActionChains

    ant.until(lambda: "MuJoCo 3.14.0 (trained with 4.0.0)" in ant.find("#status")[0].text)
    (pad,) = ant.find(".pad")
    size = pad.rect["width"]
    directions = []
    for side in (1, -1):
        moves = ActionChains(ant.browser).move_to_element(pad).click_and_hold()
        moves.move_by_offset(round(side * 0.4 * size), 0).release().perform()
        assert np.sign(ant.state()["chosen"][0]) == side
        for _ in range(2):  # the first metre may still be the old direction's
            direction = heading(ant)
        directions.append(direction)
    apart = (directions[1] - directions[0] + np.pi) % (2 * np.pi) - np.pi
    assert abs(apart) > np.pi / 3
    assert ant.find(".pad")[0].get_attribute("aria-valuetext").startswith(("z = (-", "g = (-"))
    assert ant.errors() == []


@needs_build
def test_the_keyboard_reaches_every_control(ant: Page) -> None:
    from selenium.webdriver import Keys

    controls = "button, input, summary, .pad, .picture"
    ant.ask(f"document.querySelectorAll('{controls}').forEach((one, i) => one.dataset.number = i)")
    ant.ask("document.querySelectorAll('details').forEach((one) => one.open = true)")
    count = len(ant.find(controls))
    assert count >= 15
    ant.ask("window.reached = []; addEventListener('focusin', ({ target }) => reached.push(target.dataset.number))")
    ant.press(*[Keys.TAB] * (count + 3))
    assert {str(i) for i in range(count)} <= set(ant.ask("return reached"))

    ant.ask("document.querySelector('.pad').focus()")
    before = ant.state()["chosen"]
    ant.press(Keys.ARROW_LEFT, Keys.ARROW_UP)
    after = ant.state()["chosen"]
    assert after[0] < before[0]
    assert after[1] > before[1]
    ant.press("n")
    assert ant.state()["chosen"] != after
    for key, name in (("t", "touring"), (" ", "paused"), ("f", "follow")):
        old = ant.state()[name]
        ant.press(key)
        assert ant.state()[name] is not old
    ant.press("]", "]")
    assert ant.state()["speed"] == 4
    resets = ant.state()["resets"]
    ant.press("r")
    assert ant.state()["resets"] == resets + 1
    ant.press("p")
    assert ant.errors() == []
    ant.browser.set_window_size(390, 800)
    try:
        assert ant.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        ant.browser.set_window_size(1200, 1600)


def toy(prior: Any, dim: int) -> Skills:
    """Skills of the point that were never trained."""
    description = SkillDescription(
        env="point", env_settings=EnvSettings(), state_dim=2, action_dim=2, latent_dim=dim, location_dims=(0, 1),
        omitted=(), hidden=(8, 8), linearized=False, prior=prior,
    )  # fmt: skip
    return Skills(description, description.policy_template(), Normalizer.of(np.zeros(2), np.ones(2)), None)


@pytest.fixture
def runs(point_skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs whose names would be script if they were taken for parts of the page."""
    monkeypatch.chdir(tmp_path)
    names = [
        "a</script><script>hacked=1</script>",
        "b<img src=x onerror=hacked=1></script>",  # the same last part, so that whole paths are shown
        "${hacked=1}\"'><svg onload=hacked=1>",
    ]
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        copy_run(point_skills, Path(name))
    return names


@needs_build
def test_names_are_text(browser: Any, runs: list[str], tmp_path: Path) -> None:
    file = written(tmp_path, *runs)
    assert len(file.read_text()) < 1.5e6, "the point needs no physics"
    page = Page(browser).open(file.as_uri())
    page.until(lambda: page.state()["time"] > 0.2)
    assert page.ask("return typeof hacked") == "undefined"
    assert page.ask("return ibol.runs") == runs
    titles = page.ask("return Array.from(document.querySelectorAll('.viewer h2'), (h) => h.firstChild.textContent)")
    assert titles == runs
    assert len(page.find(".pad")) == 1, "runs with the same latents share the pad"
    assert len(page.find("img, svg")) == 0
    first, second = page.ask("return [ibol.state(0).location, ibol.state(1).location]")
    assert first == second, "the same skills from the same start"
    assert page.errors() == []


@needs_build
def test_every_prior_can_be_chosen_from(browser: Any, tmp_path: Path) -> None:
    made = [describe(name, toy(*prior), "toy", "") for name, prior in (
        ("discrete", ("one_hot", 5)), ("sphere", ("sphere", 3)), ("line", ("gaussian", 1)), ("many", ("gaussian", 12))
    )]  # fmt: skip
    file = tmp_path / "skills.html"
    file.write_text(write.filled(write.built(), json.loads(json.dumps(collected(made)))))
    page = Page(browser).open(file.as_uri())
    assert len(page.find(".chooser")) == 4
    buttons = page.find(".skills button")
    assert [button.text for button in buttons] == list("01234")
    buttons[3].click()
    assert page.state(0)["chosen"] == [0, 0, 0, 1, 0]
    assert buttons[3].get_attribute("aria-pressed") == "true"
    page.ask("ibol.choose([0.5, 0.5, 1], 1)")
    assert np.linalg.norm(page.state(1)["chosen"]) == pytest.approx(1)
    assert [len(chooser) for chooser in (page.find(".pad.flat"), page.find("input[type=range]"))] == [1, 1 + 10]
    page.press("n")
    assert sum(page.state(0)["chosen"]) == 1
    assert all(len(page.state(i)["chosen"]) == dim for i, dim in enumerate((5, 3, 1, 12)))
    agent = toy("sphere", 3)
    chosen = np.array([0.6, 0.0, 0.8], np.float32)
    found = page.ask("return ibol.act([0.1, 0.2], arguments[0], 1).action", chosen.tolist())
    np.testing.assert_allclose(found, agent.act([0.1, 0.2], chosen, deterministic=True), atol=1e-6)
    page.press("t")
    page.until(lambda: page.state(0)["chosen"][0] == 1)
    assert page.errors() == []
