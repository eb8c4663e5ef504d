"""Which environments a run from anybody may use: a name in a file can import and call whatever it says.

Ours and Gymnasium's own are always fine. Any other needs the user's word for the call at hand:

with trust.envs(["my_robots:make_snake"]):
    ...
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import gymnasium

from ibol.errors import IbolError

_OWN = ("gymnasium.envs.", "ibol.envs.")
_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())


@contextmanager
def envs(names: str | Iterable[str]) -> Iterator[None]:
    """Trust these environments, too, for as long as this is entered."""
    given = [names] if isinstance(names, str) else list(names) if isinstance(names, Iterable) else [names]
    if not all(isinstance(name, str) for name in given):
        raise IbolError(f"trust_env is {names!r}, but the name of an environment or several names are needed")
    token = _trusted.set(_trusted.get() | frozenset(given))
    try:
        yield
    finally:
        _trusted.reset(token)


def check_env(name: Any, source: Any) -> None:
    """Refuse the name of an environment that the file or run `source` brings, unless it is known or trusted."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise IbolError(f"the environment in {source} is {name!r}, which is no name of an environment")
    if name in _trusted.get() or is_harmless(name):
        return
    if name.endswith(".toml"):
        raise IbolError(
            f"{source} uses the own robot {name!r}, a file outside of it: if you trust it, say so with --trust-env "
            f"'{name}' (in Python: trust_env={name!r})"
        )
    raise IbolError(
        f"{source} uses the environment {name!r}, which is neither ours nor Gymnasium's own, and to make it runs code: "
        f"if you trust it, say so with --trust-env '{name}' (in Python: trust_env={name!r})"
    )


def is_harmless(name: str) -> bool:
    """Whether making the environment runs only code of this package or of Gymnasium; an unknown name makes nothing."""
    if ":" in name or name.endswith(".toml"):  # a module to import, or a file to read
        return False
    entry = gymnasium.registry[name].entry_point if name in gymnasium.registry else _OWN[0]
    return isinstance(entry, str) and entry.startswith(_OWN)
