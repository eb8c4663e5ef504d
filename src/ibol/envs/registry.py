"""The environments that come with `ibol`, one entry for each; everything else about them follows from it.

A robot is `_robot(Robot(...))`, with a class of its own where it needs one; a task is `task_entry(Task(...))`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ibol.envs import gymnasium_robots
from ibol.envs.base import BatchedEnv
from ibol.envs.dkitty import DKittyEnv
from ibol.envs.point import HORIZON, PointEnv
from ibol.envs.robot_env import RobotEnv
from ibol.envs.robots import Robot
from ibol.envs.tasks import GoalEnv, ImitationEnv, Task
from ibol.errors import unknown
from ibol.robots.kept import GOAL, KNOWN


@dataclass(frozen=True)
class Entry:
    """One environment: how it is made, and what is known of it before."""

    name: str
    summary: str
    build: Callable[..., BatchedEnv]
    """Makes a batch from num_envs, num_threads, seed, horizon, autoreset and the options."""
    horizon: int | None
    """Steps in an episode; None where an option decides."""
    location_dims: tuple[int, ...]
    options: tuple[str, ...] = ()
    """What it understands besides the arguments that all environments have."""
    robot: Robot | None = None
    """Its robot, with the layout of the state (`num_positions`, `rotation`); the point has none."""
    gymnasium: bool = False
    """Whether it is a robot of Gymnasium in a batch; Gymnasium's own environment can be had in its place."""
    task: Task | None = None
    """What is to be done; the observation is then the robot's state, followed by the targets."""

    @property
    def gym_id(self) -> str:
        """The id of the single environment: `half_cheetah` is `ibol/HalfCheetah-v0`."""
        return "ibol/" + "".join(part.capitalize() for part in self.name.split("_")) + "-v0"


