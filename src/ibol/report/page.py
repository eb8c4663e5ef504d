"""`ibol report`: builds the page from its template, style and script, with everything inside one file."""

import base64
import json
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from ibol import zoo
from ibol.errors import IbolError
from ibol.evaluation.directions import shared_directions
from ibol.evaluation.groups import method_name
from ibol.evaluation.loading import LoadedRun, load_runs
from ibol.evaluation.runs import evaluate_runs
from ibol.figures.common import method_colours
from ibol.films.episodes import episodes_of
from ibol.films.film import write_film
from ibol.report.curves import CURVES, curves
from ibol.report.tables import measures_tables, settings_tables, summary_table
from ibol.report.trajectories import drawable, pictures_of
from ibol.runs.directory import RunDirectory

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
    runs = load_runs(paths)
    directories = [run.directory for run in runs]
    names = short_names([run.path for run in runs])
    drawn = {run for run in runs if drawable(run)}
    measured = [run for run in runs if run in drawn or run.kind == "policy"]
    rows = evaluate_runs(measured, trajectories=trajectories, seed=seed, quiet=quiet) if measured else []
    with_skills = [run for run in drawn if run.kind == "skills"]
    along = shared_directions(with_skills, trajectories=trajectories, seed=seed)
    data: dict[str, Any] = {
        "curves": CURVES,
        "runs": [
            {
                "name": name,
                "env": run.directory.config["env"],
                "colour": colour,
                "curves": curves(run.directory.metrics()),
                "pictures": (
                    pictures_of(run, trajectories=trajectories, seed=seed, along=along.get(run.path))
                    if run in drawn
                    else []
                ),
            }
            for name, run, colour in zip(names, runs, _colours(directories), strict=True)
        ],
    }
    page = Template((_HERE / "template.html").read_text()).substitute(
        title=escape(f"{', '.join(dict.fromkeys(run.config['env'] for run in directories))}: {', '.join(names)}"),
        style=(_HERE / "style.css").read_text(),
        script=(_HERE / "script.js").read_text(),
        summary=summary_table(names, directories),
        settings=settings_tables(names, directories),
        measures=measures_tables({zoo.label(run.path): name for run, name in zip(runs, names, strict=True)}, rows),
        films=_films(runs, names, seed=seed, quiet=quiet) if films else "<p>Left out with --no-films.</p>",
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


def _colours(runs: Sequence[RunDirectory]) -> list[str]:
    """A colour for each run, that of its method if it is the first; black is the page's ink, which may be light."""
    labels = [f"{method_name(run)} {i}" for i, run in enumerate(runs)]
    colours = method_colours(labels)
    return [colours[label].replace("#000000", "currentColor") for label in labels]


def _films(runs: Sequence[LoadedRun], names: Sequence[str], *, seed: int, quiet: bool) -> str:
    """A film of each run inside the page, or why there is none."""
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for run, name in zip(runs, names, strict=True):
            file = Path(folder) / "film.mp4"
            try:
                episodes = episodes_of(run.agent, str(run.path), seed=seed)
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
