"""Anybody's Gymnasium environment in the place of a robot, through Gymnasium's own vectorisation."""

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import FlattenObservation, RescaleAction, TimeLimit
from numpy.typing import ArrayLike

from ibol.envs.base import NOMINAL_DT
from ibol.envs.checks import (
    action_array,
    autoreset_mode,
    dimensions,
    optional_number,
    reset_mask,
    seed_list,
    whole_number,
)
from ibol.envs.registry import ENVS
from ibol.errors import IbolError, unknown

Factory = Callable[..., gymnasium.Env[Any, Any]]
_MODELS = (".xml", ".mjcf", ".urdf")


class _Resting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Rests where its episode ended until it is reset; the ends themselves are in `info`.

    Gymnasium's vectorisation without automatic resets refuses to step a copy that says that it has ended.
    """

    _last: tuple[Any, bool, bool] | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self._last = None
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._last is None:
            obs, reward, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                self._last = (obs, terminated, truncated)
        else:
            (obs, terminated, truncated), reward, info = self._last, 0.0, {}
        return obs, reward, False, False, {**info, "terminated": terminated, "truncated": truncated}


class GymEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` copies of a Gymnasium environment with Box spaces, with the attributes of a `BatchedEnv`.

    Ended episodes are treated as in `BatchedEnv`. Observations are flattened to vectors and actions rescaled to
    [-1, 1]^m. `location_dims` are the state dimensions that say where the agent is, `env_kwargs` the arguments that
    each copy is made with. With `processes=True` every copy runs in a process of its own.
    """

    dt = NOMINAL_DT

    def __init__(
        self,
        source: str | Factory,
        *,
        num_envs: int = 1,
        seed: int = 0,
        horizon: int | None = None,
        location_dims: tuple[int, ...] = (),
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
        processes: bool = False,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        num_envs, horizon = whole_number("num_envs", num_envs), optional_number("horizon", horizon)
        mode = autoreset_mode(autoreset)
        self.name = source if isinstance(source, str) else _qualified_name(source)
        create = find_factory(source) if isinstance(source, str) else source
        if env_kwargs:
            create = partial(create, **env_kwargs)
        probe = _first(self.name, create)
        own_limit = _time_limit(probe)
        if horizon is not None and own_limit is not None and own_limit < horizon and not isinstance(probe, TimeLimit):
            raise IbolError(f"horizon is {horizon}, but {self.name} cuts its episodes at {own_limit} steps itself")
        limit = horizon if horizon is not None else own_limit
        _check_spaces(self.name, probe)
        probe.close()
        if limit is None:
            raise IbolError(
                f"{self.name} has no time limit of its own: give the episode length with horizon (--horizon)"
            )
        self.horizon = int(limit)

        def build() -> gymnasium.Env[Any, Any]:
            env = create()
            if horizon is not None:
                env = TimeLimit(env.env if isinstance(env, TimeLimit) else env, horizon)
            if len(env.observation_space.shape or ()) != 1:
                env = FlattenObservation(env)
            with np.errstate(over="ignore"):  # Gymnasium compares the limits with float64's largest number as float32
                env = RescaleAction(env, np.float32(-1.0), np.float32(1.0))
            return _Resting(env) if mode == AutoresetMode.DISABLED else env

        self._envs: VectorEnv[Any, Any, Any]
        if processes:
            self._envs = AsyncVectorEnv([build] * num_envs, context="forkserver", autoreset_mode=mode)
        else:
            self._envs = SyncVectorEnv([build] * num_envs, autoreset_mode=mode)
        self.num_envs = num_envs
        self.autoreset = mode
        self.metadata = self._envs.metadata
        self.single_observation_space = self._envs.single_observation_space
        action_dim = int(np.prod(self._envs.single_action_space.shape or ()))
        self.single_action_space = Box(-1.0, 1.0, (action_dim,), np.float32)
        self.observation_space = self._envs.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        state_dim = self.single_observation_space.shape[0] if self.single_observation_space.shape else 0
        self.location_dims = dimensions("location_dims", location_dims, state_dim)
        self._first_seeds: list[int | None] | None = seed_list(seed, num_envs)
        self._obs: Any = None

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes as a `BatchedEnv` does; the first reset without a seed uses the constructor's."""
        mask = reset_mask(options, self.num_envs)
        if mask is not None and self._obs is None:
            raise IbolError("reset all environments once before resetting some of them with reset_mask")
        seeds = self._first_seeds if seed is None else seed_list(seed, self.num_envs)
        self._first_seeds = None
        if mask is not None and not mask.any():
            return self._obs.copy(), {}
        given = None if options is None else {**options, **({} if mask is None else {"reset_mask": mask})}
        self._obs, info = self._envs.reset(seed=seeds, options=given)  # type: ignore[arg-type]
        return self._obs.copy(), info

    def step(self, actions: ArrayLike) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance every copy by one step."""
        if self._obs is None:
            raise IbolError("call reset() before step()")
        acts = action_array(self, actions).astype(np.float32)
        shaped = acts.reshape((self.num_envs, *(self._envs.single_action_space.shape or ())))
        self._obs, reward, terminated, truncated, info = self._envs.step(shaped)
        if self.autoreset == AutoresetMode.DISABLED:
            terminated, truncated = (info.pop(name).astype(bool) for name in ("terminated", "truncated"))
            info = {name: value for name, value in info.items() if name not in ("_terminated", "_truncated")}
        return self._obs.copy(), reward, terminated, truncated, info

    def close(self, **kwargs: Any) -> None:
        """Close all copies."""
        self._envs.close(**kwargs)


def find_factory(name: str) -> Factory:
    """What makes the environment `name`: a Gymnasium id, or `module:function` that returns an environment."""
    if name in gymnasium.registry:
        return partial(gymnasium.make, name)
    module_name, _, attribute = name.partition(":")
    if attribute and module_name.endswith(".py"):
        written = module_name.removesuffix(".py").replace("/", ".")
        raise IbolError(f"{name} names a file, but a module is needed: write {written}:{attribute}")
    if attribute and module_name:
        try:
            module = importlib.import_module(module_name)
        except IbolError:
            raise
        except Exception as error:  # whatever the code of others raises
            raise IbolError(f"the environment {name!r} needs the module {module_name!r}: {_why(error)}") from error
        if attribute in gymnasium.registry:
            return partial(gymnasium.make, attribute)
        factory = getattr(module, attribute, None)
        if callable(factory):
            return factory
        raise IbolError(f"the module {module_name!r} has no environment or function {attribute!r}")
    if name.lower().endswith(_MODELS):
        raise IbolError(
            f"{name} is a model, but an own robot is a TOML file: write one beside it, with model = {Path(name).name!r}"
        )
    hint = ", the TOML file of an own robot, a Gymnasium id such as 'Pendulum-v1', or 'module:function' that makes a"
    raise unknown("environment", name, ENVS, f"{hint} Gymnasium environment")


def _why(error: Exception) -> str:
    """Why a module cannot be imported; for what its code raises, with the kind of the error."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error} (modules are looked for where packages are installed, and in the working directory)"
    return str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"


def _first(name: str, create: Factory) -> gymnasium.Env[Any, Any]:
    """An environment to look at; what somebody else's function raises is said with its name."""
    try:
        made = create()
    except IbolError:
        raise
    except Exception as error:
        raise IbolError(f"{name} could not be made: {type(error).__name__}: {error}") from error
    if not isinstance(made, gymnasium.Env):
        raise IbolError(f"{name} makes {type(made).__name__}, but a Gymnasium environment is needed")
    return made


def _time_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    return None if env.spec is None else env.spec.max_episode_steps


def _check_spaces(name: str, env: gymnasium.Env[Any, Any]) -> None:
    for kind, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, Box):
            raise IbolError(f"the {kind} space of {name} is {type(space).__name__}, but only Box spaces are supported")
    if not (np.isfinite(env.action_space.low).all() and np.isfinite(env.action_space.high).all()):  # type: ignore[attr-defined]
        raise IbolError(f"the action space of {name} is unbounded, but actions need finite limits")


def _qualified_name(factory: Factory) -> str:
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", repr(factory))
    return f"{module}:{name}"
