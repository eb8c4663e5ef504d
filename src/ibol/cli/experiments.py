"""Commands that carry out experiments: paper and experiment."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ibol.bounds import Count, NonNegative
from ibol.cli.parsing import TrustEnv, TrustMethod, parse, trusting


@dataclass(frozen=True)
class Common:
    """How an experiment is carried out."""

    preset: str | None = None
    """Settings of all runs (default: fast, or what the file says); smoke only shows that everything works."""
    dir: Path | None = None
    """Where runs and results are kept (default: experiments/ and a name made of the experiment and its preset)."""
    seeds: Count | None = None
    """Number of seeds, and largest number of linearizers, where an entry compares several (default: as the entry
    says)."""
    engine: Literal["local", "ray"] = "local"
    """What trains: processes of this machine, or a Ray cluster (needs the extra: pip install 'ibol[ray]')."""
    address: str | None = None
    """With --engine ray: the cluster's address; auto is the one that runs on this machine (default: start one)."""
    jobs: Count | None = None
    """Runs that are trained at the same time, each on one core (default: one for each core)."""
    checkpoint_minutes: NonNegative = 5.0
    """Minutes between checkpoints of new runs, and so the most training that is lost when a machine fails."""
    status: bool = False
    """Only say what is there and what is missing."""
    commands: bool = False
    """Only print a shell command for each missing run, to be called in the experiment's directory."""
    trust_env: TrustEnv = ()
    trust_method: TrustMethod = ()
    quiet: bool = False
    """Show no progress."""


def paper(argv: list[str]) -> None:
    """`ibol paper`."""
    from ibol.experiments.model import paper_experiment

    @dataclass(frozen=True)
    class Paper:
        common: Common
        names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME...")] = ()
        """Entries to train and draw, or all; without any, all are listed, with what they need and what is there."""

    about = "The experiments of the paper: train what is missing, measure, draw, judge its claims, and write one page."
    given = parse(Paper, argv, "paper", about)
    experiment = paper_experiment(given.common.preset, given.common.seeds)
    _carry_out(experiment.chosen(given.names), given.common, "paper", only_look=not given.names)


def experiment(argv: list[str]) -> None:
    """`ibol experiment`."""
    from ibol.experiments.model import read_experiment

    @dataclass(frozen=True)
    class OwnExperiment:
        file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
        """A .toml file with entries: which runs, which figures (docs/guides/experiments.md)."""
        common: Common

    given = parse(OwnExperiment, argv, "experiment", "Train, measure and draw an experiment of your own.")
    with trusting(given.common):
        found = read_experiment(given.file, given.common.preset, given.common.seeds)
    _carry_out(found, given.common, given.file.stem, only_look=False)


def _carry_out(experiment: Any, given: Common, name: str, *, only_look: bool) -> None:
    from ibol import interrupt
    from ibol.experiments.conduct import Order, check_directory, conduct
    from ibol.experiments.engines.local import cores
    from ibol.experiments.status import commands, status_of
    from ibol.tables import experiment_table, show

    directory = given.dir or Path("experiments") / f"{name}-{experiment.preset}"
    check_directory(directory)
    if given.commands:
        with trusting(given):
            print("\n".join(commands(experiment, directory)))
        return
    if only_look or given.status:
        with trusting(given):
            show(experiment_table(status_of(experiment, directory, given.jobs or cores()), str(directory)))
        return
    order = Order(
        directory,
        given.engine,
        given.address,
        given.jobs,
        given.trust_env,
        given.trust_method,
        given.checkpoint_minutes,
        given.quiet,
    )
    with interrupt.raised():
        try:
            report = conduct(experiment, order, lambda said: None if given.quiet else print(said, file=sys.stderr))
        except KeyboardInterrupt:
            print("stopped and saved; the same command continues", file=sys.stderr)
            raise
    _say_result(report)


def _say_result(report: Any) -> None:
    for verdict in report.verdicts:
        print(f"{verdict.claim} {verdict.verdict}: {verdict.statement}")
    for result in report.results:
        for note in result.notes:
            print(f"{result.entry.name}: {note}")
    for name, said in report.board.failed.items():
        print(f"failed: {name}: {said}", file=sys.stderr)
    print(f"done: {report.page} shows {len(report.board.done)} of {len(report.board.cells)} runs")
    if report.board.failed:
        sys.exit(1)
