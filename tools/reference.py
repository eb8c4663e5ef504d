"""Tables of the documentation that are made from the code or from files of numbers: commands with their flags,
settings, metrics, tuning, reporting runs, own robots.

A page asks for one of them by a line such as `<!-- insert: commands -->`.
"""

import argparse
import dataclasses
import functools
import importlib
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import tyro

from ibol import cli, presets
from ibol.cli import parsing
from ibol.metrics.catalogue import CATALOGUE, Metric
from ibol.training import launch

INSERT = re.compile(r"^<!-- insert: ([\w-]+)(?: ([\w-]+))? -->$", re.M)
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ENV_OF = {"linearize": "ant", "discover": "ant", "sac": "half_cheetah", "downstream": "ant_goal"}
"""For which environment the defaults of commands that train are shown."""
PARTS = {"raw": "without a linearizer", "none": "without skills"}
"""Parts of presets that are no environments."""


class _ParserMade(Exception):
    """Carries a command's parser out of the command."""


@functools.cache
def parser_of(command: str, *args: str) -> argparse.ArgumentParser:
    """The parser of a command, which is not run."""

    def make(kind: Any, *, prog: str, description: str, config: Any = (), args: Any = (), **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of get_parser: argparse is to become optional
            raise _ParserMade(
                tyro.extras.get_parser(kind, prog=prog, description=description, config=config, **options)
            )

    with mock.patch.object(parsing.tyro, "cli", make):
        try:
            cli.COMMANDS[command]([*filter(None, [ENV_OF.get(command)]), *args])
        except _ParserMade as made:
            parser: argparse.ArgumentParser = made.args[0]
            return parser
    raise RuntimeError(f"ibol {command} parses nothing")


def actions_of(parser: argparse.ArgumentParser) -> list[tuple[str, list[argparse.Action]]]:
    """Its groups of arguments, with their titles."""
    groups = ((group.title or "", group._group_actions) for group in parser._action_groups)
    return [(title, [a for a in actions if a.dest != "help"]) for title, actions in groups]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in cells)} |" for cells in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def commands_text() -> str:
    """Every command: what it does, its arguments, its flags with their defaults."""
    return "\n".join(_command(name) for name in cli.COMMANDS)


def _command(name: str) -> str:
    parser = parser_of(name)
    groups = actions_of(parser)
    places = [a.metavar for _, actions in groups for a in actions if not a.option_strings]
    usage = " ".join(["ibol", name, *map(str, places)])
    parts = [f"## ibol {name}\n", f"{(parser.description or '').strip()}\n", f"```text\n{usage} [OPTIONS]\n```\n"]
    rows = [
        _row(a) for title, actions in groups for a in actions if name not in ENV_OF or not title.startswith("settings")
    ]
    if rows:
        parts.append(table(["argument", "default", "what it is"], rows))
    if name in ENV_OF:
        method = "ibol" if name == "discover" else name
        parts.append(f"Every [setting](settings.md#{method}) of the method is a flag, too.\n")
    return "\n".join(parts)


def _row(action: argparse.Action) -> tuple[str, str, str]:
    """Name, default and meaning of an argument."""
    text, default = _split(_plain(action.help or ""))
    names = " ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar}`"
    values = action.choices if action.choices is not None else None
    if values is not None:
        text = f"{text.strip()} One of {', '.join(f'`{value}`' for value in sorted(values))}."
    return names, f"`{default}`" if default not in ("", "required") else default, text.strip()


_DEFAULT = re.compile(r"\s*\((?:(?P<note>required|repeatable)|default: (?P<value>(?:[^()]|\([^()]*\))*))\)\s*$")


def _split(text: str) -> tuple[str, str]:
    """The text of a help and the default that tyro writes behind it; one that says nothing is left out."""
    found = _DEFAULT.search(text)
    if found is None:
        return text, ""
    default = found["value"] or ""
    if found["note"] == "required":
        default = "required"
    return text[: found.start()], "" if default in ("None", "''") else default


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("<", "&lt;")


def settings_text() -> str:
    """The settings of all methods: their meaning, and the values of the presets `paper` and `fast`."""
    discovery = launch.discovery_methods()
    return "\n".join(_settings(name) for name in [*sorted(discovery, key="ibol".__ne__), *_others(discovery)])


