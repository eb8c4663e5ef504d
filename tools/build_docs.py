"""Builds the documentation site from docs/ into build/site.

    python tools/build_docs.py            # the site; a warning is an error
    python tools/build_docs.py --pages    # only its Markdown, in build/pages

Tables of commands, settings and metrics are made from the code (tools/reference.py). The pages link to files of the
repository that are not in docs/ (measurements, examples, SECURITY.md). Those are copied next to the pages, so that the
site needs nothing besides itself.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = ROOT / "build" / "pages"
FILES = "files"  # where in PAGES the files of the repository are

LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def make_pages(pages: Path = PAGES) -> None:
    """All Markdown of the site in directory `pages`: docs/, and what it links to."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages)
    copied: set[Path] = set()
    waiting = sorted(pages.rglob("*.md"))
    while waiting:
        page = waiting.pop()
        text = reference.insert(page.read_text())
        new = LINK.sub(lambda link, page=page: _staged(link, page, pages, copied, waiting), text)
        page.write_text(new)


def _staged(link: re.Match[str], page: Path, pages: Path, copied: set[Path], waiting: list[Path]) -> str:
    """The link as it is in the site; its target is copied there if it is elsewhere in the repository."""
    source = _source(page, pages)
    target = Path(os.path.normpath(source.parent / link[2]))
    if target.is_dir():
        target /= "README.md"
    if not target.is_file() or not target.is_relative_to(ROOT):
        return link[0]  # the builder says that it is dead
    if target.is_relative_to(DOCS):
        place = pages / target.relative_to(DOCS)
    else:
        place = pages / FILES / target.relative_to(ROOT)
        if place.suffix not in (".md", ".json", ".png", ".gif"):
            place = place.with_name(place.name + ".txt")  # shown by a browser, not run
        if target not in copied:
            copied.add(target)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, place)
            if place.suffix == ".md":
                waiting.append(place)
    return link[1] + os.path.relpath(place, page.parent) + link[3]


def _source(page: Path, pages: Path) -> Path:
    """Where in the repository a page of the site comes from."""
    inside = page.relative_to(pages)
    return ROOT / inside.relative_to(FILES) if inside.parts[0] == FILES else DOCS / inside


def warnings_of(output: str) -> Iterator[str]:
    """The lines of the builder that say what is wrong, without colours."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    yield from (line for line in plain.splitlines() if re.match(r"(Warning|Error|WARNING|ERROR)\b", line))


def build(root: Path = ROOT) -> tuple[int, str]:
    """The site of the pages in build/pages of `root`: an exit code, and what the builder says."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    output = done.stdout + done.stderr.partition("Traceback")[0]
    return done.returncode or int(any(warnings_of(output))), output


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", action="store_true", help="only the Markdown")
    given = parser.parse_args()
    make_pages()
    if given.pages:
        return 0
    code, output = build()
    print(output, end="")
    if not code:
        print("written to build/site/index.html; to search in it: python -m http.server --directory build/site")
    return code


if __name__ == "__main__":
    sys.exit(main())
