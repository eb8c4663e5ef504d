"""Who trains a cell at this moment, on whichever machine: a file that its holder touches every few seconds.

The lock of a run directory (`RunDirectory.locked`) holds between processes of one machine, and on shared storage where
that passes locks on. A lease also holds where it does not. One that was not touched for a minute is a dead
machine's; one of this machine is dead as soon as its process is.

A cell's leases are numbered, and the newest one counts. Whoever finds it ended makes the next one, which storage lets
only one succeed with. An ended lease stays as an empty file until there is a newer one, so that numbers never return.
"""

import contextlib
import glob
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
_TRIES = 10


class Busy(IbolError):
    """Somebody else trains it."""


@contextmanager
def held(directory: Path, name: str) -> Iterator[None]:
    """Be the only one who trains the cell `name` of the experiment in `directory`; raises `Busy` if another one does.

    If the lease is lost all the same, because this machine stood still for longer than it lasts, the process ends
    at once: it must not write into a run that another one has taken over.
    """
    file = _take(directory, name)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT):
            try:
                os.utime(file)
            except FileNotFoundError:  # a newer lease has replaced it
                os._exit(75)
            except OSError:  # storage that does not answer for a moment
                pass

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            os.truncate(file, 0)


def holder(directory: Path, name: str) -> str:
    """The machine and process that trains a cell, or nothing."""
    return _holder(_file(directory, name, _newest(directory, name)))


def _take(directory: Path, name: str) -> Path:
    """The lease after the newest one, if that has ended; raises `Busy` if it has not."""
    mine = files.folder(directory, FOLDER) / f".{uuid.uuid4().hex}"
    mine.write_text(json.dumps(_self()))
    try:
        for _ in range(_TRIES):
            newest = _newest(directory, name)
            if who := _holder(_file(directory, name, newest)):
                raise Busy(f"{name} is trained by {who}")
            file = _file(directory, name, newest + 1)
            try:
                os.link(mine, file)  # with all of its content, or not at all; on shared storage, too
            except FileExistsError:  # another one was faster
                continue
            numbers = _numbers(directory, name)
            if max(numbers) == newest + 1:
                for older in set(numbers) - {newest + 1}:
                    _file(directory, name, older).unlink(missing_ok=True)
                return file
            file.unlink(missing_ok=True)  # while this one waited, others came and went
        raise Busy(f"{name} is taken by others all the time")
    finally:
        mine.unlink(missing_ok=True)


def _holder(file: Path) -> str:
    content = _read(file)
    return f"{content.get('host')} (process {content.get('pid')})" if _lives(file, content) else ""


def _newest(directory: Path, name: str) -> int:
    return max(_numbers(directory, name), default=0)


def _numbers(directory: Path, name: str) -> list[int]:
    """Those of a cell's leases that are there."""
    words = [file.name.split(".") for file in (directory / FOLDER).glob(f"{glob.escape(name)}.*.json")]
    return [int(number) for *_, number, _ in words if number.isdecimal()]


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


def _file(directory: Path, name: str, number: int) -> Path:
    return files.inside(directory, FOLDER, f"{name}.{number}.json")
