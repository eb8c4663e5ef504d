"""Files of runs, which may come from anybody: only plain files are read, nothing is written through a symbolic link,
and what is written is there as a whole or not at all."""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ibol.errors import IbolError

_KINDS = {
    stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}  # fmt: skip


class LinkError(IbolError):
    """A symbolic link where something was to be written."""


def check_free(file: Path, *, overwrite: bool, flag: str, endings: Sequence[str] = ()) -> None:
    """Refuse a file that would be lost, cannot be written or has another ending; before the work, not after it."""
    if file.is_dir():
        raise IbolError(f"{file} is a directory: choose another {flag}")
    if file.exists() and not overwrite:
        raise IbolError(f"{file} exists: choose another {flag} or replace it with --overwrite")
    parent = file.absolute().parent
    if not parent.is_dir():
        raise IbolError(f"there is no directory {parent}: make it or choose another {flag}")
    if not os.access(parent, os.W_OK):
        raise IbolError(f"the directory {parent} cannot be written: choose another {flag}")
    if endings and file.suffix.lower() not in endings:
        raise IbolError(f"{file} ends in {file.suffix!r}: choose {', '.join(endings)} for {flag}")


def inside(root: Path, *names: str) -> Path:
    """The place `root/names` to write to or to delete; refuses to get there through a link below `root`."""
    place = root
    for name in names:
        place = place / name
        if place.is_symlink():
            raise LinkError(
                f"{place} is a symbolic link, and nothing is written through links inside of a run: "
                "replace it by what it points to"
            )
    return place


def folder(root: Path, *names: str) -> Path:
    """The directory `root/names`, made if it is missing; refuses links as `inside` does."""
    place = inside(root, *names)
    place.mkdir(parents=True, exist_ok=True)
    return place


def check_plain(path: Path) -> os.stat_result:
    """Refuse what is no plain file, before it is opened: reading a pipe or a device may never end."""
    found = path.stat()
    check_kind(path, found)
    return found


def check_kind(path: Path, found: os.stat_result) -> None:
    """Refuse what is no plain file, by what `stat` says of it."""
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise IbolError(f"{path} is {kind}, but a plain file is needed")


def read(path: Path, most: int) -> bytes:
    """All of a plain file that has at most so many bytes."""
    size = check_plain(path).st_size
    if size > most:
        raise IbolError(f"{path} has {size / 1e6:.0f} MB, but at most {most / 1e6:.0f} MB are read")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        return file.read(most)


def open_inside(root: Path, name: str, flags: int) -> int:
    """A descriptor of the plain file `root/name`, made if it is missing; never that of a link's target."""
    place = inside(root, name)
    descriptor = os.open(place, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        check_kind(place, os.fstat(descriptor))
    except IbolError:
        os.close(descriptor)
        raise
    return descriptor


def temporary_beside(path: Path) -> Path:
    """Where a file is written before it takes its place; hidden, so that it is nobody else's."""
    return path.with_name(f".{path.name}.tmp")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A free place to write to; what is there in the end is safely on the disk and takes the place of `path`."""
    temporary = temporary_beside(path)
    temporary.unlink(missing_ok=True)  # a link, too: itself, not what it points to
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.write(content)


def sync(path: Path) -> None:
    """Have the system write a file or a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
