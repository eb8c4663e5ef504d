"""DIR/index.html: figures with their captions, claims with their verdicts, and all runs; one file without a script."""

import base64
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ibol.experiments.cells import SET, Cell
from ibol.experiments.claims import Verdict
from ibol.experiments.costs import Cost
from ibol.experiments.model import Entry, Experiment
from ibol.experiments.results import Result, means
from ibol.experiments.schedule import Board
from ibol.experiments.statistics import Comparison
from ibol.report.tables import measures_tables, table
from ibol.runs import files
from ibol.training.launch import find

_HERE, _REPORT = resources.files("ibol.experiments"), resources.files("ibol.report")


def write_page(
    experiment: Experiment,
    board: Board,
    results: Sequence[Result],
    verdicts: Sequence[Verdict],
    costs: Sequence[Cost],
    directory: Path,
) -> Path:
    """Write the page and say where it is."""
    shown = [("claims", "Claims")] if verdicts else []
    shown += [(f"entry-{result.entry.name}", result.entry.name) for result in results]
    nav = " ".join(
        f'<a href="#{place}">{escape(name)}</a>' for place, name in (*shown, ("costs", "Costs"), ("runs", "Runs"))
    )
    failed = f", {len(board.failed)} failed" if board.failed else ""
    page = Template((_HERE / "template.html").read_text()).substitute(
        title=escape(experiment.title),
        style=(_REPORT / "style.css").read_text(),
        summary=escape(f"Preset {experiment.preset}: {len(board.done)} of {len(board.cells)} runs are done{failed}."),
        differs=f'<p class="note">{escape(experiment.differs)}</p>' if experiment.differs else "",
        nav=nav,
        claims=_claims(verdicts),
        entries="".join(_entry(result, directory) for result in results),
        costs=_costs(costs),
        runs=_runs(board),
    )
    place = files.inside(directory, "index.html")
    files.replace_bytes(place, page.encode())
    return place


def _claims(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    lines = []
    for verdict in verdicts:
        by = ", ".join(f"{escape(name)}: {_word(word)}" for name, word in verdict.words.items())
        lines.append(
            f'<tr id="claim-{escape(verdict.claim)}"><th scope="row">{escape(verdict.claim)}</th>'
            f"<td>{escape(verdict.statement)}</td><td>{_word(verdict.verdict)}</td><td>{by}</td>"
            f'<td class="number">{verdict.runs}</td>'
            f'<td><a href="#entry-{escape(verdict.entry)}">{escape(verdict.entry)}</a></td></tr>'
        )
    heads = ("claim", "the paper says", "verdict", "by estimator", "runs", "entry")
    details = "".join(_comparisons(verdict) for verdict in verdicts)
    return f'<section id="claims"><h2>Claims</h2>{_framed(heads, "".join(lines))}{details}</section>'


def _comparisons(verdict: Verdict) -> str:
    """All comparisons of a claim, and its rule."""
    rows = [
        [name, one.what, *_numbers(one), f"{one.runs[0]} and {one.runs[1]}", "yes" if one.paired else "no", one.verdict]
        for name, parts in verdict.by.items()
        for one in parts
    ]
    heads = ("estimator", "comparison", "difference", "95 % interval", "runs", "by linearizer", "verdict")
    return (
        f"<details><summary>{escape(verdict.claim)}: {len(rows)} comparisons</summary>"
        f'<p class="note">Rule: {escape(verdict.rule)}.</p>{table(heads, rows)}</details>'
    )


def _numbers(one: Comparison) -> list[str]:
    difference = "" if one.difference is None else f"{one.difference:.3g}"
    return [difference, "" if one.interval is None else f"[{one.interval[0]:.3g}, {one.interval[1]:.3g}]"]


def _word(word: str) -> str:
    return f'<span class="verdict {word}">{word}</span>'


def _entry(result: Result, directory: Path) -> str:
    entry = result.entry
    parts = [f'<section id="entry-{entry.name}"><h2>{escape(entry.name)}</h2>']
    caption = escape(_caption(entry, result.cells))
    names = {
        f"scenes-{cell.name}": f"{find(cell.method).title} on {cell.env}, seed {cell.seed}." for cell in result.cells
    }
    strips = any(file.stem in names for file in result.figures)
    if strips or not result.figures:
        parts.append(f"<p>{caption}</p>")
    for number, file in enumerate(result.figures):
        source = base64.b64encode((directory / entry.name / file.name).read_bytes()).decode()
        vector = file.with_suffix(".pdf")
        link = f'<a href="{entry.name}/{vector.name}">PDF</a>' if vector.is_file() else ""
        first = caption if number == 0 and not strips else ""
        said = " ".join(filter(None, [first, escape(names.get(file.stem, "")), link]))
        kind = ' class="strip"' if file.stem in names else ""
        parts.append(
            f'<figure{kind}><img alt="{escape(file.stem)} of {entry.name}" src="data:image/png;base64,{source}">'
            f"<figcaption>{said}</figcaption></figure>"
        )
    parts += [f'<p class="note">{escape(note)}.</p>' for note in result.notes]
    rows = [{name: value for name, value in row.items() if name != "cell"} for row in means(result.rows)]
    if rows:
        names = {str(cell.place): cell.name for cell in result.cells}
        parts.append(f"<details><summary>Numbers</summary>{measures_tables(names, rows)}</details>")
    return "".join([*parts, "</section>"])


def _caption(entry: Entry, cells: Sequence[Cell]) -> str:
    """What is shown, how many runs, which preset, and what differs from the paper."""
    about = entry.about
    presets = ", ".join(dict.fromkeys(cell.preset for cell in cells))
    count = f"{len(cells)} of {len(entry.cells)} runs" + (f", preset {presets}" if presets else "")
    where = f"{about.paper}." if about.paper else ""
    differs = f"Other than in the paper: {about.differs}" if about.differs else ""
    return " ".join(part for part in (where, about.title, f"{count}.", differs) if part)


def _costs(costs: Sequence[Cost]) -> str:
    if not costs:
        return "<p>No run has come to its end yet.</p>"
    rows: list[list[Any]] = [
        [
            cost.method, cost.env, cost.variant, cost.preset, cost.runs, f"{cost.minutes:.2f}",
            f"{cost.runs * cost.minutes:.1f}",
        ]
        for cost in costs
    ]  # fmt: skip
    total = sum(cost.runs * cost.minutes for cost in costs)
    rows.append(["all", "", "", "", sum(cost.runs for cost in costs), "", f"{total:.1f}"])
    heads = ("method", "environment", "variant", "preset", "runs", "minutes of one (median)", "minutes of all")
    return table(heads, rows, numbers=4)


def _runs(board: Board) -> str:
    """All runs with links to their folders."""
    lines = []
    for name, cell in board.cells.items():
        state = "done" if name in board.done else "failed" if name in board.failed else "not done"
        said = board.failed.get(name, board.elsewhere.get(name, ""))
        link = str(cell.place) + ("" if cell.method == SET else "/")
        shown = f'<a href="{escape(link)}">{escape(name)}</a>' if state == "done" else escape(name)
        others = "".join(
            f"<td>{escape(str(value))}</td>"
            for value in (cell.method, cell.env, cell.variant, cell.preset, cell.seed, state, said)
        )
        lines.append(f'<tr><th scope="row">{shown}</th>{others}</tr>')
    heads = ("run", "method", "environment", "variant", "preset", "seed", "state", "what was said")
    return _framed(heads, "".join(lines))


def _framed(heads: Sequence[str], body: str) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
