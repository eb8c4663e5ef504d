"""The order of the rooms: each imports only from rooms before it, wherever in a file the import stands."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ibol"

# What may be used anywhere, then the rooms in the order of docs/background/architecture.md: a new one is in both.
ANYWHERE = ["errors", "bounds", "memory", "outside", "trust", "interrupt", "seeding", "gl", "cache"]
ROOMS = [
    "zoo", "robots", "runs", "envs", "nn", "learners", "presets", "training", "linearizer", "skills", "metrics",
    "figures", "methods", "downstream", "evaluation", "films", "report", "page", "export", "experiments", "doctor",
    "tables",
    "cli",
]  # fmt: skip
ORDER = [*ANYWHERE, *ROOMS]


@functools.cache
def imports() -> list[tuple[str, str]]:
    """Pairs of a module of ibol and one that it imports, both as dotted names without `ibol.`."""
    return list(_imports())


def _imports() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        importer = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{importer} imports relatively"
                # `from ibol import presets` imports a module, `from ibol.errors import IbolError` a name in one.
                names = [node.module if node.module != "ibol" else f"ibol.{alias.name}" for alias in node.names]
            yield from ((importer, name.removeprefix("ibol.")) for name in names if name.split(".")[0] == "ibol")


def room(module: str) -> str:
    return module.split(".")[0]


def test_all_rooms_are_known() -> None:
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(ORDER)


def test_each_room_imports_only_from_rooms_before_it() -> None:
    pairs = [(a, b) for a, b in imports() if room(a) != room(b) and not room(a).startswith("__") and b != "ibol"]
    assert len(pairs) > 200
    upward = [f"{a} imports {b}" for a, b in pairs if ORDER.index(room(a)) < ORDER.index(room(b))]
    assert upward == []


def test_the_command_line_is_imported_by_nobody() -> None:
    assert {importer for importer, imported in imports() if room(imported) == "cli" != room(importer)} == {"__main__"}
    assert {room(importer) for importer, imported in imports() if imported == "ibol"} <= {"cli"}


def test_the_documented_order_is_this_one() -> None:
    text = (ROOT / "docs" / "background" / "architecture.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `ibol/")]
    documented = [name for row in rows for name in re.findall(r"`ibol/(\w+)(?:/|\.py)`", row)]
    assert documented == ROOMS
    (sentence,) = re.findall(r"\((`errors\.py`.*?)\)", text, re.DOTALL)
    assert set(re.findall(r"`(\w+)\.py`", sentence)) == set(ANYWHERE)
