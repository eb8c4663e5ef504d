"""The command line. It parses, calls, and prints; what a command does is elsewhere."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import ibol
from ibol import bounds
from ibol.bounds import Count, Natural, NonNegative
from ibol.errors import IbolError, unknown

HELP = """usage: ibol COMMAND [OPTIONS]

Unsupervised skill discovery in continuous control (IBOL, ICML 2021).

train
  linearize ENV     phase 1: a policy that moves the state in any asked direction
  discover ENV      phase 2: skills, on top of a linearizer
  downstream TASK   a controller that solves a task with skills, or without
  sac ENV           plain SAC on an environment's own reward
  resume RUN        continue an interrupted run exactly where it stood
  sweep NAME        a grid of runs and their common figure, such as the paper's on PointEnv
use
  evaluate RUN...   measure what runs have learned
  plot RUN...       draw where skills or linearizers go, or another figure of the paper
  video RUN         film skills, linearizers or policies
  report RUN...     one HTML page with all about runs
  imitation-set RUN...
                    paths of skills for half_cheetah_imitation to follow
look up
  envs              environments and tasks, and their sizes
  presets [COMMAND] settings of the presets, side by side
  normalize ENV     observation statistics under random actions

'ibol COMMAND --help' explains a command; 'ibol --version' prints the version."""


_ENV = "A name that 'ibol envs' lists, a Gymnasium id, or module:function that makes a Gymnasium environment."


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command; exits with 2 and one sentence if something is wrong."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            print(HELP)
        elif args[0] == "--version":
            print(f"ibol {ibol.__version__}")
        elif args[0] in COMMANDS:
            COMMANDS[args[0]](args[1:])
        else:
            raise unknown("command", args[0], COMMANDS)
    except IbolError as error:
        print(f"ibol: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("ibol: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)


def _parse(kind: Any, argv: Sequence[str], command: str, description: str, default: Any = None) -> Any:
    """Parse with tyro; the flags of nested settings carry no prefix."""
    options = {} if default is None else {"default": default}
    config = (tyro.conf.OmitArgPrefixes,)
    given = tyro.cli(kind, args=argv, prog=f"ibol {command}", description=description, config=config, **options)
    bounds.check(given)
    return given


def _train(command: str, description: str, default_method: str | None = None) -> Callable[[list[str]], None]:
    """The command that trains: the preset gives the defaults, flags override them.

    The command is itself the name of the method, unless there is a default for `--method` to choose from several.
    """

    def run_command(argv: list[str]) -> None:
        from ibol import presets
        from ibol.envs import TASKS
        from ibol.envs.settings import EnvSettings
        from ibol.training import launch
        from ibol.training.loop import RunSettings

        name = command if default_method is None else _peek(argv, "--method") or default_method
        methods = launch.discovery_methods()
        if default_method is not None and name not in methods:
            raise unknown("method", name, methods)
        config_type = launch.find(name).config
        metavar, known = ("TASK", f"One of {', '.join(TASKS)}.") if command == "downstream" else ("ENV", _ENV)

        @dataclass(frozen=True)
        class Train:
            env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar=metavar, help=known)]
            settings: config_type  # type: ignore[valid-type]
            """How it learns; the preset gives the defaults."""
            env_settings: EnvSettings
            """How the environment is run."""
            run_settings: RunSettings
            """How the run is kept."""
            preset: str = presets.DEFAULT
            """Where the defaults come from ('ibol presets' lists them)."""

        kind: type[Any] = Train
        if variants := presets.variants(command):
            variant_names: Any = Literal[tuple(variants)]

            @dataclass(frozen=True)
            class WithVariants(Train):
                variant: variant_names | None = None
                """One of the paper's variants: several settings at once, which flags override."""

            kind = WithVariants
        if default_method is not None:
            method_names: Any = Literal[tuple(methods)]

            @dataclass(frozen=True)
            class Discover(kind):
                method: method_names = name
                """How the skills are discovered."""

            kind = Discover
        preset = _peek(argv, "--preset") or presets.DEFAULT
        env = argv[0] if argv and not argv[0].startswith("-") else ""
        for _ in range(2):
            chosen = variants.get(_peek(argv, "--variant") or "", {})
            defaults = presets.build(config_type, name, preset, env, _peek(argv, "--skills") or "", chosen)
            start = kind(
                env=env or tyro.MISSING, settings=defaults, env_settings=EnvSettings(), run_settings=RunSettings(),
                preset=preset,
            )  # fmt: skip
            parsed = _parse(kind, argv, command, description, start)
            if parsed.env == env:
                break
            env = parsed.env  # it came after a flag: take this environment's defaults
        run, finished = launch.start(
            name,
            parsed.env,
            parsed.settings,
            preset=preset,
            env_settings=parsed.env_settings,
            run_settings=parsed.run_settings,
        )
        _report(run, finished)

    return run_command


