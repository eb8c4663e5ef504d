"""Skills that come with `ibol`: each is a run of 'ibol discover', small enough to be bundled, with a card.

`ant` is IBOL's on Ant, `ant:diayn` DIAYN's: such a name can stand wherever the directory of a run can. `tools/zoo.py`
makes an entry from a finished run.
"""

import json
import os
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "skills"
CARD, PICTURE = "card.json", "picture.png"
FIRST = "ibol"
"""The method whose skills are meant where a name has none."""
_DECIDE = ("mujoco", "jax")  # other versions of these make other trajectories
_warned: set[str] = set()


def names() -> list[str]:
    """The names of all bundled skills, IBOL's before those of other methods in each environment."""
    found = [path.parent.name.rpartition("-") for path in DIRECTORY.glob(f"*/{CARD}")]
    return [_name(env, method) for env, _, method in sorted(found, key=lambda one: (one[0], one[2] != FIRST, one[2]))]


def locate(run: str | Path) -> Path:
    """The directory of a run: `run` itself where it exists, otherwise that of the bundled skills with this name."""
    path = Path(run)
    env, _, method = str(run).partition(":")
    entry = DIRECTORY / f"{env}-{method or FIRST}"
    is_name = path.name == str(run) and not os.path.exists(path)  # where a name is too long, there is nothing, either
    return entry if is_name and os.path.isfile(entry / CARD) else path


def is_bundled(path: Path) -> bool:
    """Whether this is the directory of bundled skills, which nobody writes into."""
    return path.parent == DIRECTORY


def label(path: Path) -> str:
    """What a run is called in tables: the name of bundled skills, or the run's path."""
    env, _, method = path.name.rpartition("-")
    return _name(env, method) if is_bundled(path) else str(path)


def card(name: str) -> dict[str, Any]:
    """What is known of bundled skills: how they were made, what they score, what they are not good for."""
    return dict(json.loads((locate(name) / CARD).read_text()))


def warn_of_versions(path: Path, made_with: dict[str, str]) -> None:
    """Say once that bundled skills were made with other versions of what decides trajectories."""
    differing = [
        f"{package} {made_with[package]} (here {here})"
        for package in _DECIDE
        if package in made_with and (here := _version(package)) != made_with[package]
    ]
    if differing and path.name not in _warned:
        _warned.add(path.name)
        warnings.warn(
            f"the skills {label(path)} were trained with {' and '.join(differing)}: trajectories may differ a little",
            UserWarning,
            stacklevel=2,
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _name(env: str, method: str) -> str:
    return env if method == FIRST else f"{env}:{method}"
