"""Commands about this installation: doctor and completion."""

import json
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

import ibol
from ibol.cli.parsing import parse


def doctor(argv: list[str]) -> None:
    """`ibol doctor`."""
    from ibol import doctor
    from ibol.tables import doctor_table, show

    @dataclass(frozen=True)
    class Doctor:
        json: bool = False
        """Print JSON for other programs instead of the table."""

    about = "Check this installation. Exits with 1 if something that ibol needs is broken."
    given = parse(Doctor, argv, "doctor", about)
    checks = doctor.examine(ibol.__version__)
    if given.json:
        print(json.dumps(doctor.as_json(checks), indent=2))
    else:
        show(doctor_table(checks))
    if not doctor.healthy(checks):
        sys.exit(1)


def completion(argv: list[str]) -> None:
    """`ibol completion`."""
    from ibol.cli.completion import SHELLS, script

    @dataclass(frozen=True)
    class Completion:
        shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(metavar="SHELL")]
        """The shell: bash, zsh or fish."""

    about = "Print a script that completes the commands and options of ibol in a shell."
    given = parse(Completion, argv, "completion", about, examples=list(SHELLS.values()))
    print(script(given.shell))
