"""Checkpoints: one safetensors file with arrays and JSON, written atomically and checked when read.

A checkpoint never holds code: loading one from anywhere can at worst fail. Every array and the JSON carry a SHA-256, so
that a truncated or altered file is recognised.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ibol.errors import IbolError

Arrays = dict[str, NDArray[Any]]
FORMAT = "ibol-checkpoint-1"


class BadCheckpoint(IbolError):
    """A checkpoint that is truncated, altered or of another kind."""


def save(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a checkpoint so that `path` either holds all of it or does not exist."""
    # A 0-d or strided array is made contiguous here, since safetensors stores plain blocks.
    blocks = {name: np.require(value, requirements="C") for name, value in arrays.items()}
    text = json.dumps({"meta": dict(meta), "sha256": {name: _digest(block) for name, block in blocks.items()}})
    header = {"format": FORMAT, "json": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    temporary = temporary_beside(path)
    try:
        save_file(blocks, temporary, metadata=header)
        temporary.chmod(0o644)  # safetensors makes it readable for its owner alone
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except (OSError, SafetensorError) as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise IbolError(f"could not write the checkpoint {path}: {error}; earlier checkpoints are untouched") from None


def load(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays whose names are `wanted`, and the JSON; raises `BadCheckpoint` if anything is not as written."""
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise BadCheckpoint(f"{path} is not a checkpoint of ibol (its format is {header.get('format')!r})")
            text = header["json"]
            if hashlib.sha256(text.encode()).hexdigest() != header["sha256"]:
                raise BadCheckpoint(f"the checkpoint {path} was altered: the checksum of its JSON does not match")
            content = json.loads(text)
            checksums = content["sha256"]
            if set(file.keys()) != set(checksums):
                raise BadCheckpoint(f"the checkpoint {path} was altered: its list of arrays does not match")
            arrays = {name: file.get_tensor(name) for name in checksums if wanted(name)}
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise BadCheckpoint(f"the checkpoint {path} cannot be read ({error})") from None
    for name, value in arrays.items():
        if _digest(value) != checksums[name]:
            raise BadCheckpoint(f"the checkpoint {path} was altered: the checksum of {name} does not match")
    return arrays, content["meta"]


def temporary_beside(path: Path) -> Path:
    """Where a file is written before it takes its place; hidden, so that it is nobody else's."""
    return path.with_name(f".{path.name}.tmp")


def replace_text(path: Path, text: str) -> None:
    """Write a text file, all of it or nothing."""
    temporary = temporary_beside(path)
    temporary.write_text(text)
    temporary.replace(path)


def flatten(tree: Any, prefix: str = "") -> Arrays:
    """The arrays of a pytree by name, such as `learner/policy/network/trunk/layers/0/weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + _name(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Any:
    """A pytree like `template` with the arrays that `flatten` named; shapes and types must agree."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    found = []
    for path, leaf in leaves:
        name = prefix + _name(path)
        if name not in arrays:
            raise BadCheckpoint(f"the checkpoint lacks {name}: it was made with other settings or another version")
        value = arrays[name]
        if value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise BadCheckpoint(
                f"{name} in the checkpoint is {value.dtype}{list(value.shape)}, but these settings need "
                f"{leaf.dtype}{list(leaf.shape)}"
            )
        found.append(jax.numpy.asarray(value) if isinstance(leaf, jax.Array) else value)
    return jax.tree_util.tree_unflatten(structure, found)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _digest(block: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{block.dtype.str}{block.shape}".encode())
    digest.update(np.ascontiguousarray(block).data.cast("B") if block.size else b"")
    return digest.hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
