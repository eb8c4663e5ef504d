"""Ways to damage or forge a run: each changes a copy in one way and says what it did."""

import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torture import forge

PLANTED = "torture_planted"
HOSTILE = (
    "os:abort", "http.server:test", "antigravity:geohash", "this:s", "turtledemo:main", "turtledemo:Any-v0",
    f"{PLANTED}:make", f"{PLANTED}:Planted-v0", f"{PLANTED}:Point-v0", f"{PLANTED}.inner:make", "subprocess:getoutput",
)  # fmt: skip
"""Environments that no run may bring along."""
HUGE = (10**9, 10**12, 10**30, 1e308)
LONG = ("epochs", "iterations", "evaluate_every", "seed")  # large values are no fault, they only take long
JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 0.5, -0.5, float("nan"), float("inf"), float("-inf"), "", "x", "1", "point", "../..",
    "\x1b[2J", "a\nb", "\udcff", "x" * 5000, [], [0], [-1], [1.5], ["x"], [None], [[]], [2, 2], {}, {"x": 1},
    [10**6] * 3,
)  # fmt: skip
SIZES = (
    "hidden", "replay_size", "episodes_per_epoch", "batch_size", "latent_dim", "horizon", "evaluation_trajectories",
    "state_dim", "action_dim", "goal_dim", "macro_length", "decision_dim", "evaluation_episodes", "candidates",
    "num_threads", "location_dims", "omitted", "gradient_steps", "normalizer_trajectories", "l_m", "n_step",
    "latent_samples", "marginal_samples", "recent_epochs",
)  # fmt: skip


@dataclass
class Place:
    """What a mutation works on."""

    rng: random.Random
    kind: str
    path: Path
    """A run directory, or a lone file."""
    outside: Path
    """Files that nothing may change."""

    def files(self) -> list[Path]:
        """All files, in a fixed order."""
        if not self.path.is_dir():
            return [self.path] if self.path.is_file() and not self.path.is_symlink() else []
        return sorted(p for p in self.path.rglob("*") if p.is_file() and not p.is_symlink() and p.name != ".lock")

    def name(self, file: Path) -> str:
        """How a description calls it."""
        return str(file.relative_to(self.path)) if file != self.path else file.name


@dataclass(frozen=True)
class Done:
    """What a mutation did."""

    text: str
    recovers: bool = False
    """The run is as good as before for whoever falls back, so that it can be resumed to the same bytes."""
    hostile: str = ""
    """The environment that the run now names, which must be refused by its name."""


Mutation = Callable[[Place], Done | None]
MUTATIONS: list[tuple[int, Mutation]] = []


def mutation(weight: int) -> Callable[[Mutation], Mutation]:
    """Register one that is chosen so often."""

    def register(function: Mutation) -> Mutation:
        MUTATIONS.append((weight, function))
        return function

    return register


def apply(place: Place, count: int) -> list[Done]:
    """Apply so many, of those that can be applied as long as there is a file."""
    functions, weights = [f for _, f in MUTATIONS], [w for w, _ in MUTATIONS]
    done: list[Done] = []
    for function in place.rng.choices(functions, weights, k=100):
        if len(done) < count and place.files() and (one := function(place)) is not None:
            done.append(one)
    return done


# Bytes.


