"""Tables of an experiment's file become cells; whatever is wrong in them is found here, before anything is trained.

A table has the flags of a command as keys: `method`, `env`, `variant`, `preset`, `seed`, and any setting. A list of
values means a run for each of them; where a setting itself has several values, such as `hidden`, a list of lists does.
A table in the place of a linearizer or of skills is a run of its own, which is trained first. The linearizer of an own
environment has the horizon, the location and the arguments of the run that it is for, unless its table says otherwise.
"""

import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from ibol import bounds, presets, trust, zoo
from ibol.envs import ENVS, TASKS
from ibol.envs.own import is_description
from ibol.envs.settings import EnvSettings
from ibol.errors import IbolError, unknown
from ibol.experiments.cells import SET, Cell
from ibol.linearizer.policy import bundled
from ibol.methods.discovery import find_linearizer
from ibol.training import launch

Table = Mapping[str, Any]
MOST = 10_000  # cells of a file
_WHICH = ("method", "env", "variant", "preset", "seed")
_ENV_FIELDS = tuple(field.name for field in dataclasses.fields(EnvSettings) if field.name != "num_threads")
_OWN_FIELDS = ("horizon", "location_dims", "env_kwargs")
_SET_KEYS = ("runs", "trajectories", "seed")


@dataclass
class Context:
    """What holds for all tables of a file."""

    source: str
    """The file, for messages."""
    preset: str
    seeds: int | None = None
    """So many seeds, and at most so many linearizers, where a table lists several."""
    settings: Mapping[str, Mapping[str, Table]] = field(default_factory=dict)
    """Settings of all runs, by preset and command."""


def expand(table: Table, context: Context, command: str = "", env: str = "") -> list[Cell]:
    """The cells that a table describes; `command` and `env` are what they are if the table does not say it."""
    if not isinstance(table, Mapping):
        raise IbolError(f"a run in {context.source} is {table!r:.80}, but a table of settings is needed")
    cells: list[Cell] = []
    table = {**table, **({"env_kwargs": _arguments(table["env_kwargs"])} if "env_kwargs" in table else {})}
    for method in _several(table.get("method", {"linearize": "linearize", "": None}.get(command, "ibol"))):
        if method is None:
            raise IbolError(f"a run in {context.source} has no method: choose one of {', '.join(_methods())}")
        if method not in launch.COMMANDS and not launch.is_method(str(method)):
            raise unknown("method", str(method), _methods(), f" (in {context.source})")
        trust.check_method(method, context.source)
        for place in _several(table.get("env", env)):
            own = {"seed": 0, "variant": "", **table, "method": method, "env": place}
            cells += [_cell(dict(zip(own, values, strict=True)), context) for values in _product(own, context)]
    return cells


def _product(table: Table, context: Context) -> list[tuple[Any, ...]]:
    """Every combination of the values in a table, whose method is one."""
    choices = [_choices(name, value, table, context) for name, value in table.items()]
    if math.prod(map(len, choices)) > MOST:
        raise IbolError(f"{context.source} has more than {MOST} runs: split it into several files")
    return list(itertools.product(*choices))


def _choices(name: str, value: Any, table: Table, context: Context) -> list[Any]:
    if name in ("linearizer", "skills"):
        return _sources(name, value, table, context)
    if name == "imitation_set":
        return [_imitation_set(value, table, context) if isinstance(value, Mapping) else _named(name, value, context)]
    grid = isinstance(value, list) and (
        not _is_tuple(str(table["method"]), name) or all(isinstance(one, list) for one in value)
    )
    if grid and not value:
        raise IbolError(f"{name} in {context.source} is empty, but at least one value is needed")
    if grid and name == "seed" and context.seeds is not None and len(value) > 1:
        counted = itertools.count(1 + max((one for one in value if isinstance(one, int)), default=0))
        return [*value, *itertools.islice(counted, max(0, context.seeds - len(value)))][: context.seeds]
    return list(value) if grid else [value]