def _resume(argv: list[str]) -> None:
    from ibol.training import launch
    from ibol.training.loop import RunSettings

    @dataclass(frozen=True)
    class Resume:
        run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
        """The run directory."""
        epochs: Count | None = None
        """Train to this many epochs instead of the run's own number."""
        checkpoint_minutes: NonNegative = RunSettings.checkpoint_minutes
        """Time between checkpoints; 0 saves after every epoch."""
        tensorboard: bool = False
        """Also write TensorBoard files."""
        quiet: bool = False
        """Show no progress."""

    given = _parse(Resume, argv, "resume", "Continue an interrupted run exactly where its last checkpoint stands.")
    settings = RunSettings(
        checkpoint_minutes=given.checkpoint_minutes, tensorboard=given.tensorboard, quiet=given.quiet
    )
    _report(*launch.resume(given.run, settings, given.epochs))


def _sweep(argv: list[str]) -> None:
    from ibol import presets, sweeps
    from ibol.tables import evaluation_tables, show

    @dataclass(frozen=True)
    class SweepCommand:
        name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
        """One of the paper's grids, or a .toml file with a grid of your own."""
        preset: str = presets.DEFAULT
        """Where the settings that the grid does not change come from."""
        epochs: Count | None = None
        """Epochs of each run instead of the preset's."""
        seed: Natural = 0
        """Decides every random number."""
        sweep_dir: Path | None = None
        """Where the runs are kept (default: sweeps/ and a name made of grid, preset and seed)."""
        jobs: Count | None = None
        """Runs at a time (default: one for each core)."""

    known = "; ".join(f"{sweep.name}: {sweep.summary}" for sweep in sweeps.sweeps().values())
    given = _parse(SweepCommand, argv, "sweep", f"Train a grid of runs and draw them together. {known}")
    sweep = sweeps.find_sweep(given.name)
    directory = given.sweep_dir or Path("sweeps") / f"{sweep.name}-{given.preset}-seed{given.seed}"
    rows = sweeps.run_sweep(
        sweep, directory, preset=given.preset, seed=given.seed, epochs=given.epochs, jobs=given.jobs, say=print
    )
    for table in evaluation_tables(rows):
        show(table)
    print(f"done: {directory / 'figure.png'} shows all runs, {directory / 'scores.json'} has the numbers")


def _evaluate(argv: list[str]) -> None:
    from ibol.evaluation.runs import check_free, evaluate_runs, write_json
    from ibol.tables import evaluation_tables, show

    @dataclass(frozen=True)
    class Evaluate:
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Run directories."""
        episodes: Count = 64
        """Episodes for the return of a policy."""
        trajectories: Count = 2000
        """Random latents of skills, and random goals for the state coverage of a linearizer."""
        bins: tuple[Count, ...] = (32,)
        """Bins of each dimension for the information that latents carry; several numbers make a sweep."""
        sepin_k: Count = 1
        """How many of the most separable latent dimensions SEPIN@k is the mean of."""
        references: bool = True
        """Measure each run's untrained policy and random goals, too."""
        seed: Natural = 0
        """Decides latents, goals and initial states."""
        json: Path | None = None
        """Also write the numbers to this file."""
        overwrite: bool = False
        """Replace that file if it exists."""
        quiet: bool = False
        """Show no progress."""

    given = _parse(Evaluate, argv, "evaluate", "Measure what runs have learned.")
    if given.json is not None:
        check_free(given.json, overwrite=given.overwrite, flag="--json")
    rows = evaluate_runs(
        given.runs, episodes=given.episodes, trajectories=given.trajectories, bins=given.bins, k=given.sepin_k,
        seed=given.seed, references=given.references, quiet=given.quiet,
    )  # fmt: skip
    for table in evaluation_tables(rows):
        show(table)
    if given.json is not None:
        write_json(rows, given.json)


