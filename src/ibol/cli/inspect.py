"""Commands that look things up: zoo, envs, presets and normalize."""

import sys
from dataclasses import dataclass
from typing import Annotated

import tyro

from ibol.bounds import Count, Natural
from ibol.cli.parsing import look_here, parse


def show_zoo(argv: list[str]) -> None:
    """`ibol zoo`."""
    from ibol import zoo
    from ibol.errors import unknown
    from ibol.tables import card_table, show, zoo_table

    @dataclass(frozen=True)
    class Zoo:
        name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
        """The skills whose card to show (default: list all)."""

    given = parse(Zoo, argv, "zoo", "List the skills that come with ibol, or show the card of some.")
    if given.name and given.name not in zoo.names():
        raise unknown("name of bundled skills", given.name, zoo.names())
    show(card_table(given.name) if given.name else zoo_table())


def envs(argv: list[str]) -> None:
    """`ibol envs`."""
    from ibol.cli.robot_table import robot_table
    from ibol.tables import envs_table, show

    @dataclass(frozen=True)
    class Envs:
        robot: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")] = ""
        """The TOML file of an own robot, or a robot's name: what is known of it (default: list all)."""
        all: bool = False
        """Show the Gymnasium ids, too."""

    given = parse(Envs, argv, "envs", "List the environments that come with ibol, or say what a robot is.")
    show(robot_table(given.robot) if given.robot else envs_table(everything=given.all))


def show_presets(argv: list[str]) -> None:
    """`ibol presets`."""
    from ibol import outside, presets
    from ibol.errors import IbolError
    from ibol.tables import presets_table, show

    @dataclass(frozen=True)
    class Presets:
        command: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="COMMAND")] = ""
        """The command or method whose presets to show (default: all)."""
        env: str = ""
        """Show the values for this environment."""
        all: bool = False
        """Show the settings that are the same in all presets, too."""

    given = parse(Presets, argv, "presets", "Show the settings of the presets side by side.")
    if outside.is_module(given.command):
        look_here()
    commands = [given.command] if given.command else presets.commands()
    tables = [presets_table(command, given.env, everything=given.all) for command in commands]
    for name in [] if given.command else outside.installed():
        try:
            tables.append(presets_table(name, given.env, everything=given.all))
        except IbolError as error:  # of somebody else: the others are shown all the same
            print(f"ibol: {error}", file=sys.stderr)
    show(*tables)


def normalize(argv: list[str]) -> None:
    """`ibol normalize`."""
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
        """Steps of an episode."""
        seed: Natural = 0
        """Seed of initial states and actions."""
        update: bool = False
        """Make these the values that ship with ibol (for its developers)."""
        quiet: bool = False
        """Show no progress."""

    given = parse(Normalize, argv, "normalize", "Mean and standard deviation of states under random actions.")
    provenance = {"trajectories": given.trajectories, "steps": given.steps, "seed": given.seed}
    found = normalizer.compute_normalizer(given.env, **provenance, quiet=given.quiet)
    show(normalizer_table(given.env, found))
    if given.update:
        provenance["mujoco"] = versions()["mujoco"]
        print(f"written to {normalizer.save_normalizer(given.env, found, provenance)}")