def _damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The content with some kind of damage."""
    how = rng.choice(["bits", "cut", "empty", "noise", "tail", "zeros", "utf8", "doubled"])
    changed = bytearray(content)
    if how == "bits" and content:
        for _ in range(rng.choice([1, 1, 3, 20])):
            changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del changed[rng.randrange(len(content) + 1) :]
    elif how == "empty":
        changed.clear()
    elif how == "noise":
        changed[:] = rng.randbytes(rng.choice([1, 8, 100, 10_000]))
    elif how == "tail":
        changed += rng.randbytes(rng.choice([1, 7, 1000]))
    elif how == "zeros" and content:
        start = rng.randrange(len(content))
        changed[start : start + 64] = bytes(len(changed[start : start + 64]))
    elif how == "utf8":
        start = rng.randrange(len(content) + 1)
        changed[start:start] = rng.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\x00"])
    elif how == "doubled":
        changed += content
    return bytes(changed), how


@mutation(12)
def damage_any_file(place: Place) -> Done:
    """Flip, cut, empty or replace the bytes of any file."""
    file = place.rng.choice(place.files())
    content, how = _damage(file.read_bytes(), place.rng)
    file.write_bytes(content)
    return Done(f"{place.name(file)}: {how}")


@mutation(8)
def damage_newest_checkpoint(place: Place) -> Done | None:
    """Flip, cut, empty or replace the bytes of the newest checkpoint."""
    file = _newest(place)
    if file is None:
        return None
    before = file.read_bytes()
    content, how = _damage(before, place.rng)
    file.write_bytes(content)
    return Done(f"{file.name}: {how}", recovers=True)


@mutation(3)
def swap_files(place: Place) -> Done | None:
    """Exchange two files, or put one in the place of another."""
    files = place.files()
    if len(files) < 2:
        return None
    a, b = place.rng.sample(files, 2)
    first, second = a.read_bytes(), b.read_bytes()
    b.write_bytes(first)
    if place.rng.random() < 0.5:
        a.write_bytes(second)
    return Done(f"{place.name(a)} in the place of {place.name(b)}")


@mutation(3)
def delete_something(place: Place) -> Done | None:
    """Delete a file or a folder."""
    if not place.path.is_dir():
        return None
    victim = place.rng.choice(sorted(place.path.rglob("*")))
    name = place.name(victim)
    shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    return Done(f"{name} is missing")


# Things that are no files.


@mutation(6)
def replace_by_special(place: Place) -> Done:
    """A pipe, a socket, a folder, or a link to a device in the place of a file."""
    files = place.files()
    extra = (
        [place.path / name for name in (".lock", ".config.json.tmp", "metrics.jsonl")] if place.path.is_dir() else []
    )
    file = place.rng.choice([*files, *extra])
    file.unlink(missing_ok=True)
    how = place.rng.choice(["fifo", "socket", "folder", "zero", "full", "null", "random", "loop", "dangling"])
    if how == "fifo":
        os.mkfifo(file)
    elif how == "socket":
        _socket(file)
    elif how == "folder":
        file.mkdir()
        if place.rng.random() < 0.5:
            (file / "mine.txt").write_text("in a folder")
    elif how == "loop":
        os.symlink(file.name, file)
    elif how == "dangling":
        os.symlink("nowhere", file)
    else:
        os.symlink(f"/dev/{how}", file)
    return Done(f"{place.name(file)}: {how}")


def _socket(file: Path) -> None:
    """A socket's name may be at most some 100 characters long: make it here."""
    with socket.socket(socket.AF_UNIX) as made:
        short = Path("/tmp") / f"torture-{os.getpid()}-{random.getrandbits(40)}"
        made.bind(str(short))
        shutil.move(short, file)


LINKS = (
    ".lock", ".config.json.tmp", ".metrics.jsonl.tmp", "metrics.jsonl", "config.json", "pictures",
    "pictures/epoch-000002.png", "pictures/epoch-000003.png", "pictures/epoch-000004.png", "pictures/epoch-000001.png",
    "checkpoints", "checkpoints/.epoch-0000000004.safetensors.tmp", "checkpoints/.epoch-0000000003.safetensors.tmp",
    "checkpoints/.epoch-0000000001.safetensors.tmp", "checkpoints/epoch-0000000001.safetensors",
    "checkpoints/epoch-0000000003.safetensors", "checkpoints/epoch-0000000004.safetensors", "evaluation",
    "evaluation/skills-random-seed0.safetensors", "evaluation/.skills-random-seed0.safetensors.tmp",
    "evaluation/skills-eight-seed0.safetensors", "linearizer.safetensors", ".linearizer.safetensors.tmp", "skills",
    "skills/config.json", "skills/checkpoints", "skills/linearizer.safetensors", ".skills.tmp", "tensorboard", "wandb",
    "mlflow", "loggers.json",
    "imitation.safetensors", ".imitation.safetensors.tmp", "skills/.config.json.tmp",
    "skills/checkpoints/.epoch-0000000003.safetensors.tmp",
)  # fmt: skip


