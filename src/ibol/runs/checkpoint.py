"""Checkpoints: one safetensors file with arrays and JSON, written atomically and checked when read.

A checkpoint never holds code: loading one from anywhere can at worst fail. Every array and the JSON carry a SHA-256, so
that a truncated or altered file is recognised. The same content always makes the same bytes.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ibol import memory
from ibol.errors import IbolError
from ibol.runs import files

Arrays = dict[str, NDArray[Any]]
FORMAT = "ibol-checkpoint-2"
_BEFORE = "ibol-checkpoint-1"  # had the format, the JSON and its checksum as three entries, whose order is not fixed


class BadCheckpoint(IbolError):
    """A checkpoint that is truncated, altered or of another kind."""


def save(path: Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write a checkpoint so that `path` either holds all of it or is as it was."""
    # A 0-d or strided array is made contiguous here, since safetensors stores plain blocks.
    blocks = {name: np.require(value, requirements="C") for name, value in arrays.items()}
    text = json.dumps({"meta": dict(meta), "sha256": {name: _digest(block) for name, block in blocks.items()}})
    try:
        with files.replacing(path) as temporary:
            # One entry: safetensors writes several in any order.
            save_file(blocks, temporary, metadata={FORMAT: _text_digest(text) + text})
            temporary.chmod(0o644)  # safetensors makes it readable for its owner alone
    except (OSError, SafetensorError) as error:
        raise IbolError(f"could not write the checkpoint {path}: {error}; earlier checkpoints are untouched") from None


def load(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> tuple[Arrays, dict[str, Any]]:
    """Read the arrays whose names are `wanted`, and the JSON; raises `BadCheckpoint` if anything is not as written."""
    try:
        files.check_plain(path)
        with safe_open(path, framework="numpy") as file:
            content = json.loads(_text(path, file.metadata() or {}))
            meta, checksums = content["meta"], content["sha256"]
            if not isinstance(meta, dict) or set(file.keys()) != set(checksums):
                raise BadCheckpoint(f"the checkpoint {path} was altered: its list of arrays does not match")
            arrays = {name: file.get_tensor(name) for name in checksums if wanted(name)}
    except BadCheckpoint:
        raise
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadCheckpoint(f"the checkpoint {path} cannot be read ({error})") from None
    except IbolError as error:
        raise BadCheckpoint(str(error)) from None
    for name, value in arrays.items():
        if _digest(value) != checksums[name]:
            raise BadCheckpoint(f"the checkpoint {path} was altered: the checksum of {name} does not match")
    return arrays, meta


def _text(path: Path, header: Mapping[str, str]) -> str:
    """The JSON of a checkpoint, as it was written."""
    if FORMAT in header:
        digest, text = header[FORMAT][:64], header[FORMAT][64:]
    elif header.get("format") == _BEFORE:
        digest, text = header["sha256"], header["json"]
    else:
        raise BadCheckpoint(f"{path} is not a checkpoint of ibol (its format is {header.get('format')!r})")
    if _text_digest(text) != digest:
        raise BadCheckpoint(f"the checkpoint {path} was altered: the checksum of its JSON does not match")
    return text


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def flatten(tree: Any, prefix: str = "") -> Arrays:
    """The arrays of a pytree by name, such as `learner/policy/network/trunk/layers/0/weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + _name(path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: Any, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Any:
    """A pytree like `template` with the arrays that `flatten` named; shapes and kinds must agree."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    named = [(prefix + _name(path), leaf) for path, leaf in leaves]
    check_like(dict(named), arrays)
    found = [
        jax.numpy.asarray(arrays[name].astype(leaf.dtype, copy=False)) if isinstance(leaf, jax.Array) else arrays[name]
        for name, leaf in named
    ]
    return jax.tree_util.tree_unflatten(structure, found)


def fitting(arrays: Mapping[str, NDArray[Any]], source: Path) -> AbstractContextManager[None]:
    """Within it, networks with more weights than the arrays have are refused instead of being allocated."""
    return memory.at_most(sum(value.nbytes for value in arrays.values()), f"the weights in {source} are fewer")


def check_like(template: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that cannot take the place of the template's: missing, of another shape or kind, or not finite."""
    for name, like in template.items():
        value = arrays.get(name)
        if value is None:
            raise BadCheckpoint(f"the checkpoint lacks {name}: it was made with other settings or another version")
        if value.shape != like.shape or value.dtype.kind != like.dtype.kind:
            raise BadCheckpoint(
                f"{name} in the checkpoint is {value.dtype}{list(value.shape)}, but these settings need "
                f"{like.dtype}{list(like.shape)}"
            )
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise BadCheckpoint(f"{name} in the checkpoint is not finite")


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _digest(block: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{block.dtype.str}{block.shape}".encode())
    digest.update(np.ascontiguousarray(block).data.cast("B") if block.size else b"")
    return digest.hexdigest()
