"""What the command line shows as tables."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ibol import presets, zoo
from ibol.envs import ENVS, GYMNASIUM, make, names, sizes
from ibol.evaluation.rows import cell
from ibol.learners.normalizer import Normalizer
from ibol.metrics.catalogue import Metric, find_metric
from ibol.robots import known_as
from ibol.runs.progress import clock
from ibol.tables.layout import Column, Sheet, short_names, show
from ibol.training.launch import find

if TYPE_CHECKING:
    from ibol.doctor import Check
    from ibol.experiments.status import EntryStatus

__all__ = [
    "card_table", "doctor_table", "envs_table", "evaluation_tables", "experiment_table", "normalizer_table",
    "presets_table", "show", "zoo_table",
]  # fmt: skip

INITIAL = "initial policy"
"""What tables call the policy that a run started from; in rows it is `untrained`."""
_APART = ("run", "env", "method", "policy", "intervals")
_IMPORTANT = {
    "skills": (
        "neighbour_information",
        "accuracy",
        "spread",
        "coverage",
        "information",
        "corrected",
        "state_information",
        "state_accuracy",
        "state_spread",
        "state_corrected",
        "state_explained",
    ),
    "controllers": ("goal_distance_mean", "untrained_distance", "final_distance", "return_mean", "last_return"),
    "linearizers": ("reach", "shortest_direction", "forward", "backward", "direction_error", "fallen", "coverage"),
    "policies": ("return_mean", "return_std", "random_return_mean", "random_return_std", "length_mean"),
}
"""The measures that are shown unless all are asked for, by what was measured."""


def envs_table(*, everything: bool = False) -> Sheet:
    """The environments that come with ibol; with `everything` also their names as single environments."""
    table = Sheet(
        [
            Column("environment", number=False), Column("state", "values"), Column("action", "values"),
            Column("episode", "steps"), Column("location", "in state", number=False),
            *([Column("Gymnasium id", number=False)] if everything else []), Column("what it is", number=False),
        ]
    )  # fmt: skip
    for name, entry in ENVS.items():
        # Without a horizon it is as large as the paths that it is given.
        size = ("", "", "") if entry.horizon is None else (*map(str, sizes(make(name))), str(entry.horizon))
        location = ", ".join(map(str, entry.location_dims))
        about = [entry.gym_id, entry.summary] if everything else [entry.summary]
        table.add(name, *size, location, *about, end=name in (names()[-1], [*ENVS][-1]))
    for name, entry in GYMNASIUM.items():
        state, action = sizes(make(name))
        location = ", ".join(map(str, entry.location_dims))
        about = [name, entry.summary] if everything else [entry.summary]
        table.add(name, str(state), str(action), str(entry.horizon), location, *about)
    table.notes = [
        "A Gymnasium id, module:function that makes a Gymnasium environment, or an own robot (a TOML file) works, too.",
        *(
            []
            if everything
            else ["In Gymnasium they are called ibol/HalfCheetah-v0 and so on: 'ibol envs --all' lists the ids."]
        ),
    ]
    return table


def zoo_table() -> Sheet:
    """The skills that come with ibol."""
    shown = ("accuracy", "neighbour_information", "spread")
    table = Sheet(
        [
            Column("name", number=False), Column("method", number=False), *(_column(find_metric(one)) for one in shown),
            Column("training", "minutes", "what the training of the skills took"),
        ]
    )  # fmt: skip
    limits = {}
    for name in zoo.names():
        card = zoo.card(name)
        scores = card["scores"]["skills"]
        table.add(name, card["title"], *(_number(scores[key]) for key in shown), f"{card['minutes']:.0f}")
        limits[name] = card["limits"]
    table.entries = [("not good for", limits)]
    table.notes = [
        "Give such a name instead of a run directory: 'ibol zoo ant' shows its card, 'ibol page ant' its skills."
    ]
    return table


def card_table(name: str) -> Sheet:
    """All that is known of bundled skills."""
    card = zoo.card(name)
    who = [INITIAL if policy == "untrained" else policy for policy in card["scores"]]
    table = Sheet([Column("measure", number=False), *map(Column, who)], f"{name}: {card['title']} on {card['env']}")
    for score in next(iter(card["scores"].values())):
        table.add(find_metric(score).axis, *(cell(scores, score) for scores in card["scores"].values()))
    versions = ", ".join(f"{package} {number}" for package, number in card["versions"].items())
    about = {
        "not good for": card["limits"],
        "command": card["command"],
        "linearizer": card["linearizer"],
        "training": f"{card['env_steps']:,} steps, {card['minutes']} minutes",
        "versions": versions,
    }
    table.entries = [("", {key: str(value) for key, value in about.items() if value})]
    return table


def presets_table(command: str, env: str = "", *, everything: bool = False) -> Sheet:
    """The settings of a command's presets side by side: those that differ, or everything."""
    columns = presets.names(command)
    title = f"ibol {command}" if command in _COMMANDS else f"ibol discover --method {command}"
    table = Sheet(
        [Column("setting", number=False), *(Column(name, number=False) for name in columns)],
        title=f"{title}{f' on {env}' if env else ''}",
    )
    config = find(command).config
    settings = [dataclasses.asdict(presets.build(config, command, name, env)) for name in columns]
    same = 0
    for name in settings[0]:
        cells = [_setting(values[name]) for values in settings]
        if len(cells) > 1 and len(set(cells)) == 1:
            same += 1
            if not everything:
                continue
        table.add(name.rstrip("_"), *cells, dim=len(cells) > 1 and len(set(cells)) == 1)
    if table.rows:
        table.ends.add(len(table.rows) - 1)
    table.add("status", *(presets.status(command, name, env) for name in columns))
    if same and not everything:
        table.notes = [f"{same} more settings are the same in all presets: '--all' shows them."]
    return table