@mutation(14)
def link_outside(place: Place) -> Done | None:
    """A symbolic link to a file or folder outside, which may hold what the run had there."""
    if not place.path.is_dir():
        return None
    name = place.rng.choice(LINKS)
    link = place.path / name
    folder = "." not in link.name
    if not link.parent.is_dir():
        if place.rng.random() < 0.7:
            return None
        link.parent.mkdir(parents=True)
    target = place.outside / place.rng.choice(["folder", "empty", "none"] if folder else ["precious.txt", "none.txt"])
    if link.exists() and not link.is_symlink() and place.rng.random() < 0.5:
        target = place.outside / f"moved-{link.name}"
        shutil.move(link, target)
    elif link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    else:
        link.unlink(missing_ok=True)
    os.symlink(os.path.relpath(target, link.parent) if place.rng.random() < 0.5 else target, link)
    return Done(f"{name} is a link to outside/{target.name}")


# config.json.


@mutation(16)
def change_config(place: Place) -> Done | None:
    """Another value, or none, anywhere in config.json."""
    file = _config(place)
    if file is None:
        return None
    config = json.loads(file.read_text())
    text = change_json(config, place.rng)
    file.write_text(json.dumps(config, indent=2))
    return Done(f"{place.name(file)}: {text}")


@mutation(5)
def huge_size(place: Place) -> Done | None:
    """A size that no memory has."""
    file = _config(place)
    if file is None:
        return None
    config = json.loads(file.read_text())
    owners = [(d, k) for d in _objects(config) for k in d if k in SIZES]
    owner, key = place.rng.choice(owners)
    huge = place.rng.choice([10**9, 10**12, 2**63, 10**30])
    owner[key] = [huge] * place.rng.randint(1, 3) if isinstance(owner[key], list) else huge
    file.write_text(json.dumps(config, indent=2))
    return Done(f"{place.name(file)}: {key} is {owner[key]}")


@mutation(8)
def hostile_env(place: Place) -> Done | None:
    """An environment that would import and call something."""
    file = _config(place)
    if file is None:
        return None
    name = place.rng.choice(HOSTILE)
    config = json.loads(file.read_text())
    owners = [d for d in _objects(config) if "env" in d]
    chosen = owners if place.rng.random() < 0.7 else [place.rng.choice(owners)]
    for owner in chosen:
        owner["env"] = name
    file.write_text(json.dumps(config, indent=2))
    return Done(f"{place.name(file)}: env is {name}", hostile=name if chosen is owners else "")


@mutation(3)
def swap_command(place: Place) -> Done | None:
    """Another command, method or environment than the run's."""
    file = _config(place)
    if file is None:
        return None
    config = json.loads(file.read_text())
    key = place.rng.choice(["command", "method", "env", "preset"])
    words = [
        "linearize",
        "discover",
        "sac",
        "downstream",
        "ibol",
        "diayn",
        "dads",
        "valor",
        "point",
        "ant",
        "point_goal",
    ]
    config[key] = place.rng.choice(
        [*words, "half_cheetah_imitation", "Pendulum-v1", "CartPole-v1", "paper", "__init__"]
    )
    file.write_text(json.dumps(config, indent=2))
    return Done(f"{place.name(file)}: {key} is {config[key]}")


@mutation(3)
def odd_json(place: Place) -> Done | None:
    """Text that is JSON in its own way: deep, double, not an object, with dirt around it."""
    file = _config(place)
    if file is None:
        return None
    good = file.read_text()
    deep = place.rng.choice([500, 5_000, 200_000])
    texts = {
        "deep": "[" * deep + "]" * deep,
        "deep inside": good.replace('"seed": 0', f'"seed": {"[" * deep}{"]" * deep}'),
        "deep object": '{"command":' * deep + "1" + "}" * deep,
        "deep settings": good.replace('"settings": {', f'"settings": {{"x": {"[" * deep}{"]" * deep},'),
        "double keys": good.replace('"env": "', '"env": "os:abort", "env": "', 1),
        "a list": f"[{good}]",
        "a number": "1" * 5000,
        "a string": json.dumps(good),
        "byte order mark": "\ufeff" + good,
        "text after it": good + "x",
        "long number": good.replace('"seed": 0', f'"seed": {"9" * 5000}'),
        "control characters": good.replace('"smoke"', '"smo\\u001b[31mke\\u0000"'),
        "large": good + " " * 30_000_000,
    }
    how = place.rng.choice(sorted(texts))
    file.write_text(texts[how])
    return Done(f"{place.name(file)}: {how} ({deep})")


