"""Compiled functions, kept between processes: a second start of the same training compiles nothing.

They are in `ibol/` of the user's cache directory; IBOL_CACHE names another directory, or none if it is empty. JAX's own
settings come first: where they name a cache, that one is used. Compiled functions are code, so that whoever can write
to the cache can run code as its user: a directory that is not private is not used. `directory` has room for other
things that can be made again.
"""

import contextlib
import hashlib
import importlib
import os
import platform
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

_MOST_BYTES = 512 * 2**20
FOLDER_BYTES = 256 * 2**20
_ENTRY = re.compile(r".*-[0-9a-f]{64}(\.\d+)?")  # JAX's key; with a process's number while it is written
_CPU = re.compile(r"(vendor_id|cpu family|model|stepping|flags|CPU \w+|Features)\s*:.*")


def enable() -> None:
    """Let JAX keep what it compiles, unless the user has settled this; what stands in the way is a warning."""
    config: Any = jax.config
    wanted = place()
    if wanted is None or config.jax_compilation_cache_dir is not None:
        return
    try:
        root = _private(wanted)
        directory = _private(root / f"compiled-{_key()}")
        _prune(root)
    except (OSError, RuntimeError) as error:
        why = f"compiled functions are not kept: {error}; IBOL_CACHE names another directory, or none if it is empty"
        warnings.warn(why, RuntimeWarning, stacklevel=2)
        return
    _store_in(directory)
    config.update("jax_compilation_cache_dir", str(directory))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def place() -> Path | None:
    """The directory of the cache, which may not be there yet; None where nothing is kept."""
    wanted = os.environ.get("IBOL_CACHE")
    if wanted == "":
        return None
    return Path(wanted).expanduser().absolute() if wanted else _user_cache() / "ibol"


def content(root: Path) -> tuple[int, int]:
    """How many compiled functions are kept there, and the bytes of all that is kept."""
    sizes = [size for _, size, _ in _sizes(_compiled(root))]
    return len(sizes), sum(sizes) + sum(size for _, size, _ in _sizes(root.glob("*/*.safetensors")))


def directory(name: str) -> Path | None:
    """A private directory of the cache for what can be made again, in which `FOLDER_BYTES` are kept, or nothing."""
    wanted = place()
    if wanted is None:
        return None
    try:
        root = _private(wanted)
        folder = _private(root / name)
        _delete_oldest(_sizes(folder.glob("*.safetensors")), FOLDER_BYTES)
    except (OSError, RuntimeError):
        return None
    return folder


def _store_in(directory: Path) -> None:
    """Let JAX use `Files` for this directory, if this version of it can be made to; its own will do, too."""
    with contextlib.suppress(ImportError, AttributeError):
        jax_cache: Any = importlib.import_module("jax._src.compilation_cache")
        other = jax_cache.get_file_cache
        jax_cache.get_file_cache = lambda path: (Files(directory), path) if path == str(directory) else other(path)


class Files:
    """One file for each compiled function, with its SHA-256 in front, instead of JAX's own files.

    Of those, one that a killed process has half-written stays so for good, and others read it while it is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> bytes | None:
        """What was kept as `key`, if it is whole."""
        file = self._path / key
        try:
            content = file.read_bytes()
            os.utime(file)  # it was used: `_prune` takes the others first
        except OSError:
            return None
        value = content[32:]
        return value if hashlib.sha256(value).digest() == content[:32] else None

    def put(self, key: str, value: bytes) -> None:
        """Keep it, all of it or nothing."""
        part = self._path / f"{key}.{os.getpid()}"
        try:
            part.write_bytes(hashlib.sha256(value).digest() + value)
            part.replace(self._path / key)
        except OSError:  # no room, or the cache was deleted meanwhile
            part.unlink(missing_ok=True)


def _user_cache() -> Path:
    """Where programs keep what they can make again; a relative XDG_CACHE_HOME does not count."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def _private(directory: Path) -> Path:
    """The directory, made if it is missing, if its user alone can write to it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{directory} is a link")
    if found.st_uid != os.getuid():
        raise OSError(f"{directory} belongs to another user")
    if found.st_mode & 0o022:
        raise OSError(f"others can write to {directory}")
    return directory


def _key() -> str:
    """What compiled functions depend on beside JAX's own key: versions, the processor and how many cores it may use."""
    packages = [f"{name} {version(name)}" for name in ("ibol", "jax", "jaxlib")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return hashlib.sha256("\n".join([*packages, *_processor(), f"{cores} cores"]).encode()).hexdigest()[:16]


def _processor() -> Iterator[str]:
    yield f"{platform.machine()} {platform.processor()}"
    info = Path("/proc/cpuinfo")
    if info.exists():
        first = info.read_text().split("\n\n")[0].splitlines()
        yield from (line for line in first if _CPU.fullmatch(line))


def _prune(root: Path) -> None:
    """Delete what was not used for longest, also of other versions, until the rest has room."""
    _delete_oldest(_sizes(_compiled(root)), _MOST_BYTES)


def _compiled(root: Path) -> Iterator[Path]:
    """The files of compiled functions, also of other versions."""
    return (file for file in root.glob("compiled-*/*") if _ENTRY.fullmatch(file.name))


def _sizes(files: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    """When each file was used last, and its size."""
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            yield file.lstat().st_mtime, file.lstat().st_size, file


def _delete_oldest(entries: Iterable[tuple[float, int, Path]], most: int) -> None:
    entries = sorted(entries)
    excess = sum(size for _, size, _ in entries) - most
    for _, size, file in entries:
        if excess <= 0:
            break
        file.unlink(missing_ok=True)
        excess -= size
