"""A replay buffer of transitions in plain NumPy arrays."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.errors import IbolError

Columns = dict[str, NDArray[Any]]


class Replay:
    """The last `capacity` transitions, as columns such as `states` (capacity, n); memory is touched as it fills."""

    def __init__(self, capacity: int, widths: Mapping[str, tuple[int, ...]], flag: str = "--replay-size") -> None:
        row = 4 * sum(math.prod(shape) for shape in widths.values())
        memory.check(capacity * row, f"a replay buffer of {capacity} rows", f"choose a smaller {flag}")
        self.capacity = capacity
        self.size = 0
        self.position = 0
        self._columns: Columns = {name: np.zeros((capacity, *shape), np.float32) for name, shape in widths.items()}

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Append a batch of transitions, overwriting the oldest when full."""
        count = len(next(iter(columns.values())))
        kept = min(count, self.capacity)
        rows = (self.position + np.arange(count - kept, count)) % self.capacity
        for name, values in columns.items():
            self._columns[name][rows] = values[count - kept :]
        self.position = (self.position + count) % self.capacity
        self.size = min(self.size + count, self.capacity)

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Columns:
        """Transitions drawn uniformly with replacement, each column (*shape, ...)."""
        rows = rng.integers(self.size, size=shape)
        return {name: values[rows] for name, values in self._columns.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything needed to continue, as arrays."""
        filled = {name: values[: self.size] for name, values in self._columns.items()}
        return {"position": np.array(self.position), **filled}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` gave."""
        sizes = {len(values) for name, values in state.items() if name != "position"}
        if len(sizes) != 1 or max(sizes) > self.capacity:
            raise IbolError(f"the saved replay buffer holds {sizes} transitions, but this one takes {self.capacity}")
        self.size = sizes.pop()
        self.position = int(state["position"])
        for name, values in self._columns.items():
            values[: self.size] = state[name]

    def num_bytes(self) -> int:
        """Bytes of a full buffer."""
        return sum(values.nbytes for values in self._columns.values())
