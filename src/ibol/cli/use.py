"""Commands that use what was learned: evaluate, plot, video, page, report, export and imitation-set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ibol import interrupt
from ibol.bounds import Bins, Count, Natural, NotEmpty
from ibol.cli.parsing import TrustEnv, TrustMethod, parse, trusting


def evaluate(argv: list[str]) -> None:
    """`ibol evaluate`."""
    from ibol.evaluation.runs import evaluate_runs, write_json
    from ibol.runs.files import check_free
    from ibol.tables import evaluation_tables, show

    @dataclass(frozen=True)
    class Evaluate:
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Run directories."""
        episodes: Count = 64
        """Episodes for the return of a policy."""
        trajectories: Count = 2000
        """Random latents of skills, and random goals for the state coverage of a linearizer."""
        bins: Annotated[tuple[Bins, ...], NotEmpty()] = (32,)
        """Bins of each dimension for the information of latents; several numbers measure with each of them."""
        sepin_k: Count = 1
        """The k of SEPIN@k: the mean over the k most separable latent dimensions."""
        references: bool = True
        """Measure each run's initial policy and random goals, too."""
        deterministic: bool = False
        """Skills act by the mode of their policy instead of samples of it."""
        seed: Natural = 0
        """Seed of latents, goals and initial states."""
        all: bool = False
        """Show all measures instead of the important ones."""
        json: Path | None = None
        """Also write all numbers to this file."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace that file if it exists."""
        quiet: bool = False
        """Show no progress."""

    given = parse(Evaluate, argv, "evaluate", "Measure what runs have learned.")
    if given.json is not None:
        check_free(given.json, overwrite=given.overwrite, flag="--json", endings=(".json",))
    with trusting(given):
        rows = evaluate_runs(
            given.runs, episodes=given.episodes, trajectories=given.trajectories, bins=given.bins, k=given.sepin_k,
            seed=given.seed, references=given.references, deterministic=given.deterministic, quiet=given.quiet,
        )  # fmt: skip
    show(*evaluation_tables(rows, everything=given.all))
    if given.json is not None:
        write_json(rows, given.json)


def plot(argv: list[str]) -> None:
    """`ibol plot`."""
    from ibol.evaluation.plots import FIGURES, plot_runs
    from ibol.evaluation.plots.common import PlotOptions
    from ibol.runs.files import check_free

    choices: Any = Literal[tuple(FIGURES)]

    @dataclass(frozen=True)
    class Plot:
        runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Runs of 'ibol discover' and names of bundled skills; or runs of 'ibol linearize' and linearizer:NAME."""
        options: PlotOptions
        """What the figure shows."""
        figure: choices = "trajectories"
        """The figure to draw."""
        output: Path = Path("figure.png")
        """The picture to write; its ending (.png, .pdf, .svg) decides the format."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace the picture if it exists."""

    kinds = "; ".join(f"{name}: {str(draw.__doc__).rstrip('.')}" for name, draw in FIGURES.items())
    given = parse(Plot, argv, "plot", f"Draw a figure of the paper from runs. {kinds}.")
    check_free(given.output, overwrite=given.overwrite, flag="--output")
    with trusting(given):
        plot_runs(given.runs, given.output, given.figure, given.options)
    print(f"written to {given.output}")


