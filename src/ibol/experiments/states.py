"""Where the cells of an experiment stand, by what is on the disk."""

import contextlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ibol.errors import IbolError
from ibol.experiments import leases
from ibol.experiments.cells import SET, Cell
from ibol.runs import files
from ibol.runs.directory import RunDirectory
from ibol.training import launch

FAILURES = "failures"
Kind = Literal["done", "running", "part", "failed", "missing"]
_MOST_SAID = 2**16  # bytes of a failure


@dataclass(frozen=True)
class State:
    """How far a cell is."""

    kind: Kind
    epochs: int = 0
    """Epochs that are saved, or while it runs those that are logged."""
    said: str = ""
    """Who trains it, or what went wrong."""


def state_of(cell: Cell, directory: Path) -> State:
    """Where a cell stands; raises nothing, whatever there is in its place."""
    try:
        saved = saved_epochs(cell, directory)
    except IbolError as error:
        return State("failed", 0, str(error))
    if saved >= cell.epochs:
        return State("done", saved)
    if who := leases.holder(directory, cell.name):
        return State("running", logged_epochs(directory / cell.place), who)
    if said := failure(directory, cell.name):
        return State("failed", saved, said)
    return State("part" if saved else "missing", saved)


def saved_epochs(cell: Cell, directory: Path) -> int:
    """The epochs of the newest checkpoint; refuses what is no run of this cell."""
    place = files.inside(directory, *cell.place.parts)
    if cell.method == SET:
        return int(place.is_file())
    if not (place / "config.json").exists():
        return 0
    check_same(cell, RunDirectory.open(place).config, place)
    names = (re.fullmatch(r"epoch-(\d+)\.safetensors", file.name) for file in (place / "checkpoints").glob("epoch-*"))
    return max((int(name[1]) for name in names if name), default=0)


def check_same(cell: Cell, config: dict[str, Any], place: Path) -> None:
    """Refuse a run that is not what its name says: the digest there makes this unlikely, but not impossible."""
    wanted: dict[str, Any] = {"method": cell.method, "env": cell.env, "preset": cell.preset, "seed": cell.seed}
    wanted["settings"] = json.loads(json.dumps(asdict(cell.config())))
    environment = json.loads(json.dumps(asdict(cell.environment())))
    kept_environment = {**config["env_settings"], "num_threads": environment["num_threads"]}
    for name, value in {**wanted, "env_settings": environment}.items():
        kept = kept_environment if name == "env_settings" else config[name]
        if kept != value:
            raise IbolError(f"{place} was trained with other {name} than its name says: delete it")


def logged_epochs(place: Path) -> int:
    """The lines of metrics.jsonl, which a run writes one for each epoch."""
    try:
        with (place / "metrics.jsonl").open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))
    except OSError:
        return 0


def failure(directory: Path, name: str) -> str:
    """The last message of a cell that failed when it was tried last."""
    try:
        return files.read(files.inside(directory, FAILURES, f"{name}.txt"), _MOST_SAID).decode().partition("\n")[0]
    except (OSError, UnicodeDecodeError, IbolError):
        return ""


def keep_failure(directory: Path, name: str, said: str, details: str = "") -> None:
    """Remember what went wrong."""
    with contextlib.suppress(OSError):
        files.folder(directory, FAILURES)
        content = f"{' '.join(said.split())[:2000]}\n{details[-_MOST_SAID // 2 :]}"
        files.replace_bytes(files.inside(directory, FAILURES, f"{name}.txt"), content.encode())


def forget_failure(directory: Path, name: str) -> None:
    """It was trained after all."""
    with contextlib.suppress(OSError):
        files.inside(directory, FAILURES, f"{name}.txt").unlink(missing_ok=True)


def measured(cell: Cell, directory: Path) -> bool:
    """Whether episodes of what it has learned are kept already."""
    wanted = "goals-*.safetensors" if cell.method == "linearize" else "skills-random-seed0.safetensors"
    return any((directory / cell.place / "evaluation").glob(wanted))


def can_be_measured(cell: Cell) -> bool:
    """Whether there are skills or a linearizer, whose episodes are simulated once for all figures."""
    return cell.method == "linearize" or cell.method not in (*launch.COMMANDS, SET)
