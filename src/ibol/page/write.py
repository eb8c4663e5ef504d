"""`ibol page`: one HTML file from the built page and the runs' data."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from string import Template
from typing import Any

from ibol.errors import IbolError
from ibol.page.data import page_data

ASSETS = Path(__file__).parent / "assets"
"""What `make web` builds from `web/`; the wheel carries it."""
_FILES = ("template.html", "style.css", "page.js", "physics.txt", "LICENSES.txt")
_ALSO = {
    "gymnasium": ("LICENSE",),  # the model files of its robots
    "mujoco": ("LICENSES_THIRD_PARTY.md",),  # what MuJoCo is built with
}
"""Licences that the installed packages have of what ends up in the page, too."""


def write_page(names: Sequence[str], output: Path) -> None:
    """A page in which the skills of runs move; see `page_data` for the names."""
    assets = built()
    page = filled(assets, page_data(names))
    try:
        output.write_text(page)
    except OSError as error:
        raise IbolError(f"could not write {output}: {error.strerror}") from None


def filled(assets: Sequence[str], data: Mapping[str, Any]) -> str:
    """The page's text; nothing of the data can become a part of its script."""
    template, style, script, physics, licences = assets
    simulated = any(run["body"]["kind"] == "robot" for run in data["runs"])
    return Template(template).substitute(
        title=escape(f"Skills: {', '.join(run['name'] for run in data['runs'])}"),
        style=style,
        script=script,
        physics=physics if simulated else "",  # the point needs none
        licences=escape("\n\n".join([licences, *_more_licences()])),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
    )


def is_built() -> bool:
    """Whether this installation has the built files."""
    return all((ASSETS / name).is_file() for name in _FILES)


def built() -> list[str]:
    """The texts of the built files, in the order of their names above."""
    try:
        return [(ASSETS / name).read_text() for name in _FILES]
    except OSError:
        raise IbolError(
            "the page's files were not built with this installation of ibol: install node and npm, "
            "then run 'make web' in its source, or install a wheel that has them"
        ) from None


def _more_licences() -> list[str]:
    """Texts from the installed packages, as far as they are there."""
    texts = []
    for package, names in _ALSO.items():
        try:
            files = distribution(package).files or []
        except PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if path.name in names and "licenses" in path.parts and path.is_file():
                texts.append(f"{package}: {path.name}\n\n{path.read_text(errors='replace')}")
    return texts
