"""What all environments refuse, each in one sentence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from ibol import memory
from ibol.bounds import whole_number
from ibol.errors import IbolError


def optional_number(name: str, value: Any) -> int | None:
    """A size, or None where the environment chooses."""
    return None if value is None else whole_number(name, value)


def thread_count(value: Any) -> int | None:
    """Threads, or None for one for each core."""
    return None if value is None else whole_number("num_threads", value, most=1024)


def check_copies(name: str, count: int, num_bytes: int) -> None:
    """Refuse more copies of an environment, of so many bytes each, than fit into memory."""
    memory.check(
        count * num_bytes,
        f"num_envs {count} of {name}",
        "choose fewer (--episodes-per-epoch, --evaluation-episodes, --candidates, --trajectories or --episodes)",
    )


def autoreset_mode(value: AutoresetMode | str) -> AutoresetMode:
    """One of Gymnasium's modes, also by its name or value: `SAME_STEP` and `SameStep` are the same."""
    for mode in AutoresetMode:
        if value is mode or (isinstance(value, str) and value in (mode.name, mode.value)):
            return mode
    raise IbolError(f"autoreset is {value!r}, but it must be one of {', '.join(mode.value for mode in AutoresetMode)}")


def seed_list(seed: Any, num_envs: int) -> list[int | None]:
    """A seed for each environment, `seed + i` by Gymnasium's convention; None keeps the present generator."""
    if not isinstance(seed, list | tuple | np.ndarray):
        first = whole_number("seed", seed, 0)
        return [first + i for i in range(num_envs)]
    if len(seed) != num_envs:
        raise IbolError(f"{len(seed)} seeds were given for {num_envs} environments")
    return [None if one is None else whole_number("seed", one, 0) for one in seed]


def reset_mask(options: Mapping[str, Any] | None, num_envs: int) -> NDArray[np.bool_] | None:
    """Which environments `reset(options=...)` is for; None for all."""
    if options is not None and not isinstance(options, Mapping):
        raise IbolError(f"options are {options!r}, but a dictionary is needed")
    if options is None or options.get("reset_mask") is None:
        return None
    mask = np.asarray(options["reset_mask"])
    if mask.shape != (num_envs,) or mask.dtype != np.bool_:
        raise IbolError(
            f"reset_mask has shape {mask.shape} and type {mask.dtype}, but {num_envs} environments need "
            f"shape ({num_envs},) and type bool"
        )
    return mask


def action_array(env: Any, actions: ArrayLike) -> NDArray[np.float64]:
    """The actions of a batch, clipped to [-1, 1]; refuses those of another type or shape or that are not finite."""
    try:
        given = np.asarray(actions)
    except ValueError:  # rows of different lengths
        given = np.array(None)
    if given.dtype.kind in "OSUcmM":
        raise IbolError(
            f"actions have type {given.dtype.name}, but {env.name} needs numbers of shape {env.action_space.shape}"
        )
    acts = given.astype(np.float64)
    if acts.shape != env.action_space.shape:
        raise IbolError(f"actions have shape {acts.shape}, but {env.name} needs {env.action_space.shape}")
    if not np.isfinite(acts).all():
        bad = int(np.flatnonzero(~np.isfinite(acts).all(axis=1))[0])
        raise IbolError(f"the action of environment {bad} of {env.name} is not finite: {acts[bad]}")
    return acts.clip(-1.0, 1.0)


def dimensions(name: str, given: Any, size: int) -> tuple[int, ...]:
    """Numbers of different dimensions of something that has `size` of them."""
    try:
        found = tuple(whole_number(name, i, 0) for i in given)
    except TypeError:
        raise IbolError(f"{name} is {given!r}, but several numbers of dimensions are needed") from None
    if any(i >= size for i in found) or len(set(found)) < len(found):
        raise IbolError(f"{name} are {found}, but they must be different ones from 0 to {size - 1}")
    return found
