"""A replay buffer of transitions in plain NumPy arrays."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.runs.checkpoint import BadCheckpoint

Columns = dict[str, NDArray[Any]]


class Replay:
    """The last `capacity` transitions, as columns such as `states` (capacity, n); memory is touched as it fills."""

    def __init__(self, capacity: int, widths: Mapping[str, tuple[int, ...]], flag: str = "--replay-size") -> None:
        row = 4 * sum(math.prod(shape) for shape in widths.values())
        memory.check(capacity * row, f"a replay buffer of {capacity} rows", f"choose a smaller {flag}")
        self.capacity = capacity
        self.size = 0
        self.position = 0
        self._overwritten: list[tuple[NDArray[np.int64], Columns]] = []  # since `state`, the last one at the end
        self._columns: Columns = {name: np.zeros((capacity, *shape), np.float32) for name, shape in widths.items()}

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append a batch of transitions, overwriting the oldest when full."""
        count = len(next(iter(columns.values())))
        kept = min(count, self.capacity)
        rows = (self.position + np.arange(count - kept, count)) % self.capacity
        self._overwritten.append((rows, {name: values[rows] for name, values in self._columns.items()}))
        for name, values in columns.items():
            self._columns[name][rows] = values[count - kept :]
        self.position = (self.position + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], newest: int | None = None) -> Columns:
        """Transitions drawn uniformly with replacement, of all or of the `newest`; each column (*shape, ...)."""
        if newest is None or newest >= self.size:
            rows = rng.integers(self.size, size=shape)
        else:
            rows = (self.position - 1 - rng.integers(newest, size=shape)) % self.size
        return {name: values[rows] for name, values in self._columns.items()}

    def column(self, name: str) -> NDArray[Any]:
        """All that there is of a column, (size, ...), as a view."""
        return self._columns[name][: self.size]

    def clear(self) -> None:
        """Forget all transitions."""
        self.size = self.position = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything needed to continue, as arrays: views, which `restore` mends after later changes."""
        self._overwritten = []
        filled = {name: values[: self.size] for name, values in self._columns.items()}
        return {"position": np.array(self.position), **filled}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` gave."""
        size, position = self._check(state)
        for rows, before in reversed(self._overwritten):
            for name, values in before.items():
                self._columns[name][rows] = values
        self._overwritten = []
        self.size, self.position = size, position
        for name, values in self._columns.items():
            values[:size] = state[name]

    def _check(self, state: Mapping[str, NDArray[Any]]) -> tuple[int, int]:
        """Size and position of a state that fits into this buffer."""
        shapes = {name: values.shape for name, values in state.items() if name != "position"}
        size = max((shape[0] for shape in shapes.values() if shape), default=0)
        floats = all(values.dtype == np.float32 for name, values in state.items() if name != "position")
        if not floats or shapes != {name: (size, *values.shape[1:]) for name, values in self._columns.items()}:
            raise BadCheckpoint("the replay buffer in the checkpoint has other columns than these settings need")
        position: Any = state["position"].tolist() if "position" in state else None
        full = size == self.capacity  # until then it goes on where it ends
        if size > self.capacity or position not in (range(size) if full else (size,)):
            raise BadCheckpoint(f"the replay buffer in the checkpoint has {size} transitions and position {position}")
        return size, int(position)

    def num_bytes(self) -> int:
        """Bytes of a full buffer."""
        return sum(values.nbytes for values in self._columns.values())
