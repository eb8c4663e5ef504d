"""What options a command has, read from the dataclass that it is parsed into: for help, mistakes and completion."""

import dataclasses
import inspect
import math
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

_KINDS = {int: "whole number", float: "number", str: "text", Path: "path"}
_WORDS = {"whole number": "N", "number": "X", "text": "TEXT", "path": "PATH"}


@dataclass(frozen=True)
class Option:
    """One option or argument of a command."""

    name: str
    """The flag (`--learning-rate`), or of an argument what stands for it (`ENV`)."""
    kind: Literal["whole number", "number", "text", "path", "choice", "switch"]
    """What a value is."""
    help: str
    choices: tuple[str, ...] = ()
    several: bool = False
    """Whether it takes any number of values."""
    repeated: bool = False
    """Whether it may be given several times."""
    required: bool = False
    default: str = ""
    """As it would be typed; empty where there is none or the help says what happens."""
    group: str = ""
    """The heading that it belongs under; empty for the command's own options."""
    metavar: str = ""

    @property
    def positional(self) -> bool:
        """Whether it is an argument and has no flag."""
        return not self.name.startswith("-")

    @property
    def flags(self) -> tuple[str, ...]:
        """All that can be typed for it."""
        return (self.name, f"--no-{self.name[2:]}") if self.kind == "switch" else (self.name,)

    @property
    def usage(self) -> str:
        """How it is written: `--epochs N`."""
        if self.positional:
            return self.name
        if self.kind == "switch":
            return f"--[no-]{self.name[2:]}" if self.default == "yes" else self.name
        word = self.metavar or "NAME" if self.kind == "choice" else self.metavar or _WORDS[self.kind]
        return f"{self.name} {word}{'...' if self.several else ''}"

    def refusal(self, value: str) -> str:
        """What is wrong with the text of a value, or nothing; whether a number is in its bounds is checked later."""
        if self.choices:
            return "" if value in self.choices else f"it must be one of {', '.join(self.choices)}"
        if self.kind == "whole number":
            return "" if _is_number(value, int) else "a whole number is needed"
        return "a number is needed" if self.kind == "number" and not _is_number(value, float) else ""


def options_of(kind: Any, default: Any = None) -> list[Option]:
    """The options of a dataclass and of those inside of it, with the values of `default` as theirs."""
    return list(_options(kind, default, ""))


def described(kind: Any) -> dict[str, str]:
    """The docstring under each field of a dataclass, also of the ones that it inherits, as one line."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        if dataclasses.is_dataclass(base):
            params = docstring_parser.parse_from_object(base).params
            found |= {param.arg_name: " ".join((param.description or "").split()) for param in params}
    return found


def _options(kind: Any, default: Any, group: str) -> Iterator[Option]:
    hints, help_of, owners = get_type_hints(kind, include_extras=True), described(kind), _owners(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        value = getattr(default, field.name, _default(field))
        inner: Any = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if dataclasses.is_dataclass(inner):
            yield from _options(inner, value, help_of.get(field.name, "").rstrip("."))
        else:
            heading = group and (owners[field.name] or group)
            yield _option(field.name, hint, value, help_of.get(field.name, ""), heading)


def _owners(kind: Any) -> dict[str, str]:
    """For each field, the first sentence about the dataclass that has brought it."""
    found: dict[str, str] = {}
    for base in reversed(inspect.getmro(kind)):
        if dataclasses.is_dataclass(base) and base.__doc__ and not base.__doc__.startswith(f"{base.__name__}("):
            about = base.__doc__.split("\n")[0].split(".")[0].split(";")[0]
            found |= dict.fromkeys(inspect.get_annotations(base), about)
    return {field.name: found.get(field.name, "") for field in dataclasses.fields(kind)}


def _default(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return tyro.MISSING if field.default_factory is dataclasses.MISSING else field.default_factory()


def _option(name: str, hint: Any, value: Any, about: str, group: str) -> Option:
    extras = hint.__metadata__ if get_origin(hint) is Annotated else ()
    arg = next((extra for extra in extras if getattr(extra, "metavar", None) is not None), None)
    about = (getattr(arg, "help", None) or about) if arg is not None else about
    metavar = "" if arg is None else str(arg.metavar)
    shape, several = _shape(get_args(hint)[0] if extras else hint)
    choices = tuple(str(choice) for choice in get_args(shape)) if get_origin(shape) is Literal else ()
    kind: Any = "choice" if choices else "switch" if shape is bool else _KINDS.get(shape, "text")
    if shape is bool and value is None:  # three states: tyro takes a word
        kind, choices = "choice", ("True", "False")
    positional, repeated = tyro.conf.Positional in extras, tyro.conf.UseAppendAction in extras
    missing = value is tyro.MISSING or type(value).__name__.endswith("MissingType")
    return Option(
        name=metavar if positional else f"--{name.rstrip('_').replace('_', '-')}",
        kind=kind,
        help=about,
        choices=choices,
        several=several and not repeated,
        repeated=repeated,
        required=missing,
        default="" if missing else _shown(value, kind),
        group=group,
        metavar=metavar.removesuffix("..."),
    )


def _shape(hint: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there are several."""
    if get_origin(hint) is Annotated:
        return _shape(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return _shape(next(part for part in get_args(hint) if part is not types.NoneType))
    if get_origin(hint) is tuple:
        return _shape(get_args(hint)[0])[0], True
    return hint, False


def _shown(value: Any, kind: str) -> str:
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _is_number(text: str, kind: Any) -> bool:
    try:
        kind(text)
    except ValueError:
        return text == "None"  # tyro's word for nothing, where a setting may have none
    return True
