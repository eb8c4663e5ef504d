"""How well a linearizer does what it is for: does the robot go where the goal points, how far, and where can it get?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ibol import memory
from ibol.bounds import whole_number
from ibol.envs.robots import has_fallen
from ibol.errors import IbolError
from ibol.learners.rollout import Trajectories
from ibol.linearizer.policy import Linearizer
from ibol.linearizer.reward import sample_goals
from ibol.robots.kept import is_marked
from ibol.seeding import generator

DIRECTIONS = 16
ROLLOUTS = 4
GOAL_VALUES = 32


@dataclass(frozen=True)
class LinearizerEvaluation:
    """Roll-outs with goals along the location dimensions only, and what they say."""

    goals: NDArray[np.float32]  # (N, d), the goals' location part: all of them once, then all again ...
    trajectories: Trajectories
    location_dims: tuple[int, ...]
    fallen: float | None  # the fraction of robots that cannot move on at the end, for those that fall

    @property
    def moved(self) -> NDArray[np.float32]:
        """(N, d), from the first to the last location."""
        paths = self.trajectories.states[:, :, list(self.location_dims)]
        return paths[:, -1] - paths[:, 0]

    def scalars(self) -> dict[str, float]:
        """Metres for goals of full length; in 2-D the angle between goal and path, in 1-D the order of the outcomes.

        `reach` is what makes one linearizer better than another: metres along the goal, in 1-D the geometric mean of
        forward and backward.
        """
        fallen = {} if self.fallen is None else {"fallen": self.fallen}
        if self.goals.shape[1] == 1:
            goal, moved = self.goals[:, 0], self.moved[:, 0]
            forward, backward = float(moved[goal == 1.0].mean()), float(moved[goal == -1.0].mean())
            repeats = zip(goal.reshape(ROLLOUTS, -1), moved.reshape(ROLLOUTS, -1), strict=True)
            return {
                "distance": (forward - backward) / 2,
                "reach": float(np.sqrt(max(forward, 0.0) * max(-backward, 0.0))),
                "forward": forward,
                "backward": backward,
                "rank_correlation": float(np.mean([rank_correlation(*pair) for pair in repeats])),
                **fallen,
            }
        lengths = np.linalg.norm(self.moved, axis=1)
        along = (self.goals * self.moved).sum(axis=1) / np.linalg.norm(self.goals, axis=1)
        by_direction = lengths.reshape(ROLLOUTS, DIRECTIONS).mean(axis=0)
        return {
            "distance": float(lengths.mean()),
            "reach": float(along.mean()),
            "shortest_direction": float(by_direction.min()),
            "direction_error": float(np.degrees(angles(self.goals, self.moved)).mean()),
            **fallen,
        }


def evaluate_linearizer(linearizer: Linearizer, *, seed: int = 0) -> LinearizerEvaluation:
    """In 2-D 16 directions, in 1-D 32 goal values from -1 to 1; 4 roll-outs each."""
    dims = linearizer.description.location_dims
    check_directions(linearizer.env, dims)
    if len(dims) == 1:
        along = np.linspace(-1.0, 1.0, GOAL_VALUES)[:, None]
    else:
        angle = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
        along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    along = np.tile(along, (ROLLOUTS, 1))
    goals = np.zeros((len(along), linearizer.goal_dim), np.float32)
    goals[:, list(dims)] = along
    trajectories = linearizer.rollout(goals, seed=seed)
    robot, fallen = linearizer.env_settings.robot(linearizer.env), None
    if robot is not None and robot.fallen != "never":
        fallen = float(has_fallen(robot, trajectories.states[:, -1]).mean())
    return LinearizerEvaluation(along.astype(np.float32), trajectories, dims, fallen)


def check_directions(env: str, location_dims: tuple[int, ...]) -> None:
    """Refuse an environment whose location has no directions that linearizers are evaluated in."""
    if len(location_dims) not in (1, 2):
        name = "location in its TOML file" if is_marked(env) else "--location-dims"
        raise IbolError(
            f"{env} has {len(location_dims)} location dimensions, but linearizers are evaluated in 1 or 2: "
            f"name them with {name}, or train without evaluations (--evaluate-every 0)"
        )


def random_goal_paths(
    linearizer: Linearizer, *, trajectories: int = 2000, goal_beta: float = 1.0, seed: int = 0
) -> NDArray[np.float32]:
    """Locations (N, T + 1, d) under random location goals, all other goal dimensions 0."""
    dims = list(linearizer.description.location_dims)
    trajectories = whole_number("trajectories", trajectories)
    if not 0 < goal_beta < np.inf:
        raise IbolError(f"goal_beta is {goal_beta:g}, but more than 0 is needed")
    memory.check(4 * trajectories * linearizer.goal_dim, f"{trajectories} trajectories", "choose fewer --trajectories")
    goals = np.zeros((trajectories, linearizer.goal_dim), np.float32)
    goals[:, dims] = sample_goals(generator(seed, "coverage"), trajectories, len(dims), beta=goal_beta)
    return linearizer.rollout(goals, seed=seed).states[:, :, dims]


def angles(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The angle between each pair of plane vectors, in radians from 0 to pi."""
    cross, dot = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], (a * b).sum(axis=1)
    return np.abs(np.arctan2(cross, dot))


def rank_correlation(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Spearman's rank correlation of values without ties."""
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])