def _sources(name: str, value: Any, table: Table, context: Context) -> list[Any]:
    """Linearizers or skills: names, or cells for the tables among them."""
    listed = _several(value)
    if name == "linearizer" and len(listed) > 1 and context.seeds is not None:
        listed = listed[: context.seeds]
    found: list[Any] = []
    for one in listed:
        if not isinstance(one, Mapping):
            found.append(_named(name, one, context))
        elif name == "linearizer":
            found += _linearizers(one, table, context)
        else:
            robot = TASKS[table["env"]].robot if table["env"] in TASKS else ""
            found += expand({"preset": table.get("preset", context.preset), **one}, context, "discover", robot)
    return found


def _named(name: str, value: Any, context: Context) -> Any:
    """A source by its name; a path is made absolute, so that it is found from wherever the run is trained."""
    if not isinstance(value, str):
        raise IbolError(f"{name} in {context.source} is {value!r:.80}, but a name, a path or a table is needed")
    if value in ("none", "bundled:0"):
        return value.removesuffix(":0")
    return str(Path(value).absolute()) if Path(value).exists() else value


def _linearizers(one: Table, table: Table, context: Context) -> list[Any]:
    """The cells of a linearizer's table; one that ships needs no training, unless all shall be the paper's."""
    preset = one.get("preset", table.get("preset", context.preset))
    wanted = {"preset": preset, **_of_own_env(table), **one, "method": "linearize"}
    found: list[Any] = []
    for cell in expand(wanted, context, "linearize", table["env"]):
        ships = set(one) <= {"seed"} and preset != "paper" and str(cell.seed) in bundled().get(cell.env, [])
        found.append(f"bundled:{cell.seed}".removesuffix(":0") if ships else cell)
    return found


def _of_own_env(table: Table) -> dict[str, Any]:
    """What a table says of an environment that is not ours, with one value for each key."""
    if table["env"] in ENVS:
        return {}
    given = {name: table[name] for name in _OWN_FIELDS if name in table}
    return {
        name: value
        for name, value in given.items()
        if not isinstance(value, list) or (name != "horizon" and not any(isinstance(one, list) for one in value))
    }


def _arguments(value: Any) -> Any:
    """Arguments of an environment: a table becomes what `--env-kwargs` takes, a list of tables a list of those."""
    if isinstance(value, Mapping):
        return [f"{name}={json.dumps(one)}" for name, one in value.items()]
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return [_arguments(one) for one in value]
    return value


def _imitation_set(value: Table, table: Table, context: Context) -> Cell:
    """The set of paths of all skills that a table describes."""
    for name in value:
        if name not in _SET_KEYS:
            raise unknown("setting of an imitation set", name, _SET_KEYS, f" (in {context.source})")
    robot = TASKS[table["env"]].robot if table["env"] in TASKS else ""
    preset = table.get("preset", context.preset)
    runs = value.get("runs")
    if not isinstance(runs, list) or not runs or not all(isinstance(one, Mapping) for one in runs):
        raise IbolError(f"imitation_set in {context.source} needs runs: the tables of those whose skills it has")
    members = [cell for one in runs for cell in expand({"preset": preset, **one}, context, "discover", robot)]
    seed = bounds.whole_number("seed of an imitation set", value.get("seed", 0), 0)
    usual = {"smoke": 16}.get(preset, 1000)
    trajectories = bounds.whole_number("trajectories of an imitation set", value.get("trajectories", usual))
    return Cell(SET, robot, preset, seed, {"trajectories": trajectories}, members=tuple(dict.fromkeys(members)))