def change_json(value: Any, rng: random.Random) -> str:
    """Change one place in an object; returns what was changed."""
    objects = list(_objects(value))
    owner = rng.choice(objects)
    if not owner or rng.random() < 0.1:
        key = rng.choice(["nonsense", "__class__", "", "hidden", "env_steps", "self", "pathwise"])
        owner[key] = rng.choice(JUNK)
        return f"new {key!r}: {_short(owner[key])}"
    key = rng.choice(sorted(owner))
    if rng.random() < 0.15:
        del owner[key]
        return f"no {key}"
    choices = [*JUNK, *(() if key in LONG or key in ("gradient_steps", "model_steps") else HUGE)]
    owner[key] = rng.choice(choices)
    if rng.random() < 0.05:
        owner[key] = _nested(rng.choice([10, 200]))
    return f"{key} is {_short(owner[key])}"


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _objects(value: Any) -> list[dict[str, Any]]:
    """All objects in JSON, the outermost first; it may be nested deeper than Python calls may be."""
    found, left = [], [value]
    while left:
        one = left.pop(0)
        if isinstance(one, dict):
            found.append(one)
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
    return found


def _config(place: Place) -> Path | None:
    """A config.json that is still what it was: the run's own, or sometimes that of its copied skills."""
    files = [f for f in place.files() if f.name == "config.json"]
    good = [f for f in files if f.read_bytes()[:1] == b"{" and _is_json(f)]
    return place.rng.choice(good) if good else None


def _is_json(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_text()), dict)
    except (ValueError, RecursionError):
        return False


# metrics.jsonl.


@mutation(10)
def damage_metrics(place: Place) -> Done | None:
    """Dirt, wrong rows, missing and repeated epochs: none of it keeps a run from being resumed."""
    file = place.path / "metrics.jsonl"
    if not place.path.is_dir() or file.is_symlink() or not file.is_file():
        return None
    rng, lines = place.rng, file.read_bytes().splitlines(keepends=True)
    rows: list[Any] = [
        None, 1, "x", [], {}, {"epoch": None}, {"epoch": "2"}, {"epoch": 2.5}, {"epoch": -1}, {"epoch": 10**30},
        {"epoch": float("nan")}, {"epoch": True}, {"epoch": [1]}, {"epoch": 2, "return": "x"},
        {"epoch": 1, "env_steps": {}},        {"epoch": 2, "env_steps": None, "time/epoch_seconds": []},
    ]  # fmt: skip
    how = rng.choice(["bytes", "row", "row", "instead", "instead", "repeat", "gap", "order", "deep", "long", "missing"])
    at = rng.randrange(len(lines) + 1)
    if how == "bytes":
        content, how = _damage(b"".join(lines), rng)
        lines = [content]
    elif how in ("row", "instead"):
        row = rng.choice(rows)
        how = f"{how} {row}"
        lines[at : at + (how.startswith("instead"))] = [json.dumps(row).encode() + b"\n"]
    elif how == "repeat":
        lines[at:at] = [rng.choice(lines)]
    elif how == "gap":
        del lines[min(at, len(lines) - 1)]
    elif how == "order":
        lines.reverse()
    elif how == "deep":
        depth = rng.choice([1000, 100_000])
        lines[at:at] = [b'{"epoch": 2, "x": ' + b"[" * depth + b"]" * depth + b"}\n"]
    elif how == "long":
        lines[at:at] = [b'{"epoch": 2, "x": "' + b"x" * 20_000_000 + b'"}\n']
    file.write_bytes(b"".join(lines))
    if how == "missing":
        file.unlink()
    return Done(f"metrics.jsonl: {how}", recovers=True)


# Files with arrays.


