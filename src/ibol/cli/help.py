"""The help of a command as text: what is used most first, the rest for `--help-all`."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ibol.cli.options import Option

FEW = 16
"""Commands with at most so many options show all of them."""
_WIDTHS = (40, 100)  # characters of a line, at least and at most
_COLUMN = 26
_LONG = 60  # characters: choices that are listed


@dataclass(frozen=True)
class Help:
    """What `--help` shows of a command."""

    command: str
    about: str
    options: tuple[Option, ...]
    first: tuple[str, ...] = ()
    """The most used options, in their order; without any, all options are shown at once."""
    examples: tuple[str, ...] = ()

    def text(self, *, everything: bool = False, width: int | None = None) -> str:
        """The help in lines of at most `width` characters (default: those of the terminal, at most 100)."""
        width = min(max(width or shutil.get_terminal_size((_WIDTHS[1], 24)).columns, _WIDTHS[0]), _WIDTHS[1])
        arguments = [option for option in self.options if option.positional]
        flags = [option for option in self.options if not option.positional]
        words = [option.name if option.required or option.several else f"[{option.name}]" for option in arguments]
        blocks = [f"usage: ibol {' '.join([self.command, *words, '[OPTIONS]'])}", textwrap.fill(self.about, width)]
        if arguments:
            blocks.append(_section("arguments", arguments, width))
        if everything or not self.first or len(flags) <= FEW:
            blocks += _sections(flags, width)
        else:
            known = {option.name: option for option in flags}
            shown = [known[name] for name in self.first if name in known]
            more = f"'ibol {self.command} --help-all' lists all {len(flags)} options."
            blocks += [_section("most used options", shown, width), textwrap.fill(more, width)]
        if self.examples:
            blocks.append("\n".join(["examples", *(f"  {example}" for example in self.examples)]))
        return "\n\n".join(blocks)


def _sections(options: Iterable[Option], width: int) -> list[str]:
    groups: dict[str, list[Option]] = {}
    for option in options:
        groups.setdefault(option.group, []).append(option)
    ordered = sorted(groups.items(), key=lambda one: one[0] != "")  # the command's own options come first
    return [_section(group or "options", members, width) for group, members in ordered]


def _section(title: str, options: Sequence[Option], width: int) -> str:
    return "\n".join([title[0].lower() + title[1:], *(_entry(option, width) for option in options)])


def _entry(option: Option, width: int) -> str:
    about = option.help
    if option.choices and len(listed := ", ".join(option.choices)) <= _LONG and option.choices != ("True", "False"):
        about = f"{about} One of {listed}."
    if option.default and not (option.kind == "switch" and option.default == "no"):
        about = f"{about} (default: {option.default})"
    column = _COLUMN if width >= 2 * _COLUMN else 4
    head = f"  {option.usage}"
    lines = textwrap.wrap(about, width - column, break_long_words=False, break_on_hyphens=False) or [""]
    if len(head) > column - 2:
        return "\n".join([head, *(f"{'':{column}}{line}" for line in lines)])
    return "\n".join([f"{head:{column}}{lines[0]}", *(f"{'':{column}}{line}" for line in lines[1:])])