def _cell(table: dict[str, Any], context: Context) -> Cell:
    """The cell of a table with one value for each key."""
    method, preset, env, variant = table["method"], table.get("preset", context.preset), table["env"], table["variant"]
    for name, value in (("preset", preset), ("env", env), ("variant", variant)):
        if not isinstance(value, str):
            raise IbolError(f"{name} in {context.source} is {value!r:.80}, but a name is needed")
    seed = bounds.whole_number("seed", table["seed"], 0)
    _check_env(method, env, context.source)
    command = method if method in launch.COMMANDS else "discover"
    chosen: dict[str, Any] = {}
    if variant:
        if variant not in presets.variants(command):
            raise unknown("variant", str(variant), presets.variants(command), f" (in {context.source})")
        chosen = presets.variants(command)[variant]
    settings = {name: value for name, value in table.items() if name not in (*_WHICH, *_ENV_FIELDS)}
    sources = {name: value for name, value in settings.items() if isinstance(value, Cell)}
    chosen = {**context.settings.get(preset, {}).get(command, {}), **chosen}
    kind = launch.find(method).config
    known = {one.name for one in dataclasses.fields(kind)}
    for name in (*settings, *chosen):
        if name not in known:
            raise unknown("setting", name, {*known, *_WHICH, *_ENV_FIELDS}, f" (of {method} in {context.source})")
    given = {name: _value(value) for name, value in {**chosen, **settings}.items() if name not in sources}
    part = presets.part_of(given)
    config: Any = dataclasses.replace(_preset(method, str(preset), env, part), **given)
    env_settings = {name: table[name] for name in _ENV_FIELDS if name in table}
    environment = EnvSettings(**{name: _value(value) for name, value in env_settings.items()})
    _check(config, environment, context.source)
    if "linearizer" in sources:
        environment = environment.completed(sources["linearizer"].environment())
    elif hasattr(config, "linearizer"):
        _check_linearizer(env, config.linearizer)
        environment = launch.find(method).complete(env, config, environment)
    for name in _OWN_FIELDS:
        if name not in env_settings and getattr(environment, name) != getattr(EnvSettings(), name):
            env_settings[name] = json.loads(json.dumps(getattr(environment, name)))
    if env not in ENVS:
        _check_own(env, environment)
        if getattr(config, "encoder_sees", "") == "location" and not environment.location_dims:
            raise IbolError(f"{env} in {context.source} has no location: give location_dims")
    if command == "downstream":
        _check_task(env, config, sources, context.source)
    values = json.loads(json.dumps({k: v for k, v in dataclasses.asdict(config).items() if k not in sources}))
    shown = {name: value for name, value in settings.items() if name not in ("linearizer", "skills", "imitation_set")}
    return Cell(method, env, str(preset), seed, values, env_settings, sources, (), shown, variant)


def _check(config: Any, env_settings: EnvSettings, source: str) -> None:
    try:
        bounds.check(config)
        bounds.check(env_settings)
    except IbolError as error:
        raise IbolError(f"{error} (in {source})") from None


def _check_env(method: str, env: Any, source: str) -> None:
    """Refuse an environment that there is not; one that is nobody's own needs the user's word."""
    if is_description(env):
        raise IbolError(
            f"{env} in {source} is an own robot, which experiments do not take: train it by single commands"
        )
    if method == "downstream":
        if env not in TASKS:
            raise unknown("task", str(env), TASKS, f" (in {source})")
        return
    if not env:
        raise IbolError(f"a run of {method} in {source} has no env: choose one of {', '.join(ENVS)}, or an own one")
    trust.check_env(env, source)


def _check_task(env: str, config: Any, sources: Mapping[str, Cell], source: str) -> None:
    """Refuse a task without the skills or paths that it needs."""
    if "skills" not in sources and config.skills != "none":
        if not config.skills:
            raise IbolError(f"{env} in {source} needs skills: a table of the run, a path or 'none'")
        if not (zoo.locate(config.skills) / "config.json").is_file():
            raise IbolError(f"there are no skills at {config.skills} (for {env} in {source})")
    if "imitation_set" in sources:
        return
    if TASKS[env].goal_range is None and not config.imitation_set:
        raise IbolError(f"{env} in {source} needs an imitation_set: a table with runs, or the path of a file")
    if config.imitation_set and not Path(config.imitation_set).is_file():
        raise IbolError(f"there is no imitation set at {config.imitation_set} (for {env} in {source})")


@functools.cache
def _preset(method: str, preset: str, env: str, part: str) -> Any:
    return presets.build(launch.find(method).config, method, preset, env, part)


@functools.cache
def _check_own(env: str, env_settings: EnvSettings) -> None:
    env_settings.make(env, 1).close()


@functools.cache
def _check_linearizer(env: str, source: str) -> None:
    find_linearizer(env, source)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _methods() -> tuple[str, ...]:
    return (*launch.discovery_methods(), *launch.COMMANDS)


@functools.cache
def _is_tuple(method: str, name: str) -> bool:
    """Whether a setting has several values by itself."""
    hints = {**get_type_hints(EnvSettings), **get_type_hints(launch.find(method).config)}
    hint = hints.get(name)
    return any(get_origin(one) is tuple for one in (hint, *getattr(hint, "__args__", ())))