def video(argv: list[str]) -> None:
    """`ibol video`."""
    from ibol.films.episodes import EIGHT, GRID, load_episodes
    from ibol.films.film import check_film, write_film

    @dataclass(frozen=True)
    class Video:
        run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
        """A run of 'ibol discover', 'linearize', 'downstream' or 'sac', bundled skills, or linearizer:NAME."""
        latents: str | None = None
        """What to show: '8 directions' (default), 'grid', or values such as '0,1.5; 1.5,0'; a linearizer's goals."""
        output: Path = Path("film.mp4")
        """The file to write: a film (.mp4, .gif), or a strip of moments (.png)."""
        frames_per_second: float = 20.0
        """Frames for each second of the simulation, which is a second of the film."""
        size: int = 320
        """Width of a tile in pixels."""
        steps: Count | None = None
        """Show only so many steps (default: whole episodes)."""
        seed: Natural = 0
        """Seed of initial states and samples."""
        deterministic: bool = False
        """The most likely goals or actions of the skill policy instead of samples."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace the file if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = f"Film what a run has learned. --latents: {EIGHT!r}, {GRID!r}, or values."
    given = parse(Video, argv, "video", about)
    check_film(given.output, size=given.size, frames_per_second=given.frames_per_second, overwrite=given.overwrite)
    with trusting(given), interrupt.raised():
        episodes = load_episodes(
            given.run, given.latents, steps=given.steps, seed=given.seed, deterministic=given.deterministic
        )
        write_film(
            episodes, given.output, size=given.size, frames_per_second=given.frames_per_second, quiet=given.quiet
        )
    print(f"written to {given.output}")


def page(argv: list[str]) -> None:
    """`ibol page`."""
    from ibol.page.write import write_page
    from ibol.runs.files import check_free

    @dataclass(frozen=True)
    class Page:
        runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME|RUN...")]
        """Bundled skills (ant, ant:diayn), linearizer:NAME, and runs of 'ibol discover' or 'ibol linearize'."""
        output: Path = Path("skills.html")
        """The page to write."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace the page if it exists."""

    about = "Write one HTML file in which the robot moves in 3-D and you choose the skill; it opens from disk."
    given = parse(Page, argv, "page", about)
    check_free(given.output, overwrite=given.overwrite, flag="--output", endings=(".html", ".htm"))
    with trusting(given):
        write_page(given.runs, given.output)
    print(f"written to {given.output}: open it in a browser")


def report(argv: list[str]) -> None:
    """`ibol report`."""
    from ibol.report.page import write_report
    from ibol.runs.files import check_free

    @dataclass(frozen=True)
    class Report:
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Run directories of any method."""
        output: Path = Path("report.html")
        """The page to write."""
        films: bool = True
        """Put films into the page; --no-films leaves them out."""
        trajectories: Count = 500
        """Random latents of skills to measure and draw."""
        seed: Natural = 0
        """Seed of latents and initial states."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace the page if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = "Write one HTML page about runs, which opens from disk: settings, curves, numbers, skills, films."
    given = parse(Report, argv, "report", about)
    check_free(given.output, overwrite=given.overwrite, flag="--output", endings=(".html", ".htm"))
    with trusting(given), interrupt.raised():
        write_report(
            given.runs, given.output, films=given.films, trajectories=given.trajectories, seed=given.seed,
            quiet=given.quiet,
        )  # fmt: skip
    print(f"written to {given.output}: open it in a browser")


def export(argv: list[str]) -> None:
    """`ibol export`."""
    from ibol.export.files import FORMATS, METRICS, check_directory, export_agent

    choices: Any = Literal[(*FORMATS, METRICS)]

    @dataclass(frozen=True)
    class Export:
        run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME|RUN")]
        """A run of 'ibol discover' or 'ibol linearize', bundled skills, or linearizer:NAME; for csv any run."""
        output: Annotated[Path, tyro.conf.arg(metavar="DIR")]
        """The directory to write to."""
        format: choices = "onnx"
        """What is written."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Write to a directory that is not empty and replace an earlier export; other files there stay."""

    kinds = "; ".join(f"{name}: {form.summary}" for name, form in FORMATS.items())
    about = (
        f"Write skills for programs that have neither ibol nor JAX, or metrics. {kinds}; csv: metrics, a row an epoch."
    )
    given = parse(Export, argv, "export", about)
    check_directory(given.output, overwrite=given.overwrite)
    with trusting(given):
        written = export_agent(given.run, given.output, given.format, overwrite=given.overwrite)
    print(f"written to {given.output}: {', '.join(written)}")


def imitation_set(argv: list[str]) -> None:
    """`ibol imitation-set`."""
    from ibol.downstream.imitation import make_imitation_set
    from ibol.runs.files import check_free

    @dataclass(frozen=True)
    class ImitationSet:
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Runs of 'ibol discover' in one environment."""
        output: Path = Path("imitation.safetensors")
        """The file to write."""
        trajectories: Count = 1000
        """Random skills of each run."""
        seed: Natural = 0
        """Seed of latents, initial states and samples."""
        trust_env: TrustEnv = ()
        trust_method: TrustMethod = ()
        overwrite: bool = False
        """Replace the file if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = "Write the paths of random skills to a file, for the task half_cheetah_imitation to follow."
    given = parse(ImitationSet, argv, "imitation-set", about)
    check_free(given.output, overwrite=given.overwrite, flag="--output", endings=(".safetensors",))
    with trusting(given):
        count = make_imitation_set(
            given.runs, given.output, trajectories=given.trajectories, seed=given.seed, quiet=given.quiet
        )
    print(f"written to {given.output}: {count} paths")
