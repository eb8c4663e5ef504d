"""Which environments and methods a run from anybody may use: a name in a file can import and call whatever it says.

Ours are always fine, and so are Gymnasium's own environments and methods that the user has installed. Any other needs
the user's word for the call at hand:

with trust.envs(["my_robots:make_snake"]), trust.methods("my_package.my_method"):
    ...
"""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import gymnasium

from ibol import outside
from ibol.errors import IbolError

Names = str | Iterable[str]
_OWN = ("gymnasium.envs.", "ibol.envs.")
_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())
_trusted_methods: ContextVar[frozenset[str]] = ContextVar("trusted_methods", default=frozenset())


@contextmanager
def envs(names: Names) -> Iterator[None]:
    """Trust these environments, too, for as long as this is entered."""
    with _also(_trusted, names, "trust_env", "an environment"):
        yield


@contextmanager
def methods(names: Names) -> Iterator[None]:
    """Trust these methods, too, for as long as this is entered."""
    with _also(_trusted_methods, names, "trust_method", "a method"):
        yield


@contextmanager
def both(env_names: Names, method_names: Names) -> Iterator[None]:
    """Trust these environments and these methods, too, for as long as this is entered."""
    with envs(env_names), methods(method_names):
        yield


@contextmanager
def _also(trusted: ContextVar[frozenset[str]], names: Names, argument: str, what: str) -> Iterator[None]:
    given = [names] if isinstance(names, str) else list(names) if isinstance(names, Iterable) else [names]
    if not all(isinstance(name, str) for name in given):
        raise IbolError(f"{argument} is {names!r}, but the name of {what} or several names are needed")
    token = trusted.set(trusted.get() | frozenset(given))
    try:
        yield
    finally:
        trusted.reset(token)


def check_env(name: Any, source: Any) -> None:
    """Refuse the name of an environment that the file or run `source` brings, unless it is known or trusted."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise IbolError(f"the environment in {source} is {name!r}, which is not the name of an environment")
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


def check_method(name: Any, source: Any) -> None:
    """Refuse the name of a method in the file or run `source` that is a module, unless it is trusted."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise IbolError(f"the method in {source} is {name!r}, which is not the name of a method")
    if outside.is_module(name) and name not in _trusted_methods.get():
        raise IbolError(
            f"{source} uses the method {name!r}, which is neither ours nor installed, and to use it imports that "
            f"module: if you trust it, say so with --trust-method '{name}' (in Python: trust_method={name!r})"
        )


def flags(env: str, method: str) -> str:
    """What a command needs to be given for runs of an environment and a method, with a space before it, or nothing."""
    needed = "" if is_harmless(env) else f" --trust-env {shlex.quote(env)}"
    return needed + (f" --trust-method {shlex.quote(method)}" if outside.is_module(method) else "")
