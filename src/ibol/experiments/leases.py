"""Who trains a cell at this moment, on whichever machine: a file that its holder touches every few seconds.

The lock of a run directory (`RunDirectory.locked`) holds between processes of one machine, and on shared storage where
that passes locks on. A lease also holds where it does not. One that was not touched for a minute is a dead
machine's; one of this machine is dead as soon as its process is.
"""

import contextlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ibol.errors import IbolError
from ibol.runs import files

FOLDER = "leases"
BEAT = 5.0  # seconds between touches
EXPIRES = 60.0  # seconds without a touch
_MOST = 2**12  # bytes of a lease


class Busy(IbolError):
    """Somebody else trains it."""


@contextmanager
def held(directory: Path, name: str) -> Iterator[None]:
    """Be the only one who trains the cell `name` of the experiment in `directory`; raises `Busy` if another one does.

    If the lease is lost all the same, because this machine stood still for longer than it lasts, the process ends
    at once: it must not write into a run that another one has taken over.
    """
    file, token = _file(directory, name), uuid.uuid4().hex
    _take(file, token)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT):
            with contextlib.suppress(OSError):  # storage that does not answer for a moment
                if _read(file).get("token") != token:
                    os._exit(75)
                os.utime(file)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            if _read(file).get("token") == token:
                file.unlink()


def holder(directory: Path, name: str) -> str:
    """The machine and process that trains a cell, or nothing."""
    file = _file(directory, name)
    content = _read(file)
    return f"{content.get('host')} (process {content.get('pid')})" if content and _lives(file, content) else ""


def _take(file: Path, token: str) -> None:
    root = file.parent.parent
    files.folder(root, FOLDER)
    mine = file.with_name(f".{token}")
    mine.write_text(json.dumps({"token": token, **_self()}))
    try:
        for _ in range(3):
            try:
                os.link(mine, file)  # with all of its content, or not at all; on shared storage, too
                return
            except FileExistsError:
                _clear(file)
        raise Busy(f"{file.stem} is taken by others all the time")
    finally:
        mine.unlink(missing_ok=True)


def _clear(file: Path) -> None:
    """Take away the lease of somebody who is gone; raises `Busy` if it is not."""
    content = _read(file)
    if _lives(file, content):
        raise Busy(f"{file.stem} is trained by {content.get('host')} (process {content.get('pid')})")
    aside = file.with_name(f".{uuid.uuid4().hex}")
    try:
        file.rename(aside)
    except FileNotFoundError:
        return
    if _read(aside) != content:  # another one was faster, and this is its lease: give it back
        with contextlib.suppress(FileExistsError):
            os.link(aside, file)
    aside.unlink(missing_ok=True)


def _lives(file: Path, content: dict[str, Any]) -> bool:
    if not content:
        return False
    if content.get("host") == _self()["host"]:
        return content.get("started") == _started(content.get("pid"))
    # The storage's own clock: those of two machines may differ.
    probe = file.with_name(f".{uuid.uuid4().hex}")
    try:
        probe.touch()
        now = probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)
    try:
        return now - file.stat().st_mtime < EXPIRES
    except FileNotFoundError:
        return False


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(files.read(file, _MOST))
    except (OSError, ValueError, IbolError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _self() -> dict[str, Any]:
    """This process; containers of one machine have names or numbers of their own."""
    namespace = Path("/proc/self/ns/pid")
    where = os.readlink(namespace) if namespace.exists() else ""
    return {"host": f"{socket.gethostname()} {where}".strip(), "pid": os.getpid(), "started": _started(os.getpid())}


def _started(pid: Any) -> str:
    """When a process of this machine began, or nothing if there is none; a number may be used again."""
    if not isinstance(pid, int):
        return ""
    try:
        if Path("/proc").is_dir():
            fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
            return "" if fields[0] in "ZX" else fields[19]
        os.kill(pid, 0)
    except OSError:
        return ""
    return "alive"


def _file(directory: Path, name: str) -> Path:
    return files.inside(directory, FOLDER, f"{name}.json")
