"""How a benchmark writes down what it measured: numbers never stand without what produced them."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def write_json(path: str, settings: Mapping[str, Any], packages: Sequence[str], results: Any) -> None:
    """Write the results with the settings, the machine and the versions of the packages."""
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    versions = {package: _version(package) for package in packages}
    content = {"settings": dict(settings), "machine": machine, "versions": versions, "results": results}
    with open(path, "w") as file:
        json.dump(content, file, indent=2)
        file.write("\n")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
