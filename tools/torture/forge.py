"""Checkpoints as a forger writes them: any content, with the right checksums."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol.runs import checkpoint

_TYPES = {
    "f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u8": "U64",
    "u4": "U32", "u2": "U16", "u1": "U8", "b1": "BOOL",
}  # fmt: skip


def read(file: Path) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays of a good file, and its meta data as JSON."""
    arrays, meta = checkpoint.load(file)
    return dict(arrays), json.dumps(meta)


def write(file: Path, arrays: Mapping[str, NDArray[Any]], meta: str) -> None:
    """A file whose checksums are right, whatever its arrays are and whatever its meta data says."""
    blocks = {name: np.require(value, requirements="C") for name, value in arrays.items()}
    digests = {name: _digest(block) for name, block in blocks.items()}
    text = f'{{"meta": {meta}, "sha256": {json.dumps(digests)}}}'
    header: dict[str, Any] = {"__metadata__": signed(text)}
    position = 0
    for name, block in blocks.items():
        kind = _TYPES[block.dtype.str[1:]]
        header[name] = {"dtype": kind, "shape": list(block.shape), "data_offsets": [position, position + block.nbytes]}
        position += block.nbytes
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    file.write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"".join(b.tobytes() for b in blocks.values()))


def signed(text: str) -> dict[str, str]:
    """The header's entry for a JSON text, with its checksum."""
    return {checkpoint.FORMAT: hashlib.sha256(text.encode()).hexdigest() + text}


def edit_header(file: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header of a file, and nothing else."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    edited = edit(header)
    encoded = (edited if isinstance(edited, str) else json.dumps(header if edited is None else edited)).encode()
    file.write_bytes(len(encoded).to_bytes(8, "little") + encoded + content[8 + length :])


def _digest(block: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{block.dtype.str}{block.shape}".encode())
    digest.update(block.tobytes())
    return digest.hexdigest()
