"""How much memory there is: what cannot fit is refused before it is allocated, and says how much it would take."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ibol.errors import IbolError

_SMALL = 64 * 2**20  # bytes that nobody asks for the memory for
_MEMINFO = Path("/proc/meminfo")


@dataclass
class _Budget:
    left: float
    why: str


class TooLarge(IbolError):
    """A network with more weights than `at_most` allows."""


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


def check(needed: int, what: str, advice: str) -> None:
    """Refuse `what`, which takes `needed` bytes, if so many are not free; `advice` says what to do."""
    if needed < _SMALL:
        return
    free = available()
    if needed > free:
        raise IbolError(f"{what} would take {_gigabytes(needed)}, but {_gigabytes(free)} of memory are free: {advice}")


def check_layer(inputs: int, outputs: int) -> None:
    """Refuse a layer of a network that cannot fit with its gradients, optimiser and target; counts for `at_most`."""
    weights = 4 * (inputs + 1) * outputs
    what = f"a layer of {inputs} x {outputs} weights"
    budget = _budget.get()
    if budget is not None:
        budget.left -= weights
        if budget.left < 0:
            raise TooLarge(f"{what} is larger than it can be: {budget.why}")
    check(5 * weights, what, "choose smaller sizes (--hidden, --latent-dim)")


@contextmanager
def at_most(num_bytes: int, why: str) -> Iterator[None]:
    """Within it, refuse layers of networks that have more bytes in all, for the reason `why`."""
    token = _budget.set(_Budget(num_bytes, why))
    try:
        yield
    finally:
        _budget.reset(token)


def available() -> int:
    """Bytes that are free, or that the system can free at once."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count < 1e15 else f"{count / 1e9:.0e} GB"