def _plot(argv: list[str]) -> None:
    from ibol.evaluation.plots import FIGURES, plot_runs
    from ibol.evaluation.plots.common import PlotOptions
    from ibol.evaluation.runs import check_free

    choices: Any = Literal[tuple(FIGURES)]

    @dataclass(frozen=True)
    class Plot:
        runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Runs of 'ibol discover', or runs of 'ibol linearize' and names of bundled linearizers."""
        options: PlotOptions
        """What the figure shows."""
        figure: choices = "trajectories"
        """Which figure."""
        output: Path = Path("figure.png")
        """The picture to write; its ending (.png, .pdf, .svg) decides the format."""
        overwrite: bool = False
        """Replace the picture if it exists."""

    kinds = "; ".join(f"{name}: {draw.__doc__}" for name, draw in FIGURES.items())
    given = _parse(Plot, argv, "plot", f"Draw a figure of the paper from runs. {kinds}")
    check_free(given.output, overwrite=given.overwrite, flag="--output")
    plot_runs(given.runs, given.output, given.figure, given.options)
    print(f"written to {given.output}")


def _video(argv: list[str]) -> None:
    from ibol.films.episodes import EIGHT, GRID, load_episodes
    from ibol.films.film import check_film, write_film

    @dataclass(frozen=True)
    class Video:
        run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
        """A run of 'ibol discover', 'linearize', 'downstream' or 'sac', or the name of a bundled linearizer."""
        latents: str | None = None
        """What to show: '8 directions' (default), 'grid', or values such as '0,1.5; 1.5,0'; a linearizer's goals."""
        output: Path = Path("film.mp4")
        """The file to write: a film (.mp4, .gif), or a strip of moments (.png)."""
        frames_per_second: float = 20.0
        """Frames of a second, which is a second of the simulation."""
        size: int = 320
        """Width of a tile in pixels."""
        steps: Count | None = None
        """Show only so many steps (default: whole episodes)."""
        seed: Natural = 0
        """Decides initial states and samples."""
        deterministic: bool = False
        """The most likely goals or actions of the skill policy instead of samples."""
        overwrite: bool = False
        """Replace the file if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = f"Film what a run has learned. --latents: {EIGHT!r}, {GRID!r}, or values."
    given = _parse(Video, argv, "video", about)
    check_film(given.output, size=given.size, frames_per_second=given.frames_per_second, overwrite=given.overwrite)
    episodes = load_episodes(
        given.run, given.latents, steps=given.steps, seed=given.seed, deterministic=given.deterministic
    )
    write_film(episodes, given.output, size=given.size, frames_per_second=given.frames_per_second, quiet=given.quiet)
    print(f"written to {given.output}")


def _report_page(argv: list[str]) -> None:
    from ibol.evaluation.runs import check_free
    from ibol.report.page import write_report

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
        """Decides latents and initial states."""
        overwrite: bool = False
        """Replace the page if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = "Put all about runs into one HTML page that opens from disk: settings, curves, numbers, skills, films."
    given = _parse(Report, argv, "report", about)
    check_free(given.output, overwrite=given.overwrite, flag="--output")
    write_report(
        given.runs, given.output, films=given.films, trajectories=given.trajectories, seed=given.seed, quiet=given.quiet
    )
    print(f"written to {given.output}: open it in a browser")


