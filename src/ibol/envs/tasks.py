"""The paper's downstream tasks: a robot, places to be at, and a reward for being near them.

The observation is the robot's state followed by the targets, in metres. Every reward is minus a distance, so that 0 is
the best return. An episode that ends early, because the robot falls, is judged as if the robot stayed where it fell.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from ibol.envs.base import BatchedEnv, Bools, Floats, Ints
from ibol.errors import IbolError

IMITATION_SCALE = 30.0  # what the authors divide the squared distance by


@dataclass(frozen=True)
class Task:
    """One task: what its goals are."""

    name: str
    summary: str
    robot: str
    goal_range: float | None
    """Goals are drawn from U[-goal_range, goal_range] in each dimension; None where a path is to be imitated."""
    goal_every: int | None = None
    """Steps until the distance counts and a new goal is drawn around the robot (None: one goal, at the end)."""


class TaskEnv(BatchedEnv):
    """What all tasks share: a batch of the task's robot, `body`, and targets for it.

    `target_dim` values of the observation follow the robot's `robot_dim` ones. Subclasses say which targets an episode
    has and what they reward. `make_body` makes the robot's batch; options that are not the task's own are for it.
    """

    spread: float
    """Standard deviation of the targets' values."""

    def __init__(
        self,
        task: Task,
        make_body: Callable[..., BatchedEnv],
        *,
        target_dim: int | None = None,
        seed: int = 0,
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **body_options: Any,
    ) -> None:
        self.task = task
        self.body = make_body(autoreset=AutoresetMode.DISABLED, **body_options)
        self.robot, self.dt = self.body.robot, self.body.dt
        self.robot_dim = self.body._obs.shape[1]
        self.target_dim = len(self.body.location_dims) if target_dim is None else target_dim
        super().__init__(
            task.name,
            num_envs=self.body.num_envs,
            state_dim=self.robot_dim + self.target_dim,
            action_dim=self.body.action_dim,
            horizon=self.body.horizon,
            location_dims=self.body.location_dims,
            seed=seed,
            autoreset=autoreset,
        )

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """How far from its targets each episode was, in metres, from its return."""
        raise AssertionError("a subclass says what its rewards mean")

    def targets(self, observations: NDArray[np.floating], elapsed: Ints | None = None) -> NDArray[np.floating]:
        """Where the robot should be (N, T, k), from observations (N, T, n) after `elapsed` steps (None: 0, 1, ...)."""
        raise AssertionError("a subclass says what its targets mean")

    def shown(self) -> tuple[Floats, Floats | None]:
        """The first environment's observation, and the target that counts next."""
        return self._obs[0], self.targets(self._obs[:1, None], self._elapsed[:1])[0, 0]

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        """Targets (len(ids), target_dim) for episodes that begin at locations (len(ids), k)."""
        raise AssertionError("a subclass says what is to be reached")

    def _rewards(self, locations: Floats, targets: Floats, elapsed: Ints, ids: Ints) -> Floats:
        """Rewards (len(ids),) after `elapsed` steps; may write new targets."""
        raise AssertionError("a subclass says what is rewarded")

    def _later_rewards(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        """The sum of all rewards after `elapsed` steps if the robots stay where they are."""
        raise AssertionError("a subclass says what is rewarded")

    def _reset(self, ids: Ints) -> Floats:
        self.body._rngs = self._rngs
        states = self.body._reset(ids)
        return np.concatenate([states, self._draw(states[:, self.location_dims], ids)], axis=1)

    def _advance(self, actions: Floats, ids: Ints | None) -> tuple[Floats, Floats, Bools, Bools]:
        self.body._obs = self._obs[:, : self.robot_dim]
        states, reward, terminated, diverged = self.body._advance(actions, ids)
        targets = self._obs[:, self.robot_dim :].copy()
        moved = np.arange(self.num_envs) if ids is None else ids  # only these may draw new targets
        locations, wanted, elapsed = states[moved][:, self.location_dims], targets[moved], self._elapsed[moved] + 1
        reward[moved] = self._rewards(locations, wanted, elapsed, moved)
        # To end early must not pay.
        reward[moved] += np.where(terminated[moved], self._later_rewards(locations, wanted, elapsed), 0.0)
        targets[moved] = wanted
        return np.concatenate([states, targets], axis=1), reward, terminated, diverged

    def _forfeit(self, ids: Ints) -> Floats:
        last = self._obs[ids]
        return self._later_rewards(last[:, self.location_dims], last[:, self.robot_dim :], self._elapsed[ids] - 1)


class GoalEnv(TaskEnv):
    """One goal at a time; the reward is minus the distance to it, when its time is over."""

    def __init__(
        self, task: Task, make_body: Callable[..., BatchedEnv], *, goal_range: float | None = None, **options: Any
    ) -> None:
        chosen: Any = task.goal_range if goal_range is None else goal_range
        if isinstance(chosen, bool) or not isinstance(chosen, Real) or not 0 < float(chosen) < np.inf:
            raise IbolError(f"goal_range is {chosen!r}, but goals need a range of more than 0 metres")
        self.goal_range = float(chosen)
        self.spread = self.goal_range / np.sqrt(3)
        super().__init__(task, make_body, **options)
        self.goal_every = min(task.goal_every or self.horizon, self.horizon)

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """The mean distance to the goals when their time was over."""
        return -returns / (self.horizon // self.goal_every)

    def targets(self, observations: NDArray[np.floating], elapsed: Ints | None = None) -> NDArray[np.floating]:
        """The goals."""
        return observations[..., self.robot_dim :]

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        return self._offsets(ids)  # around the origin, as in the authors' code

    def _rewards(self, locations: Floats, targets: Floats, elapsed: Ints, ids: Ints) -> Floats:
        due = elapsed % self.goal_every == 0
        distance = np.linalg.norm(targets - locations, axis=1)
        again = np.flatnonzero(due & (elapsed < self.horizon))
        if len(again):
            targets[again] = locations[again] + self._offsets(ids[again])
        return np.where(due, -distance, 0.0)

    def _later_rewards(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        # As far from every later goal as from the present one.
        due = self.horizon // self.goal_every - elapsed // self.goal_every
        return -due * np.linalg.norm(targets - locations, axis=1)

    def _offsets(self, ids: Ints) -> Floats:
        return np.stack([self._rngs[i].uniform(-self.goal_range, self.goal_range, self.target_dim) for i in ids])


class ImitationEnv(TaskEnv):
    """A path to follow: minus the mean squared distance to where it was at the same time, over 30.

    The targets are all places of the path, one for every `every` steps. The set of paths is a file that
    'ibol imitation-set' made.
    """

    def __init__(
        self,
        task: Task,
        make_body: Callable[..., BatchedEnv],
        *,
        imitation_set: str | Path | None = None,
        horizon: int | None = None,
        **options: Any,
    ) -> None:
        if imitation_set is None:
            raise IbolError(
                f"{task.name} needs paths to imitate: make a set from skill runs with 'ibol imitation-set RUN... "
                "--output FILE' and name the file with --imitation-set (in Python: imitation_set)"
            )
        if not isinstance(imitation_set, str | Path):
            raise IbolError(f"imitation_set is {imitation_set!r}, but the path of a file is needed")
        self.paths, self.every = load_paths(Path(imitation_set), task.robot)
        count, size = self.paths.shape[1:]
        self.spread = max(float(self.paths.std()), 1e-3)
        steps = count * self.every
        if horizon not in (None, steps):
            raise IbolError(f"horizon is {horizon!r}, but the paths in {imitation_set} have {steps} steps")
        super().__init__(task, make_body, target_dim=count * size, horizon=steps, **options)
        if size != len(self.location_dims):
            raise IbolError(f"the paths in {imitation_set} have {size} dimensions, but {task.robot} moves in others")

    def distance(self, returns: NDArray[np.floating]) -> NDArray[np.floating]:
        """The root of the mean squared distance to the path."""
        return np.sqrt(np.maximum(-IMITATION_SCALE * returns, 0.0))

    def targets(self, observations: NDArray[np.floating], elapsed: Ints | None = None) -> NDArray[np.floating]:
        """At each step the place of the path that counts next."""
        paths = self._paths_of(observations[:, 0, self.robot_dim :])
        steps = np.arange(observations.shape[1]) if elapsed is None else elapsed
        return paths[:, np.clip(-(-steps // self.every), 1, paths.shape[1]) - 1]

    def _draw(self, locations: Floats, ids: Ints) -> Floats:
        chosen = [int(self._rngs[i].integers(len(self.paths))) for i in ids]
        return self.paths[chosen].reshape(len(ids), -1)

    def _rewards(self, locations: Floats, targets: Floats, elapsed: Ints, ids: Ints) -> Floats:
        squared = self._squared(locations, targets)
        which = np.clip(elapsed // self.every, 1, squared.shape[1]) - 1
        counts = elapsed % self.every == 0
        return np.where(counts, -squared[np.arange(len(ids)), which] / squared.shape[1] / IMITATION_SCALE, 0.0)

    def _later_rewards(self, locations: Floats, targets: Floats, elapsed: Ints) -> Floats:
        squared = self._squared(locations, targets)
        due = self.every * (1 + np.arange(squared.shape[1])) > elapsed[:, None]
        return -(squared * due).sum(axis=1) / squared.shape[1] / IMITATION_SCALE

    def _squared(self, locations: Floats, targets: Floats) -> Floats:
        """Squared distances (N, K) of locations (N, k) to all places of their paths."""
        return ((self._paths_of(targets) - locations[:, None]) ** 2).sum(axis=2)

    def _paths_of(self, targets: NDArray[np.floating]) -> NDArray[np.floating]:
        return targets.reshape(len(targets), *self.paths.shape[1:])


def load_paths(file: Path, robot: str) -> tuple[NDArray[np.float64], int]:
    """Paths (M, K, k) of an imitation set, without their beginnings, and the steps between two of their places."""
    from ibol.runs import checkpoint  # imports JAX, which nothing else of the environments needs

    if not os.path.exists(file):
        raise IbolError(f"there is no imitation set {file}: make one with 'ibol imitation-set RUN... --output FILE'")
    arrays, meta = checkpoint.load(file)
    about, paths = meta.get("imitation_set", {}), arrays.get("locations", np.zeros(0))
    env, every = (about.get("env"), about.get("every")) if isinstance(about, dict) else (None, None)
    # Places at the start and later ones, of at least one path.
    whole = paths.ndim == 3 and paths.dtype.kind == "f" and min(paths.shape) > 0 and paths.shape[1] > 1
    if type(every) is not int or every < 1 or not whole or not np.isfinite(paths).all():
        raise IbolError(f"{file} is not an imitation set: make one with 'ibol imitation-set RUN... --output FILE'")
    if env != robot:
        raise IbolError(f"the paths in {file} are those of {env!s:.100}, but the robot is {robot}")
    return paths[:, 1:].astype(np.float64), every
