"""Presets: settings as data, one TOML file for each command.

A file has a table for each preset; its `all` part holds for every environment and a part with an environment's name
adds what differs there. A part `raw` adds what differs without a linearizer, and `none` without skills. `status` says
what the values stand on. `variants.toml` has the paper's variants of a command: a few settings that belong together,
whatever the preset. A method from outside has such a file beside its module.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, TypeVar

from ibol import bounds, outside
from ibol.errors import IbolError, naming, unknown

Config = TypeVar("Config")
DEFAULT = "fast"
_FOLDER = resources.files("ibol.presets")


def commands() -> list[str]:
    """The commands and the methods of this package that have presets."""
    names = (file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name.endswith(".toml"))
    return sorted(name for name in names if name != "variants")


def names(command: str) -> list[str]:
    """The presets of a command."""
    return list(_tables(command))


def values(command: str, preset: str, env: str, *, alone: bool = False) -> dict[str, Any]:
    """The settings of a preset for an environment, without its status; `alone` only what differs there."""
    merged = dict(_tables(command)[preset].get(env, {})) if alone else _merged(command, preset, env)
    merged.pop("status", None)
    return merged


def status(command: str, preset: str, env: str) -> str:
    """What the values of a preset stand on for an environment."""
    return str(_merged(command, preset, env).get("status", "untested"))


def variants(command: str) -> dict[str, dict[str, Any]]:
    """The named variants of a command such as `discover`, and what each of them sets."""
    return dict(tomllib.loads((_FOLDER / "variants.toml").read_text()).get(command, {}))


def build(
    config: type[Config],
    command: str,
    preset: str,
    env: str,
    part: str = "",
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """The command's configuration with the preset's values, those of its part `part` if it has one, and overrides."""
    settings = values(command, preset, env)
    if part != part_of(settings):  # what an environment has by itself is in its own part
        settings |= values(command, preset, part, alone=True)
    settings |= dict(overrides or {})
    fields = {field.name for field in dataclasses.fields(config)}  # type: ignore[arg-type]
    if strangers := sorted(set(settings) - fields):
        with naming(f"the preset {preset!r} of {command!r}"):
            raise unknown("setting", strangers[0], fields)
    built = config(**{name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()})
    if not _file(command).is_file():
        with naming(f"the preset {preset!r} of {command!r}"):
            bounds.check(built)
    return built


def part_of(settings: Mapping[str, Any]) -> str:
    """The part of a preset that settings ask for: `raw` without a linearizer, `none` without skills, or nothing."""
    return "raw" if settings.get("linearizer") == "none" else str(settings.get("skills", ""))


def _merged(command: str, preset: str, env: str) -> dict[str, Any]:
    tables = _tables(command)
    if preset not in tables:
        raise unknown("preset", preset, tables)
    parts = tables[preset]
    own = parts.get(env, {})
    # Being tuned on some environment says nothing about the others.
    base = {name: value for name, value in parts.get("all", {}).items() if not (own and name == "status")}
    return {**base, **own}


def _tables(command: str) -> dict[str, Any]:
    file = _file(command)
    if file.is_file():
        return tomllib.loads(file.read_text())
    if not outside.is_known(command):
        raise unknown("command", command, [*commands(), *outside.installed()])
    place, text = outside.presets_of(command)
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise IbolError(f"the presets {place} of the method {command!r} are not valid TOML: {error}") from None
    for name, parts in tables.items():
        if not isinstance(parts, dict) or not all(isinstance(part, dict) for part in parts.values()):
            raise IbolError(
                f"the presets {place} of the method {command!r} have {name!r} without parts: "
                f"give settings in tables such as [{name}.all]"
            )
    if DEFAULT not in tables:
        raise IbolError(f"the presets {place} of the method {command!r} lack the table [{DEFAULT}.all]")
    return tables


def _file(command: str) -> Traversable:
    """Where the presets of a command of this package are."""
    return _FOLDER / f"{command}.toml"
