"""Which environment a run uses, and how."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from gymnasium.vector import AutoresetMode

from ibol import trust
from ibol.bounds import Count, Natural, NotEmpty, Threads
from ibol.envs import Env, Robot, find_entry, make, sizes
from ibol.envs.registry import is_native
from ibol.errors import IbolError
from ibol.runs.directory import settings_from_json


@dataclass(frozen=True)
class EnvSettings:
    """How the environment is run."""

    horizon: Count | None = None
    """Steps in an episode (default: the environment's own)."""
    location_dims: Annotated[tuple[Natural, ...], NotEmpty()] | None = None
    """For an environment of your own: the state dimensions that say where the agent is."""
    env_kwargs: tuple[str, ...] = ()
    """For an environment of your own: its arguments as name=value, where the value is JSON, or for module:function also
    text."""
    num_threads: Threads | None = None
    """Threads that step the simulations (default: one for each core)."""
    randomize: bool = True
    """For dkitty: draw its dynamics again for every episode."""

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments of an own environment by name, if there are any."""
        return dict(map(_argument, self.env_kwargs)) or None

    def make(self, env: str, num_envs: int, **options: Any) -> Env:
        """A batch of `num_envs` copies for whole episodes: one that has ended rests until the next reset.

        `options` are further arguments of `ibol.make`.
        """
        if not self.randomize:
            options["randomize"] = False
        if trust.is_harmless(env):
            _check_harmless(env, self.arguments or {})
        return make(
            env,
            num_envs,
            self.num_threads,
            horizon=self.horizon,
            location_dims=self.location_dims,
            env_kwargs=self.arguments,
            autoreset=AutoresetMode.DISABLED,
            **options,
        )

    def robot(self, env: str) -> Robot | None:
        """The robot that an environment has with these settings, if it is one of ours or an own one."""
        entry = find_entry(env)
        if entry is None or entry.task is not None:
            return None
        if entry.gymnasium and not is_native(entry, self.location_dims, self.arguments):
            return None
        return entry.robot

    def completed(self, other: "EnvSettings") -> "EnvSettings":
        """With another's horizon, location and arguments where these leave them open."""
        return replace(
            self,
            horizon=other.horizon if self.horizon is None else self.horizon,
            location_dims=other.location_dims if self.location_dims is None else self.location_dims,
            env_kwargs=self.env_kwargs or other.env_kwargs,
        )

    def make_for(self, made_for: Any, num_envs: int) -> Env:
        """A batch of the environment of a description; refuses one that has other sizes than are described."""
        env = self.make(made_for.env, num_envs)
        state_dim, _ = sizes(env)
        if state_dim != made_for.state_dim:
            raise IbolError(f"states of {made_for.env} have {state_dim} dimensions, and not {made_for.state_dim}")
        return env


def _check_harmless(env: str, arguments: Mapping[str, Any]) -> None:
    """Refuse text for an environment that anybody's run may use: it could name a file that is then read."""
    for name, value in arguments.items():
        if not isinstance(value, int | float | None):
            raise IbolError(
                f"{name} in env_kwargs is {value!r}, but {env} takes numbers, true, false and null alone: for more, "
                "name a function of your own that makes it (module:function)"
            )


def _argument(text: str) -> tuple[str, Any]:
    """The name and value that name=value stands for."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise IbolError(f"env_kwargs has {text!r}, but name=value is needed, such as frame_skip=2")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def env_settings_of(values: Mapping[str, Any], where: str) -> EnvSettings:
    """The settings of the environment in a description that was JSON."""
    found = values.get("env_settings")
    if not isinstance(found, dict):
        raise IbolError(f"{where} has no env_settings")
    return settings_from_json(EnvSettings, found, where)


def check_dims(where: str, state_dim: int, **named: tuple[int, ...]) -> None:
    """Refuse numbers of state dimensions that there are not."""
    for name, dims in named.items():
        if any(dim >= state_dim for dim in dims):
            raise IbolError(f"{where}: {name} are {dims}, but the state has {state_dim} dimensions")
