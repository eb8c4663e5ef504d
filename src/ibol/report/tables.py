"""The page's tables: what runs are, how their settings differ, and what was measured."""

import dataclasses
import json
import shlex
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ibol import presets
from ibol.envs.settings import EnvSettings
from ibol.evaluation.rows import cell
from ibol.metrics.catalogue import Metric, find_metric
from ibol.runs.directory import RunDirectory
from ibol.training.launch import find

_ESTIMATORS = (
    ("without a word before it", "on histograms, as published: useless skills have some information, too"),
    ("corrected (minus chance)", "the same less its mean over 10 shuffles of the latents"),
    ("neighbour (from neighbours)", "from nearest neighbours, without bins"),
)
_APART = ("run", "env", "method", "policy", "intervals")
_ABOUT = ("method", "policy", "environment")
_POLICIES = {"skills": "trained", "untrained": "initial policy", "random": "random policy"}


def command_line(run: RunDirectory) -> str:
    """The command that makes such a run."""
    config = run.config
    name = run.method
    parts = ["ibol", run.command, config["env"], *(["--method", name] if run.command == "discover" else [])]
    parts += ["--preset", config["preset"], "--seed", str(config["seed"])]
    part = presets.part_of(config["settings"])
    preset = dataclasses.asdict(presets.build(find(name).config, name, config["preset"], config["env"], part))
    defaults = json.loads(json.dumps(preset))  # as the run directory has them; a run of another version may have others
    changed = {key: value for key, value in config["settings"].items() if value != defaults.get(key)}
    usual = json.loads(json.dumps(dataclasses.asdict(EnvSettings())))
    changed |= {key: value for key, value in config["env_settings"].items() if value != usual.get(key)}
    for key, value in changed.items():
        flag = key.removesuffix("_").replace("_", "-")
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            values = value if isinstance(value, list | tuple) else [value]
            parts += [f"--{flag}", *map(str, values)]
    return shlex.join(parts)


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
            [name, find(run.method).title, config["env"], config["preset"], config["seed"],
             f"{epoch} of {config['settings']['epochs']}", f"{steps:,}", f"{minutes:.1f}", command_line(run)]
        )  # fmt: skip
    heads = ("run", "method", "environment", "preset", "seed", "epochs", "environment steps", "minutes", "command")
    return table(heads, rows, code=len(heads) - 1)


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
        parts.append(table(("setting", *names), different, mark=True))
    if same:
        what = "The same in all runs" if len(runs) > 1 else "All settings"
        few = [[key, values[0]] for key, *values in same]
        parts.append(f"<details><summary>{what} ({len(same)})</summary>{table(('setting', 'value'), few)}</details>")
    return "".join(parts)


def measures_tables(names: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """A table for each kind of numbers, with those that have them; `names` are the runs' short ones by path."""
    alike: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        every = {key: find_metric(key).kind for key in row if key not in _APART}
        kinds = list(dict.fromkeys(kind for kind in every.values() if kind != "setting"))
        for kind in kinds:  # how it was measured stands in the first table
            shown = (kind, "setting") if kind in kinds[:1] else (kind,)
            alike.setdefault(tuple(key for key in every if every[key] in shown), []).append(row)
    alike.pop((), None)
    parts = []
    for keys, members in alike.items():
        about = [column for column in _ABOUT if _differs(column, members)]
        body = [
            [names.get(row["run"], row["run"]), *(_about(row, column) for column in about)]
            + [cell(row, key) for key in keys]
            for row in members
        ]
        metrics = [find_metric(key) for key in keys]
        heads = ("run", *about, *(metric.column for metric in metrics))
        tips = (*[""] * (1 + len(about)), *map(_meaning, metrics))
        same = "".join(
            f"{column}: {escape(_about(members[0], column))}. "
            for column in _ABOUT
            if column not in about and _about(members[0], column)
        )
        parts.append(table(heads, body, numbers=1 + len(about), tips=tips, dense=True))
        parts.append(f'<p class="note">{same}{_note(metrics)}</p>')
        items = "".join(f"<dt>{escape(metric.header)}</dt><dd>{escape(_meaning(metric))}</dd>" for metric in metrics)
        parts.append(f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>")
    return "".join(parts)


def _about(row: Mapping[str, Any], column: str) -> str:
    value = row.get("env" if column == "environment" else column, "")
    return str(_POLICIES.get(value, "") if column == "policy" else value)


def _differs(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return len({_about(row, column) for row in rows}) > 1


def _note(metrics: Sequence[Metric]) -> str:
    """How the estimators of information differ, below a table that has several."""
    if not any(metric.name.startswith("neighbour") for metric in metrics):
        return ""
    return "; ".join(f"<b>{name}</b>: {escape(what)}" for name, what in _ESTIMATORS) + "."


def _meaning(metric: Metric) -> str:
    unit = f", in {metric.unit}" if metric.unit else ""
    return metric.explanation + unit + (f"; {metric.better} is better" if metric.better else "")


def _flat(config: Mapping[str, Any]) -> dict[str, str]:
    about = {"method": str(config["method"]), "environment": config["env"], "seed": str(config["seed"])}
    for part in ("settings", "env_settings", "versions"):
        for key, value in config.get(part, {}).items():
            about[f"{key} (version)" if part == "versions" else key] = str(value)
    return about


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    mark: bool = False,
    code: int | None = None,
    numbers: int | None = None,
    tips: Sequence[str] = (),
    dense: bool = False,
) -> str:
    """A table whose first column names the rows; cells that differ from the first run's are marked.

    `tips` explain the heads where the pointer rests on them. A dense table breaks its heads into lines.
    """
    titles = [f' title="{escape(tip)}"' if tip else "" for tip in tips] or [""] * len(heads)
    head = "".join(
        f'<th scope="col"{title}>{escape(str(text))}</th>' for text, title in zip(heads, titles, strict=True)
    )
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
    kind = ' class="dense"' if dense else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table"><table{kind}><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
