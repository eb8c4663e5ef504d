"""The script that completes commands and options in a shell; tyro writes it from the options of all commands."""

import contextlib
import functools
import io
from collections.abc import Iterable
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import tyro

from ibol import cli, presets, zoo
from ibol.cli.options import Option
from ibol.cli.parsing import HelpAsked
from ibol.training import launch

SHELLS = {
    "bash": "ibol completion bash > ~/.local/share/bash-completion/completions/ibol",
    "zsh": 'ibol completion zsh > "${fpath[1]}/_ibol"',
    "fish": "ibol completion fish > ~/.config/fish/completions/ibol.fish",
}
"""How each shell is told of it."""
_TYPES: dict[str, Any] = {"whole number": int, "number": float, "text": str, "path": Path, "switch": bool}


def script(shell: str) -> str:
    """The script for a shell."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.suppress(SystemExit):
        tyro.cli(_every_command(), prog="ibol", args=["--tyro-print-completion", shell])
    return written.getvalue()


@functools.cache
def _every_command() -> Any:
    """A type with all commands and their options, for tyro."""
    commands: Any = [_command(name) for name in cli.COMMANDS]
    return Union[tuple(commands)]  # noqa: UP007


def options_of(command: str) -> tuple[str, list[Option]]:
    """What a command is for, and its options; for 'discover' those of all methods."""
    arguments = [["--method", method] for method in launch.discovery_methods()] if command == "discover" else [[]]
    found: dict[str, Option] = {}
    about = ""
    for words in arguments:
        try:
            cli.COMMANDS[command]([*words, "--help-all"])
        except HelpAsked as asked:
            about = asked.help.about
            found = {option.name: option for option in asked.help.options} | found
    return about, list(found.values())


def _command(name: str) -> Any:
    about, options = options_of(name)
    members = [(_field_name(option), _type(option), _default(option)) for option in options]
    made = make_dataclass(name.replace("-", "_").capitalize(), members, kw_only=True)
    made.__doc__ = about
    return Annotated[made, tyro.conf.subcommand(name, description=about)]


def _field_name(option: Option) -> str:
    return "argument_" + "".join(c if c.isalnum() else "_" for c in option.name).lower().strip("_")


def _type(option: Option) -> Any:
    choices = tuple(_choices(option))
    kind: Any = Literal[choices] if choices else _TYPES[option.kind]
    if option.several or option.repeated:
        kind = tuple[kind, ...]
    elif option.kind != "switch":
        kind = kind | None
    extras: list[Any] = [tyro.conf.arg(name="" if option.positional else option.name[2:], help=option.help)]
    if option.positional:
        extras = [tyro.conf.Positional, tyro.conf.arg(metavar=option.name, help=option.help)]
    return Annotated[(kind, *extras)]


def _choices(option: Option) -> Iterable[str]:
    """What a shell can offer for a value; other values are allowed all the same."""
    if option.choices:
        return option.choices
    if option.name == "--preset":
        return sorted({name for command in presets.commands() for name in presets.names(command)})
    return zoo.names() if option.name == "--skills" else ()


def _default(option: Option) -> Any:
    if option.positional and not option.several:
        return field()
    return field(default=() if option.several or option.repeated else False if option.kind == "switch" else None)
