"""Which environment a run uses, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from gymnasium.vector import AutoresetMode

from ibol.bounds import Count, Natural, NotEmpty, Threads
from ibol.envs import Env, make, sizes
from ibol.errors import IbolError
from ibol.runs.directory import settings_from_json


@dataclass(frozen=True)
class EnvSettings:
    """How the environment is run."""

    horizon: Count | None = None
    """Steps in an episode (default: the environment's own)."""
    location_dims: Annotated[tuple[Natural, ...], NotEmpty()] | None = None
    """For an own environment: the state dimensions that say where the agent is."""
    num_threads: Threads | None = None
    """Threads that step the simulations (default: one for each core)."""
    randomize: bool = True
    """For dkitty: draw its dynamics anew for every episode."""

    def make(self, env: str, num_envs: int, **options: Any) -> Env:
        """A batch of `num_envs` copies for whole episodes: one that has ended rests until the next reset.

        `options` are further arguments of `ibol.make`.
        """
        if not self.randomize:
            options["randomize"] = False
        return make(
            env,
            num_envs,
            self.num_threads,
            horizon=self.horizon,
            location_dims=self.location_dims,
            autoreset=AutoresetMode.DISABLED,
            **options,
        )

    def make_for(self, made_for: Any, num_envs: int) -> Env:
        """A batch of the environment of a description; refuses one that has other sizes than are described."""
        env = self.make(made_for.env, num_envs)
        state_dim, _ = sizes(env)
        if state_dim != made_for.state_dim:
            raise IbolError(f"states of {made_for.env} have {state_dim} dimensions, and not {made_for.state_dim}")
        return env


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
