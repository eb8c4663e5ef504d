"""Which environment a run uses, and how."""

from dataclasses import dataclass
from typing import Annotated, Any

from gymnasium.vector import AutoresetMode

from ibol.bounds import Count, Natural, NotEmpty, Threads
from ibol.envs import Env, make


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
