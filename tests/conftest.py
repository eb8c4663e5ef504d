"""What several test files need: runs, trained once, and the command line as a user calls it."""

import fcntl
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

# Before JAX is imported: the tests compile the same functions in many processes, and the next time they run.
os.environ["IBOL_CACHE"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")

from ibol import cache
from ibol.cli import main
from ibol.runs.directory import RunDirectory

# A shell starts background jobs with signals ignored, and we keep to that; the tests are about the other case.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


BROWSER_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--enable-unsafe-swiftshader",  # WebGL in software
)  # fmt: skip


LONG = ("test_ray", "test_docs", "test_page", "test_results", "test_engines", "test_report", "test_edl", "test_sectar")
"""Files that take longest: they begin, so that in the end no process waits for another one's long test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, the others as they are."""
    places = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONG)))


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The directory that `make` fills, shared by all processes of this test run."""
    base = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / name).exists():
            part = factory.mktemp("making") / name
            make(part)
            part.rename(base / name)
    return base / name


@pytest.fixture(autouse=True)
def nothing_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are simulated anew, whatever the user's cache has."""
    monkeypatch.setattr(cache, "directory", lambda name: None)


@pytest.fixture(autouse=True, scope="module")
def room_for_compiled_functions() -> Iterator[None]:
    """Each compiled function takes some of a process's memory maps, of which Linux allows 65 530: XLA crashes then."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > 30_000:
        jax.clear_caches()


@pytest.fixture(scope="session")
def point_skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Skills on the point after two epochs; make a copy (`copy_run`) to change anything."""
    train = ["discover", "point", "--preset", "smoke", "--epochs", "2", "--quiet", "--run-dir"]
    return made_once(tmp_path_factory, "shared_ibol", lambda run: main([*train, str(run)]))


@pytest.fixture(scope="session")
def started_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium, driven by selenium: one for all tests of a process."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no Chromium: install it with 'apt-get install chromium chromium-driver'")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*BROWSER_FLAGS, f"--user-data-dir={profile}", "--window-size=1200,1600", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def browser(started_browser: Any) -> Iterator[Any]:
    """Chromium for the tests of a file. It rests afterwards: a page that moves would take a core from all others."""
    yield started_browser
    started_browser.get("about:blank")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The runs whose checkpoints were loaded, one entry each time."""
    loaded: list[Path] = []
    load = RunDirectory.use_checkpoint

    def counted(run: RunDirectory, *args: Any) -> Any:
        loaded.append(run.path)
        return load(run, *args)

    monkeypatch.setattr(RunDirectory, "use_checkpoint", counted)
    return loaded


def copy_run(run: Path, copy: Path, **changes: object) -> Path:
    """A copy that says that its seed or a setting was another one: whether this is true does not matter to a figure."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("evaluation"))
    config = json.loads((copy / "config.json").read_text())
    for name, value in changes.items():
        (config if name in config else config["settings"])[name] = value
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def call(*args: object) -> None:
    """`ibol` with these words."""
    main([str(arg) for arg in args])


def fails(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What a wrong call says; it must exit with 2 and never show a traceback."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        call(*args)
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said
