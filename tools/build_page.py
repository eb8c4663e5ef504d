"""Builds the page's files for wheels and source distributions, where node is there and they are not built yet."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildPage(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Hatch calls this before it collects files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, or say that the page is left out; a package in development is built by 'make web'."""
        root = Path(self.root)
        if version == "editable" or (root / "src" / "ibol" / "page" / "assets" / "page.js").is_file():
            return
        npm = shutil.which("npm")
        if npm is None or not (root / "web").is_dir():
            self.app.display_warning("there is no npm: the package is built without the files of 'ibol page'")
            return
        try:
            for command in (("ci", "--silent"), ("run", "--silent", "build")):
                subprocess.run([npm, *command], cwd=root / "web", check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"the package is built without the files of 'ibol page': {error}")