def normalizer_table(env: str, normalizer: Normalizer) -> Sheet:
    """Mean and standard deviation of each state dimension."""
    table = Sheet([Column("dimension"), Column("mean"), Column("std")], f"{env} under random actions")
    for i, (mean, std) in enumerate(zip(normalizer.mean, normalizer.std, strict=True)):
        table.add(str(i), f"{mean:.4f}", f"{std:.4f}")
    return table


def evaluation_tables(rows: Sequence[Mapping[str, Any]], *, everything: bool = False) -> list[Sheet]:
    """A table for what was measured in the same way in the same environment: the important measures, or everything."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((_kind(row), str(row["env"])), []).append(row)
    short = short_names([str(row["run"]) for row in rows])
    sheets = []
    for (kind, env), members in groups.items():
        where = known_as(env, (other for _, other in groups))
        measured = list(dict.fromkeys(name for row in members for name in row if name not in _APART))
        views = _views(measured) if everything else [[name for name in _IMPORTANT[kind] if name in measured]]
        sheets += [_evaluation_sheet(kind, where, members, view, short) for view in views if view]
        left = len([name for name in measured if name != "bins"]) - len(views[0])
        if not everything and left:
            more = f"{left} more measure{'s' if left > 1 else ''}"
            sheets[-1].notes.append(f"'--all' shows {more}, '--json FILE' keeps all of them.")
    return sheets


def experiment_table(lines: "Sequence[EntryStatus]", directory: str) -> Sheet:
    """What each entry of an experiment needs, what is there, and how long the rest takes."""
    table = Sheet(
        [
            Column("entry", number=False), Column("runs", "done/all"), Column("time left", "h:mm:ss"),
            Column("state", number=False), Column("where", number=False),
        ]
    )  # fmt: skip
    for line in lines:
        left = f"{'~' if line.known else '~~'}{clock(line.seconds)}" if line.seconds else ""
        states = [f"{line.counts[kind]} {kind}" for kind in ("running", "failed") if line.counts.get(kind)]
        done = f"{line.counts.get('done', 0)}/{line.needed}"
        last = line is not lines[-1] and lines[-1].name == "all" and line is lines[-2]
        table.add(line.name, done, left, ", ".join(states) or line.state, line.paper, end=last)
    table.entries = [("what each shows", {line.name: line.title for line in lines})]
    table.notes = [f"In {directory}."]
    if not all(line.known for line in lines):
        table.notes.append("~~ is a guess: some of these trainings were never measured.")
    return table


def doctor_table(checks: "Sequence[Check]") -> Sheet:
    """What 'ibol doctor' has found, and below it what to do."""
    table = Sheet([Column(name, number=False) for name in ("what", "here", "tested with", "state")])
    group = ""
    for check in checks:
        if group and check.group != group:
            table.ends.add(len(table.rows) - 1)
        group = check.group
        state = "other version" if check.state == "note" and check.tested else check.state
        table.add(check.name, check.found, check.tested, state)
    for wanted in ("broken", "missing", "note"):
        table.notes += [check.advice for check in checks if check.state == wanted and check.advice]
    broken = [check.name for check in checks if check.state == "broken"]
    table.notes.append(f"ibol cannot work: see {', '.join(broken)}." if broken else "Everything that ibol needs works.")
    return table


_COMMANDS = ("linearize", "sac", "downstream")


def _kind(row: Mapping[str, Any]) -> str:
    if "policy" in row:
        return "skills"
    if "goal_distance_mean" in row:
        return "controllers"
    return "policies" if "return_mean" in row else "linearizers"


def _views(measured: Sequence[str]) -> list[list[str]]:
    """All measures in tables that fit: those of information, of goals, of the rest, at most six in each."""
    kinds: dict[str, list[str]] = {}
    for name in measured:
        if name != "bins":
            kind = find_metric(name).kind
            kinds.setdefault(kind if kind in ("information", "goals") else "", []).append(name)
    return [members[i : i + 6] for members in kinds.values() for i in range(0, len(members), 6)]


def _evaluation_sheet(
    kind: str, where: str, rows: Sequence[Mapping[str, Any]], view: Sequence[str], short: Mapping[str, str]
) -> Sheet:
    bins = list(dict.fromkeys(row["bins"] for row in rows if "bins" in row))
    binned = len(bins) > 1 and any(find_metric(name).kind == "information" for name in view)
    title = f"{kind} on {where}{f', {bins[0]} bins' if len(bins) == 1 and kind == 'skills' else ''}"
    labelled = kind == "skills" or any("method" in row for row in rows)
    table = Sheet(
        [
            Column("run", number=False), *([Column("policy", number=False)] if labelled else []),
            *([Column("bins")] if binned else []), *(_column(find_metric(name)) for name in view),
        ],
        title,
    )  # fmt: skip
    seen, last = set(), None
    for row in rows:
        # Behaviour is the same for any number of bins; everything else is a line of its own.
        which = tuple(row.get(name) for name in _APART[:4]), row.get("bins") if binned else None
        if which in seen:
            continue
        seen.add(which)
        repeated, last = row["run"] == last, row["run"]
        if repeated is False and table.rows:
            table.ends.add(len(table.rows) - 1)
        head = ["" if repeated else short[str(row["run"])]]
        front = [*head, *([_policy(row)] if labelled else []), *([str(row["bins"])] if binned else [])]
        table.add(*front, *(_number(row[name]) if name in row else "" for name in view))
        if "intervals" in row:
            for end, what in enumerate(("95 % from", "95 % to")):
                ends = [row["intervals"].get(name) for name in view]
                empty = [""] * (len(front) - 2) if labelled else []
                table.add(
                    *(["", what] if labelled else [what]), *empty, *(_number(one[end]) if one else "" for one in ends),
                    dim=True,
                )  # fmt: skip
    changed = {name: run for run, name in short.items() if run != name and any(str(row["run"]) == run for row in rows)}
    if changed:
        table.entries = [("full names", changed)]
    return table


def _policy(row: Mapping[str, Any]) -> str:
    """Whose numbers these are: the method, or the reference."""
    policy = str(row.get("policy", "skills"))
    if policy.partition(",")[0] == "skills":
        return f"{row.get('method', '')}{policy.removeprefix('skills')}"
    return policy.replace("untrained", INITIAL)


def _column(metric: Metric) -> Column:
    better = {"higher": " (higher is better)", "lower": " (lower is better)", "": ""}[metric.better]
    head, _, tail = metric.header.partition(" ")
    wraps = len(metric.header) > 9 and tail
    return Column(f"{head}\n{tail}" if wraps else metric.header, metric.unit, f"{metric.explanation}{better}")


def _number(value: Any) -> str:
    """A number in few characters."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return f"{value:g}"
    digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{round(value, digits) + 0.0:,.{digits}f}"


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "none"
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
