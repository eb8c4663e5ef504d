"""The documentation site: it builds without a warning, nothing links into nothing, and the reference is complete."""

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ibol
import ibol.envs
from ibol import cli, zoo

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import build_docs  # noqa: E402
import reference  # noqa: E402

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
LONGEST = 200
GENERATED = {DOCS / "guides" / "zoo.md"}  # cards, by tools/zoo.py

FENCED = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", prose(page), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text.lower()).strip())
        number = 0
        while (unique := f"{slug}_{number}" if number else slug) in found:
            number += 1
        found.add(unique)
    return found


def dead_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: there is no {path}"
        elif (
            anchor and target.suffix == ".md" and anchor not in anchors(target) and "insert:" not in target.read_text()
        ):
            yield f"{link}: no heading #{anchor}"


@pytest.mark.parametrize("page", [*OUTSIDE, *PAGES, ROOT / "benchmarks" / "results" / "README.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](none.md) [y](#a-b-c) [z](#nothing)\n```\n[not](a.md)\n```\n")
    assert list(dead_links(page)) == ["none.md: there is no none.md", "#nothing: no heading #nothing"]


def navigation() -> list[str]:
    return re.findall(r"^ +- .*?: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = navigation()
    assert sorted(listed) == sorted({str(page.relative_to(DOCS)) for page in PAGES})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_short_and_have_one_title(page: Path) -> None:
    if "notebook" not in page.parts and page not in GENERATED:
        assert len(page.read_text().splitlines()) <= LONGEST
    assert len(re.findall(r"^# ", prose(page), re.M)) == 1


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def documented() -> set[str]:
    """What the pages of the API show."""
    text = "".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))
    return set(re.findall(r"^::: (\S+)$", text, re.M))


def public() -> set[str]:
    """What `__all__` lists, and what examples and pages import."""
    names = {f"ibol.{name}" for name in ibol.__all__ if not name.startswith("__")}
    names |= {f"ibol.envs.{name}" for name in ibol.envs.__all__}
    for file in [ROOT / "README.md", *PAGES, *sorted((ROOT / "examples").glob("*.py"))]:
        for module, imported in re.findall(r"^from (ibol[\w.]*) import ([\w, ]+)$", file.read_text(), re.M):
            names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    return names


def test_all_public_objects_are_in_the_reference() -> None:
    shown = documented()
    text = "".join(page.read_text() for page in (DOCS / "reference" / "api").glob("*.md"))
    same = {"ibol.envs.make": "ibol.make"}  # exported twice
    missing = [
        name
        for name in sorted(public())
        if same.get(name, name) not in shown
        and name.rpartition(".")[0] not in shown
        and f"`{name}`" not in text
        and not any(other.startswith(f"{name}.") for other in shown)  # a module
    ]
    assert missing == []


def test_what_is_shown_exists() -> None:
    for name in documented():
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:cut]))
            except ImportError:
                continue
            for part in parts[cut:]:
                found = getattr(found, part)
            break


def test_all_commands_and_flags_are_in_the_reference() -> None:
    text = reference.commands_text()
    for command in cli.COMMANDS:
        assert f"\n## ibol {command}\n" in f"\n{text}"
    settings = reference.settings_text()
    for flag in ("--latent-dim", "--beta", "--lambda", "--discrete-latents", "--critic"):
        assert f"`{flag}`" in settings
    assert "--trajectories" in text
    assert not re.search(r"\| +\|$", settings, re.M), "a setting that nothing explains"


def test_pages_of_the_reference_get_their_tables(tmp_path: Path) -> None:
    build_docs.make_pages(tmp_path / "pages")
    texts = {page: page.read_text() for page in (tmp_path / "pages").rglob("*.md")}
    assert not [page for page, text in texts.items() if reference.INSERT.search(text)]
    assert (tmp_path / "pages" / "files" / "SECURITY.md").is_file()
    assert "`neighbour_information`" in texts[tmp_path / "pages" / "reference" / "metrics.md"]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """In a copy, so that two builds do not disturb each other."""
    pytest.importorskip("zensical")
    place = tmp_path / "repository"
    build_docs.make_pages(place / "build" / "pages")
    shutil.copyfile(ROOT / "mkdocs.yml", place / "mkdocs.yml")
    (place / "src").symlink_to(ROOT / "src")
    code, output = build_docs.build(place)
    assert code == 0, output
    assert "No issues found" in output
    home = (place / "build" / "site" / "index.html").read_text()
    assert not re.findall(r'(?:src|href)="(https?://(?!zensical\.org|arxiv\.org)[^"]*)"', home), "loaded from elsewhere"


@pytest.mark.slow
def test_the_site_is_not_built_with_a_dead_link(tmp_path: Path) -> None:
    pytest.importorskip("zensical")
    (tmp_path / "build" / "pages").mkdir(parents=True)
    (tmp_path / "build" / "pages" / "index.md").write_text("# Home\n[x](missing.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\ndocs_dir: build/pages\nsite_dir: build/site\n")
    code, output = build_docs.build(tmp_path)
    assert code != 0
    assert "does not exist" in output


def test_the_builder_says_what_is_wrong() -> None:
    assert list(build_docs.warnings_of("\x1b[33mWarning:\x1b[0m page does not exist\nall is well\n")) == [
        "Warning: page does not exist"
    ]


def test_numbers_in_the_readme_are_those_of_the_files() -> None:
    """Of the tuning seed (those that the criterion chooses), of the bundled skills, and of reporting runs."""
    tune, cells, reported = reference._tune(), readme_cells(), dict(reference.reporting_rows())
    for (method, env), cell in cells.items():
        if cell.endswith("ᵗ"):
            found = next(row["scores"] for row, chosen in tune.choose(env) if chosen and row["method"] == method)
        elif cell.endswith("ᵇ"):
            found = zoo.card(env)["scores"]["skills"]
        elif cell.endswith("ᵐ"):
            rows = [row for row in reported[env] if row["name"] == method and row["policy"] == "sampled"]
            assert len(rows) == 4
            found = {name: sum(row[name] for row in rows) / 4 for name in ("neighbour_information", "accuracy")}
        else:
            continue
        information, accuracy = re.findall(r"\d+\.\d+", cell)
        assert float(information) == pytest.approx(found["neighbour_information"], abs=0.006), (method, env)
        assert float(accuracy) == pytest.approx(found["accuracy"], abs=0.006), (method, env)
    assert len(cells) >= 20


def readme_cells() -> dict[tuple[str, str], str]:
    """The cells of the table of methods and environments that are filled."""
    rows = [
        line.strip("| ").split("|") for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("|")
    ]
    start = next(number for number, row in enumerate(rows) if " HalfCheetah " in row)
    names = {"HalfCheetah": "half_cheetah", "D'Kitty": "dkitty"}
    envs = [names.get(cell.strip(), cell.strip().lower()) for cell in rows[start]]
    cells: dict[tuple[str, str], str] = {}
    for row in rows[start + 2 :]:
        if "methods/" not in row[0] or len(row) < 3:
            break
        method = re.findall(r"methods/(\w+)\.md", row[0])[0]
        padded = [cell.strip() for cell in row[1:]]
        cells |= {(method, env): cell for env, cell in zip(envs, padded, strict=False) if cell}
    return cells