def check_options(env: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse options that an environment does not have."""
    choices = list(allowed)
    for name in given:
        if name not in choices:
            raise unknown(f"option of {env}", name, choices)


def _robot(robot: Robot, env_class: type[RobotEnv] = RobotEnv, options: tuple[str, ...] = ()) -> Entry:
    """The entry of a robot, whose class may have options of its own."""
    return Entry(
        name=robot.name,
        summary=robot.summary,
        build=partial(env_class, robot),
        horizon=robot.horizon,
        location_dims=robot.location_dims,
        options=("terminate", "end_when_fallen", *options),
        robot=robot,
    )


def task_entry(task: Task, body: Entry) -> Entry:
    """The entry of a task for the robot, or the point, of another entry; it has that one's options, too."""
    imitates = task.goal_range is None
    env_class: type[GoalEnv | ImitationEnv] = ImitationEnv if imitates else GoalEnv
    return Entry(
        name=task.name,
        summary=task.summary,
        build=partial(env_class, task, body.build),
        horizon=None if imitates else body.horizon,
        location_dims=body.location_dims,
        options=("imitation_set" if imitates else "goal_range", *body.options),
        robot=body.robot,
        task=task,
    )


def _gymnasium_entry(name: str) -> Entry:
    """The entry of a robot of Gymnasium."""
    made = _robot(gymnasium_robots.ROBOTS[name], options=("env_kwargs",))
    return replace(made, build=gymnasium_robots.BUILD[name], gymnasium=True)


_BODIES = (
    _robot(
        Robot(
            name="ant",
            summary="four-legged, moves in the plane; the paper's main robot",
            model_file="ant.xml",
            num_positions=15,
            frame_skip=5,
            horizon=200,
            qpos_noise=0.1,
            qvel_noise=0.1,
            qvel_noise_is_normal=True,
            location_dims=(0, 1),
            rotation="quaternion",
            fallen="upside_down",
            control_cost=0.5,
            alive_reward=1.0,
            camera=(90.0, -40.0, 6.0),
            goal_ranges=(10, 10, 0.5, 1, 1, 1, 1, 0.5, 0.3, 0.5, 0.3, 0.5, 0.3, 0.5, 0.3),
            symmetry_generators=(
                ((-2, 1, 3), (-2, 1, 3), (7, 8, 1, -2, 3, 4, 5, -6)),  # a quarter turn of the legs
                ((1, -2, 3), (-1, 2, -3), (-7, 8, -5, 6, -3, 4, -1, 2)),  # left and right legs
            ),
        ),
    ),
    _robot(
        Robot(
            name="half_cheetah",
            summary="two-legged runner in a vertical plane",
            model_file="half_cheetah.xml",
            num_positions=9,
            frame_skip=5,
            horizon=200,
            qpos_noise=0.1,
            qvel_noise=0.1,
            qvel_noise_is_normal=True,
            location_dims=(0,),
            control_cost=0.1,
            total_mass=14.0,
        ),
    ),
    _robot(
        Robot(
            name="hopper",
            summary="one-legged hopper in a vertical plane, never terminates",
            model_file="hopper.xml",
            num_positions=6,
            frame_skip=4,
            horizon=500,
            qpos_noise=0.005,
            qvel_noise=0.005,
            qvel_noise_is_normal=False,
            location_dims=(0,),
            fallen="lying",
            control_cost=1e-3,
            alive_reward=1.0,
            velocity_clip=10.0,
        ),
    ),
    _robot(
        Robot(
            name="humanoid",
            summary="two-legged humanoid, terminates when it falls",
            model_file="humanoid.xml",
            num_positions=24,
            frame_skip=5,
            horizon=1000,
            qpos_noise=0.01,
            qvel_noise=0.01,
            qvel_noise_is_normal=False,
            location_dims=(0, 1),
            rotation="quaternion",
            fallen="upside_down",
            control_cost=0.1,
            alive_reward=5.0,
            forward_weight=1.25,
            healthy_height=(1.0, 2.0),
            camera=(90.0, -25.0, 5.0),
            symmetry_generators=(
                # Left and right limbs; nearly, as the left leg has a little more armature and stiffness.
                ((1, -2, 3), (-1, 2, -3), (-1, 2, -3, 8, 9, 10, 11, 4, 5, 6, 7, -15, -16, 17, -12, -13, 14)),
            ),
        ),
    ),
    _robot(
        Robot(
            name="dkitty",
            summary="four-legged with servos, with new dynamics in every episode; terminates when it tips over",
            model_file="dkitty.xml",
            num_positions=18,
            frame_skip=40,
            horizon=200,
            qpos_noise=0.0,
            qvel_noise=0.0,
            qvel_noise_is_normal=False,
            location_dims=(0, 1),
            rotation="angles",
            fallen="tipped",
            terminates_when_fallen=True,
            control_cost=0.0,
            forward_weight=0.0,
            camera=(70.0, -33.0, 0.9),
            square=0.25,
            symmetry_generators=(
                ((-1, 2, 3), (1, -2, -3), (-4, 5, 6, -1, 2, 3, -10, 11, 12, -7, 8, 9)),  # left and right legs
            ),
        ),
        DKittyEnv,
        options=("randomize",),
    ),
    Entry(
        name="point",
        summary="a point in the plane; the paper's toy for ablations",
        build=PointEnv,
        horizon=HORIZON,
        location_dims=(0, 1),
    ),
)
ENVS: dict[str, Entry] = {entry.name: entry for entry in _BODIES} | {
    task.name: task_entry(task, next(entry for entry in _BODIES if entry.name == task.robot))
    for task in (
        Task("ant_goal", "be at a random place when the episode ends", "ant", 50.0),
        Task("ant_multi_goals", "be at a random place every 50 steps, each near the one before", "ant", 15.0, 50),
        Task("half_cheetah_goal", "be at a random place when the episode ends", "half_cheetah", 60.0),
        Task("half_cheetah_imitation", "follow the path of somebody's skill", "half_cheetah", None),
        Task("point_goal", "be at a random place when the episode ends; not in the paper", "point", 3.0),
    )
}
ROBOTS: dict[str, Robot] = {entry.name: entry.robot for entry in _BODIES if entry.robot is not None}
TASKS: dict[str, Task] = {entry.name: entry.task for entry in ENVS.values() if entry.task is not None}


GYMNASIUM: dict[str, Entry] = {name: _gymnasium_entry(name) for name in gymnasium_robots.ROBOTS}
"""The robots of Gymnasium that are stepped in a batch, by the ids that they have there."""


def find_entry(name: str) -> Entry | None:
    """The entry of one of our environments, of a robot of Gymnasium, of an own robot that is known, or of the task
    `NAME_goal` of reaching a location with one of these robots; None for any other environment."""
    if name in ENVS or name in GYMNASIUM:
        return ENVS.get(name) or GYMNASIUM[name]
    if name in KNOWN:
        return _robot(KNOWN[name])
    body = find_entry(name.removesuffix(GOAL)) if name.endswith(GOAL) else None
    if body is None or body.task is not None or body.robot is None or not body.location_dims:
        return None
    return task_entry(Task(name, "be at a random place when the episode ends", body.name, body.robot.goal_range), body)


def find_robot(name: str) -> Robot | None:
    """The robot of an environment that `find_entry` finds, if it has one and is not a task."""
    entry = find_entry(name)
    return None if entry is None or entry.task is not None else entry.robot


def find_task(name: str) -> Task | None:
    """The task of that name."""
    entry = find_entry(name)
    return None if entry is None else entry.task


def is_native(entry: Entry, location_dims: tuple[int, ...] | None, env_kwargs: Mapping[str, Any] | None) -> bool:
    """Whether such a robot of Gymnasium is stepped in a batch: other location and arguments are Gymnasium's to make."""
    return location_dims is None and set(env_kwargs or {}) <= set(gymnasium_robots.ARGUMENTS)


def names() -> list[str]:
    """The names of the environments that come with `ibol`, without the tasks in them (`TASKS`)."""
    return [entry.name for entry in _BODIES]
