"""The cache of compiled functions: the same numbers with it and without it, private, and never in the way."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from ibol import cache
from ibol.runs.directory import RunDirectory

# Trains as a user would, and prints how often JAX found a compiled function, and how often it had to compile one.
TRAIN = """
import json, sys
import jax
from ibol.cli import main
counts = {}
jax.monitoring.register_event_listener(lambda name, **_: counts.update({name: counts.get(name, 0) + 1}))
main(["sac", "point", "--preset", "smoke", "--epochs", "1", "--evaluate-every", "0", "--quiet", *sys.argv[1:]])
print(json.dumps([counts.get(f"/jax/compilation_cache/cache_{name}", 0) for name in ("hits", "misses")]))
"""


def train(run: Path, directory: str) -> tuple[int, int, dict[str, np.ndarray]]:
    """Hits, misses, and what was learned in a process of its own, in which every warning is an error."""
    command = [sys.executable, "-W", "error", "-c", TRAIN, "--run-dir", str(run)]
    done = subprocess.run(
        command, env={**os.environ, "IBOL_CACHE": directory}, check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    hits, misses = json.loads(done.stdout.splitlines()[-1])
    return hits, misses, RunDirectory.open(run).load_checkpoint()[0]


@pytest.mark.slow
def test_a_second_start_compiles_nothing_and_learns_the_same(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    _, compiled, cold = train(tmp_path / "cold", str(kept))
    assert compiled > 10
    (entries,) = kept.iterdir()
    assert len(list(entries.iterdir())) == compiled
    for directory in (kept, entries):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700

    # One that was cut short is compiled again and made whole; all others are found.
    file = min(entries.iterdir(), key=lambda file: file.stat().st_size)
    file.write_bytes(file.read_bytes()[:-10])
    hits, misses, warm = train(tmp_path / "warm", str(kept))
    assert (hits, misses) == (compiled - 1, 1)
    assert cache.Files(entries).get(file.name) is not None

    without = train(tmp_path / "without", "")
    assert without[:2] == (0, 0)
    for other in (warm, without[2]):
        assert cold.keys() == other.keys()
        assert all(np.array_equal(cold[name], other[name]) for name in cold)


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """JAX as if it had no cache yet; as it was afterwards."""
    config: Any = jax.config
    monkeypatch.delenv("IBOL_CACHE", raising=False)
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(config, name) for name in names}
    config.update("jax_compilation_cache_dir", None)
    yield config
    for name, value in before.items():
        config.update(name, value)


def test_where_it_is(config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = {"home": tmp_path / "home/.cache/ibol", "xdg": tmp_path / "xdg/ibol", "own": tmp_path / "own"}
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, variable in (("home", "HOME"), ("xdg", "XDG_CACHE_HOME"), ("own", "IBOL_CACHE")):
        monkeypatch.setenv(variable, str(tmp_path / name))
        config.update("jax_compilation_cache_dir", None)
        cache.enable()
        assert Path(config.jax_compilation_cache_dir).parent == places[name]
        assert config.jax_persistent_cache_min_compile_time_secs == 0


def test_the_users_word_comes_first(config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IBOL_CACHE", "")
    cache.enable()
    assert config.jax_compilation_cache_dir is None

    monkeypatch.setenv("IBOL_CACHE", str(tmp_path / "ibol"))
    config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
    cache.enable()
    assert config.jax_compilation_cache_dir == str(tmp_path / "jax")
    assert not (tmp_path / "ibol").exists()


def other_owner(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: directory.stat().st_uid + 1)


def writable_by_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    directory.chmod(0o770)


def a_link(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory.parent / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(directory.parent / "elsewhere")


def a_file(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.touch()


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (other_owner, "belongs to another user"),
        (writable_by_others, "others can write to"),
        (a_link, "is a link"),
        (a_file, "File exists"),
    ],
)
def test_a_directory_that_is_not_private_is_not_used(
    prepare: Any, words: str, config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare(tmp_path / "cache", monkeypatch)
    monkeypatch.setenv("IBOL_CACHE", str(tmp_path / "cache"))
    with pytest.warns(RuntimeWarning, match=words) as caught:
        cache.enable()
    assert len(caught) == 1
    assert str(tmp_path / "cache") in str(caught[0].message)
    assert config.jax_compilation_cache_dir is None


def test_the_oldest_make_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files that are not the cache's own stay, whatever the directory is used for beside."""
    folders = [tmp_path / "compiled-old", tmp_path / "compiled-new"]
    keys = [f"jit_f-{number:064x}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    for age, key in enumerate(keys):
        files = cache.Files(folders[age % 2])
        files.put(key, bytes(968))  # 1000 with the sum in front
        os.utime(folders[age % 2] / key, (0, 1000 - age))
    (tmp_path / "compiled-old/notes.txt").write_bytes(bytes(5000))
    assert cache.Files(folders[1]).get(keys[3]) == bytes(968)  # this makes it the newest

    monkeypatch.setattr(cache, "_MOST_BYTES", 2000)
    cache._prune(tmp_path)
    kept = {file.name for folder in folders for file in folder.iterdir()}
    assert kept == {keys[3], keys[0], "notes.txt"}


def test_what_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    files = cache.Files(tmp_path / "deleted")
    files.put("key", b"value")
    assert files.get("key") is None