def _others(discovery: Iterable[str]) -> list[str]:
    return [name for name in presets.commands() if name not in discovery]


def _settings(method: str) -> str:
    config, columns = launch.find(method).config, [name for name in presets.names(method) if name != "smoke"]
    meanings = _meanings(method)
    values = [dataclasses.asdict(presets.build(config, method, name, "")) for name in columns]
    rows = []
    for field in values[0]:
        flag = f"--{field.rstrip('_').replace('_', '-')}"
        rows.append([f"`{flag}`", *(f"`{_value(one[field])}`" for one in values), meanings.get(flag, "")])
    differ = [
        [
            PARTS.get(env, env),
            name,
            ", ".join(f"`{key}` {_value(value)}" for key, value in here.items()),
            presets.status(method, name, env),
        ]
        for name, general in zip(columns, values, strict=True)
        for env in _parts(method, name)
        if (here := _differing(presets.values(method, name, env, alone=True), general))
    ]
    text = f"## {method}\n\n" + table(["flag", *columns, "what it is"], rows)
    if differ:
        text += "\nWhere an environment has other values:\n\n"
        text += table(["where", "preset", "settings", "status"], differ)
    return text


def _differing(values: Mapping[str, Any], general: Mapping[str, Any]) -> dict[str, Any]:
    """Those values of a part of a preset that are not the preset's for all environments."""
    return {name: value for name, value in values.items() if _value(value) != _value(general[name])}


