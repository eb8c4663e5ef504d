"""Environments: the paper's robots, PointEnv and downstream tasks, batched, and anybody's Gymnasium environment.

env = ibol.make("ant", num_envs=64)
obs, info = env.reset(seed=0)
obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
"""

from typing import Any, Protocol

from gymnasium.vector import AutoresetMode

from ibol.envs.base import BatchedEnv
from ibol.envs.dkitty import DKittyEnv
from ibol.envs.gym_env import Factory, GymEnv, find_factory
from ibol.envs.own import is_description, load_robot, robot_from
from ibol.envs.point import PointEnv
from ibol.envs.registry import (
    ENVS,
    GYMNASIUM,
    ROBOTS,
    TASKS,
    check_options,
    find_entry,
    find_robot,
    find_task,
    is_native,
    names,
)
from ibol.envs.robot_env import RobotEnv
from ibol.envs.robots import Robot
from ibol.envs.single import register_envs
from ibol.envs.tasks import Task, TaskEnv
from ibol.errors import IbolError
from ibol.robots.own import OwnRobot

__all__ = [
    "ENVS", "GYMNASIUM", "ROBOTS", "TASKS", "BatchedEnv", "DKittyEnv", "GymEnv", "OwnRobot", "PointEnv",
    "Robot", "RobotEnv", "Task", "TaskEnv", "find_entry", "find_robot", "find_task",
    "load_robot", "make", "names", "robot_from", "sizes",
]  # fmt: skip

Env = BatchedEnv | GymEnv


class VectorizedEnv(Protocol):
    """What a roll-out needs of environments that are stepped together, raw or linearized."""

    num_envs: int
    horizon: int
    single_observation_space: Any
    single_action_space: Any

    def reset(self, *, seed: int | list[int | None] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes."""
        ...

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Advance by one step."""
        ...


def sizes(env: VectorizedEnv) -> tuple[int, int]:
    """State and action dimensions of an environment."""
    return env.single_observation_space.shape[0], env.single_action_space.shape[0]


def make(
    env: str | Factory | OwnRobot,
    num_envs: int = 1,
    num_threads: int | None = None,
    seed: int = 0,
    *,
    horizon: int | None = None,
    location_dims: tuple[int, ...] | None = None,
    autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
    **options: Any,
) -> Env:
    """Make `num_envs` copies of an environment as one Gymnasium `VectorEnv`.

    Args:
        env: a name of `ibol.envs.ENVS`, the TOML file of an own robot or an `ibol.Robot`, a Gymnasium id,
            `module:function`, or a function that makes a Gymnasium environment with Box spaces.
        num_envs: how many copies are stepped together.
        num_threads: threads that step a robot's simulations (None: one for each core).
        seed: environment `i` starts from `seed + i`.
        horizon: episode length in steps (None: the environment's own).
        location_dims: for an own environment, the state dimensions that say where the agent is.
        autoreset: what happens when an episode ends (see `BatchedEnv`).
        options: `terminate=False` for a robot whose episodes always last for the whole horizon;
            `end_when_fallen=True` for one whose episodes also terminate when it has fallen; `randomize=False`
            for a D'Kitty with the same dynamics in every episode;
            `goal_range=20.0` for other goals of a task, `imitation_set=FILE` for half_cheetah_imitation;
            `processes=True` to run each copy of an own environment in a process of its own, `env_kwargs={...}`
            for arguments that it is made with. None: not given.
    """
    if isinstance(env, OwnRobot):
        env = robot_from(env).name
    if not isinstance(env, str) and not callable(env):
        raise IbolError(f"env is {env!r}, but a name or a function that makes an environment is needed")
    if is_description(env):
        env = load_robot(str(env)).name
    given = {name: value for name, value in options.items() if value is not None}
    entry = find_entry(env) if isinstance(env, str) else None
    if entry is not None and entry.gymnasium:
        through_gymnasium = "processes" in given or not is_native(entry, location_dims, given.get("env_kwargs"))
        entry = None if through_gymnasium else entry
    common: dict[str, Any] = {"num_envs": num_envs, "seed": seed, "horizon": horizon, "autoreset": autoreset}
    if entry is None:
        if isinstance(env, str):
            find_factory(env)  # a wrong name is the first thing to say
        check_options("own environments", given, ["processes", "env_kwargs"])
        return GymEnv(env, location_dims=location_dims or (), **common, **given)
    if location_dims is not None:
        raise IbolError(
            f"location_dims are for own environments; those of {entry.name} are fixed"
            + (", in its description" if "@" in entry.name else "")
        )
    check_options(entry.name, given, entry.options)
    return entry.build(num_threads=num_threads, **common, **given)


register_envs()
