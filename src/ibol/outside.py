"""Methods from outside of this package: those that installed packages offer, and modules that the user names.

A package offers a method by an entry point of the group `ibol.methods`, whose name is the method's and whose value is
its module. The name of a method may also be that of a module itself: `my_package.my_method`, or `my_method:METHOD`.
Presets are in a TOML file beside the module, of the same name.
"""

import functools
import importlib
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ibol.errors import IbolError

GROUP = "ibol.methods"
_ATTRIBUTE = "METHOD"
_MOST_BYTES = 2**20
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(:[A-Za-z_]\w*)?")


def installed() -> dict[str, str]:
    """The methods that installed packages offer: names, and `module` or `module:attribute` of each."""
    return dict(_installed(tuple(sys.path)))


def is_module(name: str) -> bool:
    """Whether this is the name of a module, which is imported to find the method, and of no installed method."""
    return (":" in name or "." in name) and _MODULE.fullmatch(name) is not None and name not in installed()


def is_known(name: str) -> bool:
    """Whether a method from outside may be called so; nothing is imported to find out."""
    return name in installed() or is_module(name)


def load(name: str) -> Any:
    """What the module of a method says about it, its `METHOD`."""
    module, _, attribute = _module_of(name).partition(":")
    found = getattr(_imported(name, module), attribute or _ATTRIBUTE, None)
    if found is None:
        raise IbolError(
            f"the module {module!r} of the method {name!r} has no {attribute or _ATTRIBUTE}: "
            "end it with METHOD = discovery_method(Config, Trainer)"
        )
    return found


def presets_of(name: str) -> tuple[Path, str]:
    """The file with the presets of a method, beside its module, and what is in it."""
    module = _module_of(name).partition(":")[0]
    place = getattr(_imported(name, module), "__file__", None)
    if place is None:
        raise IbolError(f"the module {module!r} of the method {name!r} is not a file, so it has no presets")
    file = Path(place).with_name(f"{module.rpartition('.')[2]}.toml")
    try:
        with file.open("rb") as opened:
            content = opened.read(_MOST_BYTES)
        return file, content.decode()
    except OSError as error:
        raise IbolError(
            f"the method {name!r} has no presets: {file} cannot be read ({error.strerror}); "
            "write that file, with a table [fast.all] of settings"
        ) from None
    except UnicodeDecodeError:
        raise IbolError(f"the presets {file} of the method {name!r} are not UTF-8 text") from None


def _module_of(name: str) -> str:
    return installed().get(name, name)


def _imported(name: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except IbolError:
        raise
    except Exception as error:  # whatever the code of others raises
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise IbolError(f"the method {name!r} needs the module {module!r}, which cannot be imported: {said}") from error


@functools.lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Pairs of names and modules, for one search path; where several packages have a name, the first one has it."""
    found: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point.value.replace(" ", ""))
    return tuple(sorted(found.items()))
