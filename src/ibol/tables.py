"""What the command line shows as tables."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from ibol import presets, zoo
from ibol.envs import ENVS, make, names, sizes
from ibol.evaluation.rows import cell
from ibol.learners.normalizer import Normalizer
from ibol.metrics.catalogue import find_metric
from ibol.runs.progress import clock
from ibol.training.launch import find

if TYPE_CHECKING:
    from ibol.experiments.status import EntryStatus

_APART = ("run", "env", "method", "policy", "intervals")


def show(table: Table) -> None:
    """Print a table as it is; into a file or pipe it is printed wide enough for its content."""
    wide = None if Console().is_terminal else 500
    Console(file=sys.stdout, width=wide, markup=False, emoji=False).print(table)


def envs_table() -> Table:
    """The environments that come with ibol."""
    table = Table("environment", "state", "action", "steps", "location", "Gymnasium id", "what it is")
    for name, entry in ENVS.items():
        # Without a horizon it is as large as the paths that it is given.
        size = ("", "", "") if entry.horizon is None else (*map(str, sizes(make(name))), str(entry.horizon))
        table.add_row(name, *size, ", ".join(map(str, entry.location_dims)), entry.gym_id, entry.summary)
        if name == names()[-1]:
            table.add_section()
    table.caption = "Any Gymnasium id, or module:function that makes a Gymnasium environment, works in their place."
    return table


def zoo_table() -> Table:
    """The skills that come with ibol."""
    table = Table(
        "name", "method", "environment", "accuracy", "information (nats)", "spread (m)", "made in (min)", "not good for"
    )
    for name in zoo.names():
        card = zoo.card(name)
        scores = card["scores"]["skills"]
        numbers = [f"{scores[key]:.2f}" for key in ("accuracy", "neighbour_information", "spread")]
        table.add_row(name, card["title"], card["env"], *numbers, f"{card['minutes']:.0f}", card["limits"])
    table.caption = (
        "Such a name can stand wherever a run directory can. Accuracy: which of 8 latents, from where the robot ended."
    )
    return table


def card_table(name: str) -> Table:
    """All that is known of bundled skills."""
    card = zoo.card(name)
    table = Table("", *card["scores"], title=f"{name}: {card['title']} on {card['env']}")
    for score in next(iter(card["scores"].values())):
        table.add_row(find_metric(score).axis, *(cell(scores, score) for scores in card["scores"].values()))
    versions = ", ".join(f"{package} {number}" for package, number in card["versions"].items())
    table.caption = (
        f"{card['command']} (linearizer: {card['linearizer']}; {card['env_steps']:,} steps, {card['minutes']} minutes; "
        f"{versions}). Not good for: {card['limits']}."
    )
    return table


def presets_table(command: str, env: str = "") -> Table:
    """The settings of a command's presets side by side; what the presets agree on is dim."""
    columns = presets.names(command)
    table = Table("setting", *columns, title=f"ibol {command}{' ' + env if env else ''}")
    config = find(command).config
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
    """One table for the runs that were measured by the same numbers; those of skills are apart by what they say."""
    tables: dict[tuple[str, ...], dict[Any, list[str]]] = {}
    for row in rows:
        who, names = _who(row), [name for name in row if name not in _APART]
        views = [names]
        if "bins" in row:
            informs = [name for name in names if name == "bins" or find_metric(name).kind == "information"]
            goals = [name for name in names if find_metric(name).kind == "goals"]
            behaviour = [name for name in names if name not in (*informs, *goals)]
            views = [view for view in (informs, behaviour, goals) if view]
        for view in views:
            lines = tables.setdefault((*who, *(find_metric(name).column for name in view)), {})
            # Behaviour is the same for any number of bins; everything else is a line of its own.
            which = tuple(row.get(name) for name in _APART[:4]), row["bins"] if "bins" in view else None
            lines[which] = [*who.values(), *(cell(row, name) for name in view)]
    shown = []
    for headers, lines in tables.items():
        table = Table(*headers)
        for line in lines.values():
            table.add_row(*line)
        shown.append(table)
    return shown


def experiment_table(lines: "Sequence[EntryStatus]", directory: str) -> Table:
    """What each entry of an experiment needs, what is there, and how long the rest takes."""
    table = Table("entry", "where", "runs", "done", "running", "failed", "time left", "state", "what it shows")
    for line in lines:
        about = f"~{clock(line.seconds)}" + ("" if line.known else " (a guess)")
        left = about if line.seconds else ""
        counts = [str(line.counts.get(kind, 0)) for kind in ("done", "running", "failed")]
        table.add_row(line.name, line.paper, str(line.needed), *counts, left, line.state, line.title)
    table.caption = f"in {directory}"
    return table


def _who(row: Mapping[str, Any]) -> dict[str, str]:
    if "policy" not in row:
        solving = {"skills": row["method"]} if "method" in row else {}
        return {"run": row["run"], "environment": row["env"], **solving}
    trained = row["policy"] == "skills"
    return {
        "run": row["run"] if trained else "",
        "environment": row["env"],
        "skills": row["method"] if trained else f"  {row['policy']}",
    }
