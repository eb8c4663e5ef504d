"""Builds the page's files for wheels and source distributions, where node is there and they are not built yet.

IBOL_WITHOUT_PAGE=1 leaves them out. A wheel also gets the tested versions, with which 'ibol doctor' compares.
"""

import os
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
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"][str(root / "constraints.txt")] = "ibol/constraints.txt"
        if version == "editable" or (root / "src" / "ibol" / "page" / "assets" / "page.js").is_file():
            return
        npm = None if os.environ.get("IBOL_WITHOUT_PAGE") == "1" else shutil.which("npm")
        if npm is None or not (root / "web").is_dir():
            self.app.display_warning("without npm, the package is built without the files of 'ibol page'")
            return
        try:
            for command in (("ci", "--silent"), ("run", "--silent", "build")):
                subprocess.run([npm, *command], cwd=root / "web", check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"the package is built without the files of 'ibol page': {error}")