@mutation(14)
def forge_newest_checkpoint(place: Place) -> Done | None:
    """Right checksums, wrong content, which can be told from the run: the checkpoint before it must be used."""
    file = _newest(place)
    if file is None:
        return None
    arrays, meta = forge.read(file)
    rng = place.rng
    epochs = (
        '{"epoch": 1}',
        '{"epoch": 10000}',
        '{"epoch": -3}',
        '{"epoch": "3"}',
        '{"epoch": 3.5}',
        '{"epoch": null}',
    )
    others = ("{}", "[]", "null", "3", '"x"', '{"epoch": NaN}', '{"epoch": 1e400}', '{"epoch": [3]}', '{"epoch": true}')
    deep = '{"epoch": ' + "[" * 100_000 + "]" * 100_000 + "}"
    how = rng.choice(["meta", "meta", "lacks", "lacks", "shape", "type", "normalizer", "nothing", "rank"])
    if how == "meta":
        meta = rng.choice([*epochs, *others, deep])
        how = f"meta {meta[:40]}"
    else:
        how = f"{how} {_spoil(arrays, how, rng)}"
    forge.write(file, arrays, meta)
    return Done(f"{file.name} forged: {how}", recovers=True)


def _spoil(arrays: dict[str, NDArray[Any]], how: str, rng: random.Random) -> str:
    """Make arrays wrong; returns the name of the one that is."""
    if not arrays:
        return "nothing left"
    name = rng.choice(sorted(arrays))
    value = arrays[name]
    if how == "lacks":
        del arrays[name]
    elif how == "shape":
        arrays[name] = np.zeros((*value.shape[:-1], (value.shape[-1] if value.ndim else 1) + 1), value.dtype)
    elif how == "rank":
        arrays[name] = value.reshape(1, *value.shape)
    elif how == "type":
        kinds = {"f": np.float16, "i": np.int8, "b": np.bool_, "u": np.uint64}
        arrays[name] = value.astype(rng.choice([kind for letter, kind in kinds.items() if letter != value.dtype.kind]))
    elif how == "nan" and value.dtype.kind == "f":
        arrays[name] = np.full_like(value, rng.choice([np.nan, np.inf, 1e30]))
    elif how == "negative":
        arrays[name] = -np.abs(value) - 1 if value.dtype.kind in "fi" else value
    elif how == "normalizer":
        for one in [one for one in arrays if one.startswith("normalizer/")]:
            del arrays[one]
    elif how == "nothing":
        arrays.clear()
    return name


@mutation(10)
def forge_any(place: Place) -> Done | None:
    """Right checksums and any content in any file with arrays."""
    files = [f for f in place.files() if f.suffix == ".safetensors" and _is_good(f)]
    if not files:
        return None
    file, rng = place.rng.choice(files), place.rng
    arrays, text = forge.read(file)
    meta = json.loads(text)
    how = rng.choice(
        ["json", "json", "json", "env", "size", "nan", "negative", "lacks", "shape", "rank", "type", "normalizer"]
    )
    if how in ("json", "env", "size") and not _objects(meta):
        how = "nan"
    if how == "json":
        done = change_json(meta, rng)
    elif how == "env" and (owners := [d for d in _objects(meta) if "env" in d]):
        done = owners[0]["env"] = rng.choice(HOSTILE)
        forge.write(file, arrays, json.dumps(meta))
        lone = file == place.path and place.kind == "linearizer"
        return Done(f"{place.name(file)} forged: env is {done}", hostile=done if lone else "")
    elif how == "size" and (owned := [(d, k) for d in _objects(meta) for k in d if k in SIZES]):
        owner, key = rng.choice(owned)
        huge = rng.choice([10**9, 2**63, 10**30, 0, -1])
        owner[key] = [huge] * 2 if isinstance(owner[key], list) else huge
        done = f"{key} {owner[key]}"
    else:
        done = _spoil(arrays, how if how not in ("env", "size") else "nan", rng)
    forge.write(file, arrays, json.dumps(meta))
    return Done(f"{place.name(file)} forged: {how} {done}")


