"""The own robots that are known in this process, and what a run keeps of one: `robot/robot.toml` and its model's text.

A known robot is called `name@digest`, after its physics and its episodes: the same name is always the same robot.
"""

import dataclasses
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ibol.errors import IbolError
from ibol.robots.model import MOST_TEXT, check_text
from ibol.robots.own import own_of, read_description, robot_of
from ibol.robots.robot import Robot

FOLDER = "robot"
DESCRIPTION, MODEL = "robot.toml", "model.xml"
GOAL = "_goal"
"""Ends the name of the task of reaching a location."""
_MARKED = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)@([0-9a-f]{8})")
_SHOWN_ONLY = ("name", "summary", "camera", "square", "goal_range")  # not part of what a robot is
_MOST_DESCRIPTION = 2**20  # bytes

KNOWN: dict[str, Robot] = {}
"""Own robots by name."""


def named(robot: Robot) -> Robot:
    """Make an own robot known; its name then has its digest."""
    plain = dataclasses.replace(robot, name=robot.name.partition("@")[0])
    marked = dataclasses.replace(plain, name=f"{plain.name}@{_digest(plain)}")
    return KNOWN.setdefault(marked.name, marked)


def _digest(robot: Robot) -> str:
    """Of all that decides how a robot moves; what has its default value does not count, so that fields can be added."""
    content = {
        field.name: getattr(robot, field.name)
        for field in dataclasses.fields(robot)
        if field.name not in _SHOWN_ONLY and getattr(robot, field.name) != field.default
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def is_marked(env: Any) -> bool:
    """Whether this is the name of an own robot, or of the task of reaching a location with one."""
    return isinstance(env, str) and _MARKED.fullmatch(env.removesuffix(GOAL)) is not None


def known_as(env: str, among: Iterable[str] = ()) -> str:
    """What an environment is called where people read it: an own robot, or the task with it, without its digest.

    The digest stays where another robot of that name is `among` what is shown.
    """
    if not is_marked(env) or any(other != env and known_as(other) == known_as(env) for other in among):
        return env
    return env.partition("@")[0] + (GOAL if env.endswith(GOAL) else "")


def keep(run: Path, env: str) -> None:
    """Write the own robot that an environment has, if it has one, into the directory of a run."""
    robot = KNOWN.get(env.removesuffix(GOAL))
    if robot is None:
        return
    folder = run / FOLDER
    if folder.is_symlink():
        raise IbolError(f"{folder} is a symbolic link, and nothing is written through links inside of a run")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MODEL).write_text(robot.model)
    (folder / DESCRIPTION).write_text(description_text(robot))


def description_text(robot: Robot) -> str:
    """The TOML file of an own robot, with everything that was found out about it."""
    own = own_of(robot)
    lines = [
        f"{field.name} = {_toml(value)}"
        for field in dataclasses.fields(own)
        if (value := getattr(own, field.name)) != field.default and value is not None
    ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {_toml(one)}' for name, one in value.items())}}}"
    return json.dumps(value, ensure_ascii=False)


def admit(directory: Path, env: Any) -> None:
    """Make the own robot known that the run in a directory is about; nothing outside of the directory is read.

    The run may come from anybody: the model is a text without any file, and all of it is what its name says.
    """
    if not is_marked(env) or env.removesuffix(GOAL) in KNOWN:
        return
    name, folder = env.removesuffix(GOAL), directory / FOLDER
    if folder.is_symlink() or not folder.is_dir():
        raise IbolError(f"{directory} uses the own robot {name}, but keeps no description of it in {folder}")
    source = f"in {folder}"
    own = read_description(folder / DESCRIPTION, _read(folder / DESCRIPTION, _MOST_DESCRIPTION))
    if own.model != MODEL:
        raise IbolError(f"{folder / DESCRIPTION} names the model {own.model!r:.80}, but a run keeps its own {MODEL}")
    text = _read(folder / MODEL, MOST_TEXT)
    check_text(text, source)
    start = own.start if isinstance(own.start, tuple) else None
    if (isinstance(own.start, str) and own.start) or own.symmetries == "auto":
        raise IbolError(f"{folder / DESCRIPTION} leaves something to be found out, but a run keeps the whole robot")
    robot = robot_of(own, text, source, start, None)
    if f"{robot.name}@{_digest(robot)}" != name:
        raise IbolError(f"the robot {source} is not the {name} that the run was trained with: it was changed")
    named(robot)


def _read(path: Path, most: int) -> str:
    """The text of a plain file, which is no link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                raise IbolError(f"{path} is not a plain file of at most {most} bytes")
            return file.read(most).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise IbolError(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None
