"""The page's tables: what runs are, how their settings differ, and what was measured."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ibol import presets
from ibol.envs.settings import EnvSettings
from ibol.runs.directory import RunDirectory
from ibol.training.launch import find

MEASURES = {
    "neighbour_information": "information I(Z; S_T) of latents about ends in nats, from nearest neighbours",
    "corrected": "the same from bins, less what shuffled latents have",
    "information": "the same from bins as published: rises with their number even for useless skills",
    "accuracy": "how often an end lies nearest to its own one of 8 skills",
    "coverage": "visited cells of the location",
    "spread": "root mean square distance of the ends from their mean, in metres",
    "distance": "mean distance between start and end in metres; of a linearizer for goals of full length",
    "smallest_sector": "share of ends in the emptiest of 12 directions",
    "lowest": "the furthest end backward in metres",
    "highest": "the furthest end forward in metres",
    "return_std": "standard deviation of the environment's own return",
    "reach": "metres along the goal",
    "shortest_direction": "metres in the worst direction",
    "direction_error": "angle between goal and way in degrees",
    "forward": "metres for goal +1",
    "backward": "metres for goal -1",
    "rank_correlation": "order of outcomes against the order of goals",
    "fallen": "share of robots that cannot move on at the end",
    "return_mean": "mean return of the environment's own reward",
    "random_return_mean": "the same for random actions",
    "length_mean": "mean length of episodes in steps",
    "last_return": "mean return while exploring over the last 100 epochs",
    "final_return": "mean return of the controller's mode",
    "untrained_distance": "mean distance to the goal in metres before training",
    "final_distance": "mean distance to the goal in metres",
}
"""Columns of the measurements, with what they are."""
_POLICIES = {"skills": "trained", "untrained": "before training", "random": "random policy"}


def command_line(run: RunDirectory) -> str:
    """The command that makes such a run."""
    config = run.config
    name = run.method
    parts = ["ibol", run.command, config["env"], *(["--method", name] if run.command == "discover" else [])]
    parts += ["--preset", config["preset"], "--seed", str(config["seed"])]
    variant = config["settings"].get("skills", "")
    preset = dataclasses.asdict(presets.build(find(name).config, name, config["preset"], config["env"], variant))
    defaults = json.loads(json.dumps(preset))  # as the run directory has them; a run of another version may have others
    changed = {key: value for key, value in config["settings"].items() if value != defaults.get(key)}
    usual = dataclasses.asdict(EnvSettings())
    changed |= {key: value for key, value in config["env_settings"].items() if value != usual.get(key)}
    for key, value in changed.items():
        flag = key.removesuffix("_").replace("_", "-")
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            values = value if isinstance(value, list | tuple) else [value]
            parts += [f"--{flag}", *map(str, values)]
    return " ".join(parts)


def summary_table(names: Sequence[str], runs: Sequence[RunDirectory]) -> str:
    """One row for each run: what it is, how far it came, how long it took, and its command."""
    rows = []
    for name, run in zip(names, runs, strict=True):
        logged = list(run.metrics())
        epoch = logged[-1]["epoch"] if logged else 0
        minutes = sum(row.get("time/epoch_seconds", 0.0) for row in logged) / 60
        steps = logged[-1].get("env_steps", 0) if logged else 0
        config = run.config
        rows.append(
            [name, run.method, config["env"], config["preset"], config["seed"],
             f"{epoch} of {config['settings']['epochs']}", f"{steps:,}", f"{minutes:.1f}", command_line(run)]
        )  # fmt: skip
    heads = ("run", "method", "environment", "preset", "seed", "epochs", "environment steps", "minutes", "command")
    return _table(heads, rows, code=len(heads) - 1)


def settings_tables(names: Sequence[str], runs: Sequence[RunDirectory]) -> str:
    """Settings and versions in which the runs differ, then those that are the same in all."""
    columns = [_flat(run.config) for run in runs]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    different: list[list[str]] = []
    same: list[list[str]] = []
    for key in keys:
        values = [column.get(key, "—") for column in columns]
        (different if len(set(values)) > 1 else same).append([key, *values])
    parts = []
    if different:
        parts.append(_table(("setting", *names), different, mark=True))
    if same:
        what = "The same in all runs" if len(runs) > 1 else "All settings"
        few = [[key, values[0]] for key, *values in same]
        parts.append(f"<details><summary>{what} ({len(same)})</summary>{_table(('setting', 'value'), few)}</details>")
    return "".join(parts)


def measures_tables(names: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """One table for all that was measured by the same numbers; `names` are the runs' short ones by path."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(key for key in MEASURES if key in row), []).append(row)
    parts = []
    for columns, members in groups.items():
        body = []
        for row in members:
            policy = _POLICIES.get(row.get("policy", ""), "")
            numbers = [_number(row, key) for key in columns]
            body.append([names.get(row["run"], row["run"]), policy, row["env"], *numbers])
        heads = ("run", "policy", "environment", *(column.replace("_", " ") for column in columns))
        parts.append(_table(heads, body, numbers=3))
        items = "".join(f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(MEASURES[key])}</dd>" for key in columns)
        parts.append(f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>")
    return "".join(parts)


def _number(row: Mapping[str, Any], key: str) -> str:
    """A number, with its interval over runs if there is one."""
    text = f"{round(row[key], 9) + 0.0:.3g}" if isinstance(row[key], float) else str(row[key])
    low, high = row.get("intervals", {}).get(key, (None, None))
    return text if low is None else f"{text} [{low:.3g}, {high:.3g}]"


def _flat(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for part in ("settings", "env_settings", "versions"):
        for key, value in config.get(part, {}).items():
            found[f"{key} (version)" if part == "versions" else key] = str(value)
    return {"method": str(config["method"]), "environment": config["env"], "seed": str(config["seed"]), **found}


def _table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    mark: bool = False,
    code: int | None = None,
    numbers: int | None = None,
) -> str:
    """A table whose first column names the rows; cells that differ from the first run's are marked."""
    head = "".join(f'<th scope="col">{escape(str(text))}</th>' for text in heads)
    lines = []
    for row in rows:
        cells = [f'<th scope="row">{escape(str(row[0]))}</th>']
        for i, value in enumerate(row[1:], start=1):
            text = escape(str(value))
            text = f"<code>{text}</code>" if i == code else text
            kind = ' class="other"' if mark and value != row[1] else ""
            kind = ' class="number"' if numbers is not None and i >= numbers else kind
            cells.append(f"<td{kind}>{text}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
