"""The paper's downstream tasks: a robot, places to be at, and a reward for being near them.

The observation is the robot's state followed by the targets, in metres. Episodes last for the robot's whole horizon,
and every reward is minus a distance, so that 0 is the best return.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ibol.envs.base import BatchedEnv, Bools, Floats, Ints
from ibol.envs.point import PointEnv
from ibol.envs.robot_env import RobotEnv
from ibol.envs.robots import ROBOTS
from ibol.errors import IbolError

IMITATION_SCALE = 30.0  # what the authors divide the squared distance by


@dataclass(frozen=True)
class Task:
    """One task: what its goals are."""

    name: str
    summary: str
    robot: str
    goal_range: float | None
    """Goals are drawn from U[-goal_range, goal_range] in each dimension; None where a way is to be imitated."""
    goal_every: int | None = None
    """Steps until the distance counts and a new goal is drawn around the robot (None: one goal, at the end)."""


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("ant_goal", "be at a random place when the episode ends", "ant", 50.0),
        Task("ant_multi_goals", "be at a random place every 50 steps, each near the one before", "ant", 15.0, 50),
        Task("half_cheetah_goal", "be at a random place when the episode ends", "half_cheetah", 60.0),
        Task("half_cheetah_imitation", "follow the way of somebody's skill", "half_cheetah", None),
        Task("point_goal", "be at a random place when the episode ends; not in the paper", "point", 3.0),
    )
}


class TaskEnv(BatchedEnv):
    """What all tasks share; `make_task` makes one.

    `target_dim` values of the observation follow the robot's `robot_dim` ones. Subclasses say which targets an episode
    has and what they reward.
    """

    target_dim: int
    spread: float
    """Standard deviation of the targets' values."""

    def __init__(
        self,
        task: Task,
        *,
        num_envs: int = 1,
        num_threads: int | None = None,
        seed: int = 0,
        horizon: int | None = None,
        autoreset: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        self.task = task
        self.body = _body(task.robot, num_envs, num_threads, horizon)
        self.robot_dim = self.body._obs.shape[1]
        super().__init__(
            task.name,
            num_envs=num_envs,
            state_dim=self.robot_dim + self.target_dim,
            action_dim=self.body.action_space.sample().shape[1],
            horizon=self.body.horizon,
            location_dims=self.body.location_dims,
            seed=seed,
            autoreset=autoreset,
        )

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """How far from its targets each episode was, in metres, from its return."""
        raise AssertionError("a subclass says what its rewards mean")

    def places(self, observations: NDArray[np.floating]) -> NDArray[np.floating]:
        """Where the robot should be (N, T + 1, k), from the observations (N, T + 1, n) of whole episodes."""
        raise AssertionError("a subclass says what its targets mean")

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        """Targets (len(ids), target_dim) for episodes that begin at locations (len(ids), k)."""
        raise AssertionError("a subclass says what is to be reached")

    def _judge(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        """Rewards (N,) after `elapsed` steps; may write new targets."""
        raise AssertionError("a subclass says what is rewarded")

    def _reset(self, ids: Ints) -> Floats:
        self.body._rngs = self._rngs
        states = self.body._reset(ids)
        return np.concatenate([states, self._draw(states[:, self.location_dims], ids)], axis=1)

    def _advance(self, actions: Floats, ids: Ints | None) -> tuple[Floats, Floats, Bools, Bools]:
        self.body._obs = self._obs[:, : self.robot_dim]
        states, _, terminated, diverged = self.body._advance(actions, ids)
        targets = self._obs[:, self.robot_dim :].copy()
        reward = self._judge(states[:, self.location_dims], targets, self._elapsed + 1)
        return np.concatenate([states, targets], axis=1), reward, terminated, diverged


class GoalEnv(TaskEnv):
    """One goal at a time; the reward is minus the distance to it, when its time is over."""

    def __init__(self, task: Task, *, goal_range: float | None = None, **options: Any) -> None:
        chosen = task.goal_range if goal_range is None else goal_range
        if chosen is None or not 0 < chosen < np.inf:
            raise IbolError(f"goal_range is {chosen}, but goals need a range of more than 0 metres")
        self.goal_range = chosen
        self.target_dim = len(ROBOTS[task.robot].location_dims) if task.robot in ROBOTS else 2
        self.spread = self.goal_range / np.sqrt(3)
        super().__init__(task, **options)
        self.goal_every = min(task.goal_every or self.horizon, self.horizon)

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """The mean distance to the goals when their time was over."""
        return -returns / (self.horizon // self.goal_every)

    def places(self, observations: NDArray[np.floating]) -> NDArray[np.floating]:
        """The goals."""
        return observations[..., self.robot_dim :]

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        return self._offsets(ids)  # around the origin, as in the authors' code

    def _judge(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        due = elapsed % self.goal_every == 0
        distance = np.linalg.norm(targets - locations, axis=1)
        again = np.flatnonzero(due & (elapsed < self.horizon))
        if len(again):
            targets[again] = locations[again] + self._offsets(again)
        return np.where(due, -distance, 0.0)

    def _forfeit(self, ids: Ints) -> Floats:
        # As if it stayed where it was last, as far from every later goal: to break off must not pay.
        targets, locations = self._obs[ids, self.robot_dim :], self._obs[ids][:, self.location_dims]
        due = self.horizon // self.goal_every - (self._elapsed[ids] - 1) // self.goal_every
        return -due * np.linalg.norm(targets - locations, axis=1)

    def _offsets(self, ids: Ints) -> Floats:
        return np.stack([self._rngs[i].uniform(-self.goal_range, self.goal_range, self.target_dim) for i in ids])


class ImitationEnv(TaskEnv):
    """A way to follow: minus the mean squared distance to where it was at the same time, over 30.

    The targets are all places of the way, one for every `every` steps. The set of ways is a file that
    'ibol imitation-set' made.
    """

    def __init__(self, task: Task, *, imitation_set: str | Path | None = None, **options: Any) -> None:
        if imitation_set is None:
            raise IbolError(
                f"{task.name} needs ways to imitate: make a set from skill runs with 'ibol imitation-set RUN... "
                "--output FILE' and name the file with --imitation-set (in Python: imitation_set)"
            )
        self.ways, self.every = load_ways(Path(imitation_set), task.robot)
        count, size = self.ways.shape[1:]
        self.target_dim = count * size
        self.spread = max(float(self.ways.std()), 1e-3)
        options["horizon"] = count * self.every if options.get("horizon") is None else options["horizon"]
        super().__init__(task, **options)
        steps = count * self.every
        if self.horizon != steps:
            raise IbolError(f"horizon is {self.horizon}, but the ways in {imitation_set} have {steps} steps")

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """The root of the mean squared distance to the way."""
        return np.sqrt(np.maximum(-IMITATION_SCALE * returns, 0.0))

    def places(self, observations: NDArray[np.floating]) -> NDArray[np.floating]:
        """At each step the place of the way that counts next."""
        ways = observations[:, 0, self.robot_dim :].reshape(len(observations), *self.ways.shape[1:])
        following = np.maximum(-(-np.arange(observations.shape[1]) // self.every), 1) - 1
        return ways[:, following]

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        chosen = [int(self._rngs[i].integers(len(self.ways))) for i in ids]
        return self.ways[chosen].reshape(len(ids), -1)

    def _judge(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        ways = targets.reshape(len(targets), *self.ways.shape[1:])
        which = np.clip(elapsed // self.every, 1, ways.shape[1]) - 1
        squared = ((ways[np.arange(len(ways)), which] - locations) ** 2).sum(axis=1)
        return np.where(elapsed % self.every == 0, -squared / ways.shape[1] / IMITATION_SCALE, 0.0)

    def _forfeit(self, ids: Ints) -> Floats:
        # As if it stayed where it was last: to break off must not pay.
        ways = self._obs[ids, self.robot_dim :].reshape(len(ids), *self.ways.shape[1:])
        squared = ((ways - self._obs[ids][:, None, self.location_dims]) ** 2).sum(axis=2)
        due = self.every * (1 + np.arange(ways.shape[1])) >= self._elapsed[ids, None]
        return -(squared * due).sum(axis=1) / ways.shape[1] / IMITATION_SCALE


def make_task(name: str, **options: Any) -> TaskEnv:
    """The task `name` as a batch; `goal_range` and `imitation_set` are options of the tasks that have them."""
    task = TASKS[name]
    refused, kind = ("goal_range", ImitationEnv) if task.goal_range is None else ("imitation_set", GoalEnv)
    if options.pop(refused, None) is not None:
        raise IbolError(f"{refused} was given, but {name} has no such thing: leave it out")
    return kind(task, **options)


def load_ways(file: Path, robot: str) -> tuple[NDArray[np.float64], int]:
    """Ways (M, K, k) of an imitation set, without their beginnings, and the steps between two of their places."""
    from ibol.runs import checkpoint  # imports JAX, which nothing else of the environments needs

    if not file.exists():
        raise IbolError(f"there is no imitation set {file}: make one with 'ibol imitation-set RUN... --output FILE'")
    arrays, meta = checkpoint.load(file)
    if "imitation_set" not in meta:
        raise IbolError(f"{file} is no imitation set: make one with 'ibol imitation-set RUN... --output FILE'")
    if meta["imitation_set"]["env"] != robot:
        raise IbolError(f"the ways in {file} are those of {meta['imitation_set']['env']}, but the robot is {robot}")
    return arrays["locations"][:, 1:].astype(np.float64), int(meta["imitation_set"]["every"])


def _body(robot: str, num_envs: int, num_threads: int | None, horizon: int | None) -> BatchedEnv:
    if robot == "point":
        return PointEnv(num_envs=num_envs, horizon=horizon, autoreset=AutoresetMode.DISABLED)
    return RobotEnv(
        ROBOTS[robot],
        num_envs=num_envs,
        num_threads=num_threads,
        horizon=horizon,
        autoreset=AutoresetMode.DISABLED,
    )