@mutation(6)
def forge_header(place: Place) -> Done | None:
    """A header that promises more than the file has, or something else than it is."""
    files = [f for f in place.files() if f.suffix == ".safetensors" and _is_good(f)]
    if not files:
        return None
    file, rng = place.rng.choice(files), place.rng
    content = file.read_bytes()
    how = rng.choice(
        ["length", "huge array", "overlap", "gap", "deep", "no metadata", "numbers", "text", "names", "shape"]
    )

    def edit(header: dict[str, Any]) -> Any:
        names = [name for name in header if name != "__metadata__"]
        one = header[rng.choice(names)]
        if how == "huge array":
            one["shape"] = [rng.choice([10**9, 2**31, 2**63 - 1, 10**18])]
            if rng.random() < 0.5:
                one["data_offsets"] = [0, 8 * 10**9]
        elif how == "overlap":
            one["data_offsets"] = [0, one["data_offsets"][1]]
        elif how == "gap":
            one["data_offsets"] = [one["data_offsets"][0], one["data_offsets"][1] + 8]
        elif how == "shape":
            one["shape"] = rng.choice([[-1], [0], "x", [1.5], None, [1] * 1000])
        elif how == "deep":
            return '{"__metadata__":' * 50_000 + "1" + "}" * 50_000
        elif how == "no metadata":
            del header["__metadata__"]
        elif how == "numbers":
            texts = ("1", "[]", "{}", '{"meta": 1}', '{"sha256": 1, "meta": {}}', "[" * 100_000, "", "{")
            header["__metadata__"] = forge.signed(rng.choice(texts))
        elif how == "text":
            return "not json at all"
        elif how == "names":
            header["../../evil"] = header.pop(rng.choice(names))
        return None

    if how == "length":
        lengths = (2**63 - 1, 2**40, 8 * 10**9, 99_999_999, len(content), 0, 1)
        file.write_bytes(rng.choice(lengths).to_bytes(8, "little") + content[8:])
    else:
        forge.edit_header(file, edit)
    return Done(f"{place.name(file)} header: {how}")


# An experiment's file.


@mutation(40)
def change_experiment(place: Place) -> Done | None:
    """Other lines in an experiment's file, most of which are no experiment any more."""
    if place.kind != "experiment":
        return None
    rng, text = place.rng, place.path.read_text(errors="replace")
    lines = (
        'shared = {env = "os:abort"}', 'shared = {env = "torture_planted:make"}', "shared = {env = 1}",
        "shared = {env = []}", 'shared = {env = "nowhere"}', 'shared = {method = "sac", env = "point"}', "shared = 1",
        'shared = {method = "../sac", env = "point"}', 'figures = ["../../evil"]', "figures = 1", "rows = 1",
        "rows = []", "rows = [[]]", 'rows = ["x"]', "rows = [{}]",
        "rows = [{nonsense = 1}]", "rows = [{latent_dim = -1}]", 'rows = [{latent_dim = "x"}]', "rows = [{hidden = 1}]",
        "rows = [{latent_dim = 1000000000000}]", "rows = [{hidden = [1000000, 1000000]}]",
        "rows = [{latent_dim = nan}]", "rows = [{latent_dim = 1.5}]",
        'rows = [{"../../evil" = 1}]', 'rows = [{linearizer = "../../evil"}]', "x = 1",
        'rows = [{method = "../../evil"}]', "columns = [{epochs = 0}]", "title = 1", "cells = 1", "cells = [1]",
        "cells = [[1]]", "[grid", "[other]", "name = 1", 'name = "x"', "rows = [{latent_dim = [2]}]",
        "rows = [{latent_dim = {x = 1}}]", "x = " + "[" * 5000 + "]" * 5000, f'rows = [{{normalizer = "{"x" * 999}"}}]',
        'rows = [{linearizer = "a/b"}]', "rows = [{latent_dim = 1979-05-27}]", 'rows = [{normalizer = "x/../../../y"}]',
    )  # fmt: skip
    line = rng.choice(lines)
    kept = [old for old in text.splitlines() if old.split("=")[0].strip() != line.split("=")[0].strip()]
    place.path.write_text("\n".join([*kept, line]) + "\n")
    return Done(f"grid.toml: {line[:80]}")


def _newest(place: Place) -> Path | None:
    folder = place.path / "checkpoints"
    files = sorted(folder.glob("epoch-*.safetensors")) if folder.is_dir() and not folder.is_symlink() else []
    if len(files) < 2 or not all(f.is_file() and not f.is_symlink() for f in files) or not _is_good(files[-1]):
        return None
    return files[-1]


def _is_good(file: Path) -> bool:
    try:
        forge.read(file)
    except Exception:
        return False
    return True
