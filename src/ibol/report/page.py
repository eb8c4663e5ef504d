"""`ibol report`: builds the page from its template, style and script, with everything inside one file."""

import base64
import json
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ibol.errors import IbolError
from ibol.evaluation.runs import evaluate_runs
from ibol.films.episodes import load_episodes
from ibol.films.film import write_film
from ibol.report.curves import CURVES, curves
from ibol.report.tables import measures_tables, settings_tables, summary_table
from ibol.report.ways import drawable, ways_of
from ibol.runs.directory import RunDirectory
from ibol.training.launch import load_agent

_HERE = Path(__file__).parent
_SIZE, _FRAMES_PER_SECOND = 200, 10.0  # of films: small, as they travel inside the page


def write_report(
    paths: Sequence[Path],
    output: Path,
    *,
    films: bool = True,
    trajectories: int = 500,
    seed: int = 0,
    quiet: bool = False,
) -> None:
    """One page about runs: settings, learning curves, measurements, where they go, and films."""
    if not paths:
        raise IbolError("name at least one run to report on")
    paths = list(dict.fromkeys(paths))
    runs = [RunDirectory.open(path) for path in paths]
    policies = [load_agent(path) for path in paths]
    names = short_names(paths)
    drawn = {path for path, policy in zip(paths, policies, strict=True) if drawable(policy)}
    measured = [path for path, run in zip(paths, runs, strict=True) if path in drawn or run.command == "sac"]
    rows = evaluate_runs(measured, trajectories=trajectories, seed=seed, quiet=quiet) if measured else []
    data: dict[str, Any] = {
        "curves": CURVES,
        "runs": [
            {
                "name": name,
                "env": run.config["env"],
                "curves": curves(run.metrics()),
                "ways": ways_of(path, policy, trajectories=trajectories, seed=seed) if path in drawn else [],
            }
            for name, run, path, policy in zip(names, runs, paths, policies, strict=True)
        ],
    }
    page = Template((_HERE / "template.html").read_text()).substitute(
        title=escape(f"{', '.join(dict.fromkeys(run.config['env'] for run in runs))}: {', '.join(names)}"),
        style=(_HERE / "style.css").read_text(),
        script=(_HERE / "script.js").read_text(),
        summary=summary_table(names, runs),
        settings=settings_tables(names, runs),
        measures=measures_tables({str(path): name for path, name in zip(paths, names, strict=True)}, rows),
        films=_films(paths, names, seed=seed, quiet=quiet) if films else "<p>Left out with --no-films.</p>",
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    )
    try:
        output.write_text(page)
    except OSError as error:
        raise IbolError(f"could not write {output}: {error.strerror}") from None


def short_names(paths: Sequence[Path]) -> list[str]:
    """The directories' own names, or whole paths where those are not different."""
    short = [path.resolve().name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]


def _films(paths: Sequence[Path], names: Sequence[str], *, seed: int, quiet: bool) -> str:
    """A film of each run inside the page, or why there is none."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for path, name in zip(paths, names, strict=True):
            file = Path(folder) / "film.mp4"
            try:
                episodes = load_episodes(str(path), seed=seed)
                write_film(episodes, file, size=_SIZE, frames_per_second=_FRAMES_PER_SECOND, quiet=quiet)
            except IbolError as error:
                parts.append(f"<p>No film of {escape(name)}: {escape(str(error))}.</p>")
                continue
            source = base64.b64encode(file.read_bytes()).decode()
            parts.append(
                f'<figure><video controls loop muted playsinline aria-label="film of {escape(name)}" '
                f'src="data:video/mp4;base64,{source}"></video><figcaption>{escape(name)}</figcaption></figure>'
            )
    return "".join(parts)
