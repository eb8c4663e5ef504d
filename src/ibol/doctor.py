"""`ibol doctor`: what this installation has, next to the versions that ibol was tested with, and what is missing."""

import importlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from ibol import cache, gl, memory
from ibol.errors import IbolError

State = Literal["ok", "note", "missing", "broken"]
PYTHONS = ("3.11",)
"""The versions of Python that all tests passed with."""
_FOR_DEVELOPERS = ("dev", "docs", "benchmarks")
_PACKAGE = Path(__file__).parent
_TESTED = (_PACKAGE / "constraints.txt", _PACKAGE.parents[1] / "constraints.txt")
"""The tested versions: in a wheel, and in the repository."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    group: Literal["software", "hardware", "pictures", "files", "extras"]
    name: str
    found: str
    """What is here."""
    state: State
    """`broken` is what ibol needs and does not have; `missing` is what only some commands need."""
    tested: str = ""
    """The version that the tests last passed with."""
    advice: str = ""
    """What to do, in one sentence."""


def examine(version: str) -> list[Check]:
    """All checks of ibol in this version; nothing is changed."""
    parts: list[Callable[[], Iterator[Check]]] = [partial(_software, version), _hardware, _pictures, _files, _extras]
    return [check for part in parts for check in part()]


def as_json(checks: list[Check]) -> dict[str, Any]:
    """The checks for other programs."""
    return {"healthy": healthy(checks), "checks": [asdict(check) for check in checks]}


def healthy(checks: list[Check]) -> bool:
    """Whether everything that ibol needs works."""
    return all(check.state != "broken" for check in checks)


def tested_versions() -> dict[str, str]:
    """Versions by package that the tests last passed with, as far as this installation knows them."""
    for file in _TESTED:
        if file.is_file():
            lines = (line.split("==") for line in file.read_text().splitlines() if "==" in line and line[0] != "#")
            return {_plain(name): version.strip() for name, version in lines}
    return {}


def _software(ibol: str) -> Iterator[Check]:
    place = _PACKAGE if _PACKAGE.parent.name != "src" else _PACKAGE.parents[1]
    yield Check("software", "ibol", f"{ibol} in {place}", "ok")
    version = platform.python_version()
    fits = version.rpartition(".")[0] in PYTHONS
    yield Check(
        "software", "Python", version, "ok" if fits else "note", ", ".join(PYTHONS),
        "" if fits else f"ibol is tested with Python {', '.join(PYTHONS)}, and not with this one.",
    )  # fmt: skip
    tested = tested_versions()
    required = _requirements()
    if not required:
        advice = "ibol runs from its source without being installed: 'pip install .' there checks what it needs."
        yield Check("software", "metadata", "none", "note", advice=advice)
    for requirement in required.get("", []):
        yield _package(requirement, tested, "software", "broken", f"pip install '{requirement}'")


def _package(requirement: Requirement, tested: dict[str, str], group: Any, absent: State, command: str) -> Check:
    name = requirement.name
    usual = tested.get(_plain(name), "")
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        need = "ibol needs it" if absent == "broken" else "only some commands need it"
        return Check(group, name, "not installed", absent, usual, f"{name} is not installed ({need}): {command}")
    if not requirement.specifier.contains(found, prereleases=True):
        advice = f"{name} {found} does not fit {requirement}: pip install '{requirement}'"
        return Check(group, name, found, absent, usual, advice)
    if usual and found != usual:
        return Check(group, name, found, "note", usual)
    return Check(group, name, found, "ok", usual)


def _hardware() -> Iterator[Check]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    said, advice, state = f"{cores} of {os.cpu_count()}", "", "ok"
    if quota is not None and quota < cores:
        said, state = f"{said}, limited to the time of {quota:.3g}", "note"
        advice = f"This container may use {quota:.3g} cores: --num-threads {max(round(quota), 1)} avoids waiting."
    yield Check("hardware", "cores", said, state, advice=advice)  # type: ignore[arg-type]
    free = memory.available()
    enough = free > 1e9
    yield Check(
        "hardware", "memory", f"{free / 1e9:.1f} GB free", "ok" if enough else "note",
        advice="" if enough else "A training on a robot needs about 1 GB of memory.",
    )  # fmt: skip
    yield _tried("hardware", "simulation", _simulation, "MuJoCo cannot simulate here")
    yield _tried("hardware", "JAX computes on", _devices, "JAX cannot compute here")


def _tried(group: Any, name: str, work: Callable[[], str], what: str) -> Check:
    try:
        return Check(group, name, work(), "ok")
    except Exception as error:  # whatever it is, it is what the user wants to know
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Check(group, name, "fails", "broken", advice=f"{what}: {said}")


def _simulation() -> str:
    import numpy as np

    from ibol.envs import make

    env = make("ant", 2, horizon=5)
    env.reset(seed=0)
    states = env.step(np.zeros(env.action_space.shape, np.float32))[0]
    if not np.isfinite(states).all():
        raise IbolError("states of Ant are not finite after one step")
    return "one step of two ants"


def _devices() -> str:
    import jax
    import jax.numpy as jnp

    if float(jax.jit(lambda x: (x * x).sum())(jnp.arange(3.0))) != 5.0:
        raise IbolError("0 + 1 + 4 is not 5")
    return ", ".join(sorted({str(device.platform) for device in jax.devices()}))


def _pictures() -> Iterator[Check]:
    """OpenGL is needed for films and for reports with films alone."""
    try:
        yield Check("pictures", "OpenGL", _small_picture(), "ok")
    except IbolError as error:
        advice = f"Films cannot be rendered ('ibol report --no-films' and all other commands work): {error}"
        yield Check("pictures", "OpenGL", "nothing renders", "missing", advice=advice)
    except Exception as error:
        said = f"Films cannot be rendered: {type(error).__name__}: {error}"
        yield Check("pictures", "OpenGL", "fails", "missing", advice=said)
    yield _tried("pictures", "ffmpeg", _encoder, "films cannot be encoded")


def _small_picture() -> str:
    import numpy as np

    from ibol.envs import ROBOTS, make
    from ibol.envs.rendering import Stage

    backend = gl.find_backend()
    env = make("ant", 1)
    state = env.reset(seed=0)[0][0]
    with Stage(ROBOTS["ant"], 64, 48) as stage:
        picture = stage.draw(state[None], np.array([0.2, 0.4, 0.8]))
    if len(np.unique(picture)) < 8:
        raise IbolError(f"{backend} renders an empty picture")
    return f"{backend}, a picture of 64 x 48"


def _encoder() -> str:
    return Path(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()).name


def _files() -> Iterator[Check]:
    from ibol.page.write import is_built

    place = cache.place()
    if place is None:
        advice = "Compiled functions are not kept (IBOL_CACHE is empty): every start compiles again."
        yield Check("files", "cache", "none", "note", advice=advice)
    else:
        count, size = cache.content(place)
        yield Check("files", "cache", f"{count} compiled functions, {size / 1e6:.0f} MB in {place}", "ok")
    free = shutil.disk_usage(Path.cwd()).free
    yield Check(
        "files", "disk", f"{free / 1e9:.1f} GB free here", "ok" if free > 1e9 else "note",
        advice="" if free > 1e9 else "A run with a replay buffer can need 1 GB.",
    )  # fmt: skip
    tools = {name: shutil.which(name) for name in ("node", "npm")}
    if is_built():
        yield Check("files", "page", "built", "ok")
        return
    there = " and ".join(name for name, path in tools.items() if path) or "neither node nor npm"
    how = "run 'make web' in the source of ibol" if all(tools.values()) else "install node and npm, then run 'make web'"
    advice = f"'ibol page' has no files: {how}, or install a wheel that has them."
    yield Check("files", "page", f"not built ({there} here)", "missing", advice=advice)


def _extras() -> Iterator[Check]:
    tested = tested_versions()
    for extra, requirements in _requirements().items():
        if extra and extra not in _FOR_DEVELOPERS:
            for requirement in requirements:
                yield _package(requirement, tested, "extras", "missing", f"pip install 'ibol[{extra}]'")


def _requirements() -> dict[str, list[Requirement]]:
    """What the installed ibol requires, by extra; those of none are under the empty name."""
    try:
        lines = metadata.requires("ibol") or []
        extras = metadata.metadata("ibol").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[Requirement]] = {"": [], **{extra: [] for extra in extras}}
    for requirement in map(Requirement, lines):
        for extra in found:
            usual = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if usual == (extra == "") and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
                found[extra].append(requirement)
    return found


def _quota() -> float | None:
    """How many cores' time a container may use (Linux, cgroup 2), if it is limited."""
    try:
        most, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    except (OSError, ValueError):
        return None


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
