"""What the command line shows as tables."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from ibol import presets
from ibol.envs import ROBOTS, make, names, sizes
from ibol.learners.normalizer import Normalizer
from ibol.methods import find

_POINT_SUMMARY = "a point in the plane; the paper's toy for ablations"


def show(table: Table) -> None:
    """Print a table; into a file or pipe it is printed wide enough for its content."""
    console = Console()
    if not console.is_terminal:
        console = Console(file=sys.stdout, width=200)
    console.print(table)


def envs_table() -> Table:
    """The environments that come with ibol."""
    table = Table("environment", "state", "action", "steps", "location", "Gymnasium id", "what it is")
    for name in names():
        env = make(name)
        summary = ROBOTS[name].summary if name in ROBOTS else _POINT_SUMMARY
        state, action = sizes(env)
        location = ", ".join(map(str, env.location_dims))
        gym_id = "ibol/" + "".join(part.capitalize() for part in name.split("_")) + "-v0"
        table.add_row(name, str(state), str(action), str(env.horizon), location, gym_id, summary)
    table.caption = "Any Gymnasium id, or module:function that makes a Gymnasium environment, works in their place."
    return table


def presets_table(command: str, env: str = "") -> Table:
    """The settings of a command's presets side by side; what the presets agree on is dim."""
    columns = presets.names(command)
    table = Table("setting", *columns, title=f"ibol {command}{' ' + env if env else ''}")
    config = find(command).CONFIG
    settings = [dataclasses.asdict(presets.build(config, command, name, env)) for name in columns]
    for field in settings[0]:
        cells = [str(values[field]) for values in settings]
        table.add_row(field, *cells, style="dim" if len(set(cells)) == 1 else None)
    table.add_section()
    table.add_row("status", *(presets.status(command, name, env) for name in columns))
    return table


def normalizer_table(env: str, normalizer: Normalizer) -> Table:
    """Mean and standard deviation of each state dimension."""
    table = Table("dimension", "mean", "std", title=f"{env} under random actions")
    for i, (mean, std) in enumerate(zip(normalizer.mean, normalizer.std, strict=True)):
        table.add_row(str(i), f"{mean:.4f}", f"{std:.4f}")
    return table


def evaluation_tables(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """One table for the runs that were measured by the same numbers."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row), []).append(row)
    tables = []
    for columns, members in groups.items():
        table = Table(*(column.replace("_", " ") for column in columns))
        for row in members:
            table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
        tables.append(table)
    return tables
