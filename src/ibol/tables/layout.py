"""Tables of at most 100 columns: boxes on a terminal, plain text in a pipe or file, and a line about each column."""

import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 100
"""Characters of a line where there is no terminal that says otherwise."""
_NAME = 28
"""Characters of a name before it is shortened."""
_LEAST = 40
_TEXT, _GAP = 14, 3
"""Characters of a text before it wraps, and between two columns."""


@dataclass(frozen=True)
class Column:
    """A column: its header, the unit below it, and what it is."""

    header: str
    unit: str = ""
    about: str = ""
    number: bool = True
    """Whether it is aligned to the right."""


@dataclass
class Sheet:
    """A table with what stands around it."""

    columns: Sequence[Column]
    title: str = ""
    rows: list[Sequence[str]] = field(default_factory=list)
    dim: set[int] = field(default_factory=set)
    """Rows that matter less."""
    ends: set[int] = field(default_factory=set)
    """Rows with a line below them."""
    notes: list[str] = field(default_factory=list)
    """Sentences below it."""
    entries: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    """Lists of long texts below it: a heading, and a text for each name."""

    def add(self, *cells: str, dim: bool = False, end: bool = False) -> None:
        """One more row."""
        if dim:
            self.dim.add(len(self.rows))
        if end:
            self.ends.add(len(self.rows))
        self.rows.append(cells)


def show(*sheets: Sheet) -> None:
    """Print tables; notes and lists that several of them share stand below the last one."""
    width = max(shutil.get_terminal_size((WIDTH, 24)).columns, _LEAST)
    plain = not sys.stdout.isatty()
    blocks = []
    for number, sheet in enumerate(sheets):
        later = [line for other in sheets[number + 1 :] for line in _below(other, width)]
        below = [line for line in _below(sheet, width) if line not in later]
        blocks.append("\n".join([*(_drawn(piece, width, plain=plain) for piece in _pieces(sheet, width)), *below]))
    print("\n\n".join(blocks))


def short_names(names: Sequence[str], most: int = _NAME) -> dict[str, str]:
    """Names of at most about `most` characters: what all share at their begin is left out, then the middle.

    No two names become equal.
    """
    different = list(dict.fromkeys(names))
    if all(len(name) <= most for name in different):
        return {name: name for name in different}
    short = _apart(different) if len(different) > 1 else different
    short = short if len(set(short)) == len(different) else different
    for size in range(most, max(map(len, short)) + 1):
        cut = [middle_out(name, size) for name in short]
        if len(set(cut)) == len(different):
            return dict(zip(different, cut, strict=True))
    return dict(zip(different, short, strict=True))


def middle_out(text: str, most: int) -> str:
    """A text with `...` in its middle if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    head = (most - 3 + 1) // 2
    return f"{text[:head]}...{text[len(text) - (most - 3 - head) :]}"


def _apart(names: Sequence[str]) -> list[str]:
    """The names without the words that all begin with, and without those that all end with."""
    parts = [re.split(r"(?<=[-/])", name) for name in names]
    least = min(map(len, parts)) - 1
    head = next((i for i in range(least) if len({words[i] for words in parts}) > 1), least)
    # A word at the end has no separator behind it, and the one before that ends with it.
    tails = [re.split(r"(?=[-/])", "".join(words[head:])) for words in parts]
    least = min(map(len, tails)) - 1
    tail = next((i for i in range(least) if len({words[-1 - i] for words in tails}) > 1), least)
    return ["".join(words[: len(words) - tail]) for words in tails]


def _pieces(sheet: Sheet, width: int) -> list[Sheet]:
    """The table, or several below each other where its numbers do not fit beside each other."""
    needs = [_need(column, [row[i] for row in sheet.rows]) for i, column in enumerate(sheet.columns)]
    lead = next((i for i, column in enumerate(sheet.columns) if column.number), len(needs))
    room = width - sum(needs[:lead]) - _GAP * lead
    chunks: list[list[int]] = [[]]
    for i in range(lead, len(needs)):
        if chunks[-1] and sum(needs[j] + _GAP for j in [*chunks[-1], i]) > room + _GAP:
            chunks.append([])
        chunks[-1].append(i)
    if len(chunks) == 1 or not lead:
        return [sheet]
    pieces = []
    for number, chunk in enumerate(chunks):
        kept = [*range(lead), *chunk]
        columns, rows = [sheet.columns[i] for i in kept], [[row[i] for i in kept] for row in sheet.rows]
        pieces.append(Sheet(columns, "" if number else sheet.title, list(rows), sheet.dim, sheet.ends))
    return pieces


def _need(column: Column, cells: Sequence[str]) -> int:
    """Characters that a column needs at least: all of its numbers, or the longest word of its texts."""
    header = max(map(len, f"{column.header}\n{column.unit}".split("\n")))
    longest = max(map(len, cells), default=0)
    if column.number:
        return max(header, longest)
    return max([min(longest, _TEXT), *(len(word) for cell in cells for word in cell.split())])


def _drawn(sheet: Sheet, width: int, *, plain: bool) -> str:
    style = box.Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True) if plain else box.SIMPLE_HEAD
    table = Table(
        box=style, title=sheet.title or None, title_justify="left", pad_edge=False, show_edge=False, title_style="bold",
    )  # fmt: skip
    for column in sheet.columns:
        header = f"{column.header}\n{column.unit}" if column.unit else column.header
        table.add_column(header, justify="right" if column.number else "left", overflow="fold", no_wrap=column.number)
    for number, row in enumerate(sheet.rows):
        table.add_row(*row, style="dim" if number in sheet.dim else None, end_section=number in sheet.ends)
    file = io.StringIO()
    console = Console(
        file=file, width=width, markup=False, emoji=False, highlight=False, force_terminal=not plain,
        color_system=None if plain else "auto",
    )  # fmt: skip
    console.print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))


def _below(sheet: Sheet, width: int) -> Iterator[str]:
    legend = {column.header.replace("\n", " "): column.about for column in sheet.columns if column.about}
    for heading, texts in [("", legend), *sheet.entries]:
        if not texts:
            continue
        yield heading
        indent = min(max(map(len, texts)) + 4, width // 2)
        for name, text in texts.items():
            first = f"  {middle_out(name, indent - 3):{indent - 2}}"
            yield textwrap.fill(text, width, initial_indent=first, subsequent_indent=" " * indent)
    for note in sheet.notes:
        yield textwrap.fill(note, width, break_long_words=False, break_on_hyphens=False)