def _value(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _parts(method: str, preset: str) -> list[str]:
    return [part for part in presets._tables(method)[preset] if part != "all"]


def _meanings(method: str) -> dict[str, str]:
    """What each flag of a method means."""
    command = method if method in cli.COMMANDS else "discover"
    parser = parser_of(command, *([] if command == method else ["--method", method]))
    actions = [action for _, group in actions_of(parser) for action in group]
    return {name: _row(action)[2] for action in actions for name in action.option_strings}


def metrics_text() -> str:
    """What 'ibol evaluate' measures."""
    measured = [metric for metric in CATALOGUE.values() if metric.kind != "training"]
    rows = [[f"`{m.name}`", m.header, m.unit, m.better, _first_upper(m)] for m in measured]
    return table(["key in JSON", "column", "unit", "better", "what it is"], rows)


def _first_upper(metric: Metric) -> str:
    return metric.explanation[:1].upper() + metric.explanation[1:]


def tuning_text(method: str = "") -> str:
    """The settings that were tried for a method (default: all) on each robot; what the criterion chooses is bold."""
    tune = _tune()
    titles = {name: launch.find(name).title for name in tune.METHODS}
    rows = []
    for file in sorted(tune.TUNING.glob("*.json")):
        for row, chosen in tune.choose(file.stem):
            if method in ("", row["method"]):
                rows.append([file.stem, *([] if method else [titles[row["method"]]]), *_try(row, chosen)])
    header = ["environment", *([] if method else ["method"]), "settings", "information from neighbours", "accuracy"]
    return table([*header, "spread (m)"], rows)


def _try(row: Mapping[str, Any], chosen: bool) -> list[str]:
    scores, where = row["scores"], "" if row["linearizer"] is not None else "without a linearizer: "
    changes = ", ".join(f"`{name} {_value(value)}`" for name, value in row["settings"].items())
    information = f"{scores['neighbour_information']:.2f}"
    cells = [where + changes, f"**{information}**" if chosen else information]
    return [*cells, f"{scores['accuracy']:.3f}", f"{scores['spread']:.1f}"]


def reporting_text(method: str = "") -> str:
    """The reporting runs of a method, each a row; of all methods their means, with the lowest and highest run."""
    titles = {name: launch.find(name).title for name in _tune().METHODS}
    rows = []
    for env, found in reporting_rows():
        sampled = [row for row in found if row["policy"] == "sampled"]
        for name in [method] if method else [one for one in titles if any(row["name"] == one for row in sampled)]:
            runs = sorted((row for row in sampled if row["name"] == name), key=_which)
            if method:
                rows += [[env, *_which(row), *_cells([row])] for row in runs]
            else:
                rows.append([env, titles[name], str(len(runs)), *_cells(runs)])
        if not method:
            for policy, called in (("untrained", "initial policy"), ("random", "random")):
                runs = [row for row in found if row["policy"] == policy]
                rows.append([env, called, str(len(runs)), *_cells(runs)])
    header = ["environment", *(["linearizer", "seed"] if method else ["policy", "runs"]), "information from neighbours"]
    return table([*header, "accuracy", "spread (m)", "1 m cells", "emptiest direction", "goals hit"], rows)


def reporting_rows() -> list[tuple[str, list[dict[str, Any]]]]:
    """The kept rows of reporting runs, by environment."""
    files = sorted((BENCHMARKS / "results").glob("reporting_*.json"))
    return [(file.stem.removeprefix("reporting_"), json.loads(file.read_text())["results"]) for file in files]


def _which(row: Mapping[str, Any]) -> tuple[str, str]:
    """A run's linearizer and seed."""
    return row["linearizer"] or "none", str(row["seed"])


_MEASURED = (("neighbour_information", ".2f"), ("accuracy", ".2f"), ("spread", ".1f"), ("unit_coverage", ".0f"),
             ("smallest_sector", ".1%"), ("goal_hit_3m", ".0%"))  # fmt: skip


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The mean over runs of each measure, and their range where there are several."""
    cells = []
    for name, shape in _MEASURED:
        values = [float(row[name]) for row in runs if name in row]
        mean = format(sum(values) / len(values), shape) if values else "-"
        ends = f" ({min(values):{shape}} to {max(values):{shape}})" if len(values) > 1 else ""
        cells.append(mean + ends)
    return cells


def own_robots_text(part: str) -> str:
    """What robots that nobody tuned gave: their linearizers, or skills on them."""
    rows = json.loads((BENCHMARKS / "results" / "own_robots.json").read_text())["results"]
    if part == "linearizers":
        return table(
            ["robot", "seed", "reached (m)", "fallen at the end", "million steps", "minutes of training"],
            ([row["robot"], row["seed"], *_linearizer_cells(row["linearizer"])] for row in rows),
        )
    titles = {name: launch.find(name).title for name in launch.discovery_methods()}
    measured = [
        [row["robot"], titles[name], row["seed"], *_skills_cells(row[name])]
        for row in rows
        for name in titles
        if name in row
    ]
    header = ["robot", "method", "seed", "information from neighbours", "accuracy", "spread (m)"]
    header += ["episodes that ended early", "where they end"]
    return table([*header, "minutes of training"], measured)


def _linearizer_cells(row: Mapping[str, Any]) -> list[str]:
    line = "forward" in row
    reached = f"{row['forward']:.1f}, {row['backward']:.1f}" if line else f"{row['distance']:.1f} on average"
    fallen = f"{row['fallen']:.0%}" if "fallen" in row else "-"
    return [reached, fallen, f"{row['env_steps'] / 1e6:.1f}", f"{row['training_minutes']:.0f}"]


def _skills_cells(row: Mapping[str, Any]) -> list[str]:
    """Each number with those of the initial and the random policy behind it."""
    policies = [row["scores"][policy] for policy in ("skills", "untrained", "random")]
    digits = {"neighbour_information": 2, "accuracy": 2, "spread": 1}
    compared = [" / ".join(f"{one[name]:.{n}f}" for one in policies) for name, n in digits.items()]
    compared.append(" / ".join(f"{one['ended_early']:.0%}" for one in policies))
    skills = policies[0]
    line = "lowest" in skills
    ends = (
        f"{skills['lowest']:.1f} to {skills['highest']:.1f} m"
        if line
        else (f"{skills['smallest_sector']:.1%} in the emptiest of 12 directions")
    )
    return [*compared, ends, f"{row['training_minutes']:.0f}"]


def _tune() -> Any:
    """benchmarks/tune.py, which has the criterion."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("tune")
    finally:
        sys.path.remove(str(BENCHMARKS))


INSERTS: dict[str, Callable[..., str]] = {
    "commands": commands_text,
    "settings": settings_text,
    "evaluation-metrics": metrics_text,
    "own-robots": own_robots_text,
    "reporting": reporting_text,
    "tuning": tuning_text,
}


def insert(text: str) -> str:
    """A page with the tables that it asks for."""
    return INSERT.sub(lambda wanted: INSERTS[wanted[1]](*filter(None, [wanted[2]])), text)