def _imitation_set(argv: list[str]) -> None:
    from ibol.downstream.imitation import make_imitation_set
    from ibol.evaluation.runs import check_free

    @dataclass(frozen=True)
    class ImitationSet:
        runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
        """Runs of 'ibol discover' in one environment."""
        output: Path = Path("imitation.safetensors")
        """The file to write."""
        trajectories: Count = 1000
        """Random skills of each run."""
        seed: Natural = 0
        """Decides latents, initial states and samples."""
        overwrite: bool = False
        """Replace the file if it exists."""
        quiet: bool = False
        """Show no progress."""

    about = "Keep the paths of random skills, for half_cheetah_imitation to follow."
    given = _parse(ImitationSet, argv, "imitation-set", about)
    check_free(given.output, overwrite=given.overwrite, flag="--output")
    count = make_imitation_set(
        given.runs, given.output, trajectories=given.trajectories, seed=given.seed, quiet=given.quiet
    )
    print(f"written to {given.output}: {count} paths")


def _envs(argv: list[str]) -> None:
    from ibol.tables import envs_table, show

    @dataclass(frozen=True)
    class Envs:
        pass

    _parse(Envs, argv, "envs", "List the environments that come with ibol.")
    show(envs_table())


def _presets(argv: list[str]) -> None:
    from ibol import presets
    from ibol.tables import presets_table, show

    @dataclass(frozen=True)
    class Presets:
        command: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="COMMAND")] = ""
        """The command whose presets to show (default: all)."""
        env: str = ""
        """Show the values for this environment."""

    given = _parse(Presets, argv, "presets", "Show the settings of the presets side by side.")
    for command in [given.command] if given.command else presets.commands():
        show(presets_table(command, given.env))


def _normalize(argv: list[str]) -> None:
    from ibol.learners import normalizer
    from ibol.runs.directory import versions
    from ibol.tables import normalizer_table, show

    @dataclass(frozen=True)
    class Normalize:
        env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
        """The environment."""
        trajectories: Count = normalizer.PAPER_TRAJECTORIES
        """Episodes of random actions."""
        steps: Count = normalizer.PAPER_STEPS
        """Steps of each."""
        seed: Natural = 0
        """Decides initial states and actions."""
        update: bool = False
        """Make these the values that ship with ibol (for its developers)."""
        quiet: bool = False
        """Show no progress."""

    given = _parse(Normalize, argv, "normalize", "Mean and standard deviation of states under random actions.")
    provenance = {"trajectories": given.trajectories, "steps": given.steps, "seed": given.seed}
    found = normalizer.compute_normalizer(given.env, **provenance, quiet=given.quiet)
    show(normalizer_table(given.env, found))
    if given.update:
        provenance["mujoco"] = versions()["mujoco"]
        print(f"written to {normalizer.save_normalizer(given.env, found, provenance)}")


def _peek(argv: Sequence[str], flag: str) -> str | None:
    """The value of a flag that must be known before the others' defaults are."""
    for i, arg in enumerate(argv):
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
        if arg == flag and i + 1 < len(argv):
            return argv[i + 1]
    return None


def _report(run: Any, finished: bool) -> None:
    if finished:
        print(f"done: {run.path} holds the policy (checkpoints/) and its curves (metrics.jsonl)")
        print(f"next: ibol evaluate {run.path}")
    else:
        print(f"stopped and saved; continue with: ibol resume {run.path}")
        sys.exit(130)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "linearize": _train("linearize", "Train a linearizer: a policy that moves the state in any asked direction."),
    "discover": _train("discover", "Discover skills without any reward.", default_method="ibol"),
    "sac": _train("sac", "Train plain SAC on an environment's own reward."),
    "downstream": _train("downstream", "Solve a task with skills, or with plain SAC: the goal's distance goes down."),
    "resume": _resume,
    "sweep": _sweep,
    "evaluate": _evaluate,
    "plot": _plot,
    "video": _video,
    "report": _report_page,
    "imitation-set": _imitation_set,
    "envs": _envs,
    "presets": _presets,
    "normalize": _normalize,
}
