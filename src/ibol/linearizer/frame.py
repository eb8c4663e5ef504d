"""How a linearizer's networks see a state and a goal.

`WorldFrame` shows them as they are. `GoalFrame` turns the world so that the goal direction is the x axis: physics does
not notice where north is, nor (Ant) which leg is the first one. So state and goal of a robot that moves in the plane
can be turned about the vertical until the goal's location part points along +x, and the legs be renamed so that the
robot heads as nearly that way as its symmetries allow. Networks that see this have to learn to walk in one direction
instead of all. Angles in the place of a quaternion (D'Kitty) turn so too while the robot is upright, as it is until an
episode ends; of its heading networks see cosine and sine, in the place of the location, which they do not see.

The reward is kept exactly: differences of states and goals are turned alike, <f, g> = <Tf, Tg>.

Each state is seen in its own view, and within an episode one may follow another: Ant's legs are renamed anew where its
heading leaves the 45 degrees on either side of the goal. Features that are predicted for the next state, T'f, are
brought into the first state's view by T T'^-1. Both views turn the location to the same goal, so that this is one of
few maps: a renaming, the turn that undoes what it does to the location, and a quaternion's sign.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ibol.envs import find_robot
from ibol.envs.robots import Robot, load_model
from ibol.envs.symmetry import Symmetries, symmetries
from ibol.errors import IbolError
from ibol.learners.normalizer import Normalizer
from ibol.learners.sac import FeatureMaps

# Values of a state: x, y, z and a quaternion w, x, y, z come first, or angles about x, y, z.
_W, _X, _Y, _Z = 3, 4, 5, 6
_HEADINGS = {"angles": 5, "yaw": 2}  # where the angle about the vertical is, by the rotation of the robot

ToAction = Callable[[Array], Array]


class Seen(NamedTuple):
    """Transitions as networks see them: states with the goal appended, and what belongs to them."""

    inputs: Array
    next_inputs: Array
    actions: Array
    features: Array
    goals: Array
    next_maps: FeatureMaps | None = None  # of features in the next state's view to the first state's


class View(NamedTuple):
    """How states are turned, arrays of their leading shape."""

    renaming: Array  # which renaming of the legs
    turn: Array  # of the world after it
    cos: Array  # of that turn
    sin: Array
    half_cos: Array  # of half of the turn, with the sign that makes a quaternion's first value positive
    half_sin: Array


class WorldFrame(eqx.Module):
    """States, normalised and without their location, and goals as they are."""

    mean: Array
    std: Array
    keep: Array  # 0 for the location, which is omitted

    def observe(self, raw: Array, goals: Array) -> tuple[Array, ToAction]:
        """What networks see of raw states (..., n) and goals (..., k), and what makes their output the action."""
        return self._inputs((raw - self.mean) / self.std, goals), lambda action: action

    def transitions(self, columns: Mapping[str, Array], goals: Array) -> Seen:
        """Recorded transitions of normalised states for goals."""
        states, after = self._inputs(columns["states"], goals), self._inputs(columns["next_states"], goals)
        return Seen(states, after, columns["actions"], columns["features"], goals)

    def _inputs(self, states: Array, goals: Array) -> Array:
        return jnp.concatenate([states * self.keep, goals], axis=-1)


class GoalFrame(eqx.Module):
    """States and goals turned so that the goal direction is the x axis, and normalised alike for all turns."""

    world: WorldFrame
    mean: Array
    std: Array
    # The robot's symmetries that turn it by an angle without mirroring it.
    angles: Array  # (G,)
    action_index: Array  # (G, m)
    action_sign: Array
    # For each of them and each value of a state where it comes from: counted from 1, negative if its sign changes.
    renamings: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    num_positions: int = eqx.field(static=True)
    heading: int | None = eqx.field(static=True)  # where its angle is; None: it is in a quaternion

    def observe(self, raw: Array, goals: Array) -> tuple[Array, ToAction]:
        """What networks see of raw states (..., n) and goals (..., k), and what makes their output the action."""
        view = self._view(raw, goals)
        order = jnp.argsort(self.action_index[view.renaming], axis=-1)

        def to_action(action: Array) -> Array:
            return jnp.take_along_axis(action * self.action_sign[view.renaming], order, -1)

        return self._inputs(raw, self._goals(goals, view), view), to_action

    def transitions(self, columns: Mapping[str, Array], goals: Array) -> Seen:
        """Recorded transitions of normalised states for goals, each state in the view that the policy acts in."""
        mean, std, k = self.world.mean, self.world.std, goals.shape[-1]
        raw, after = (columns[name] * std + mean for name in ("states", "next_states"))
        view, next_view = self._view(raw, goals), self._view(after, goals)
        turned = self._goals(goals, view)
        actions = jnp.take_along_axis(columns["actions"], self.action_index[view.renaming], -1)
        return Seen(
            inputs=self._inputs(raw, turned, view),
            next_inputs=self._inputs(after, self._goals(goals, next_view), next_view),
            actions=actions * self.action_sign[view.renaming],
            features=self._turn(columns["features"] * std[:k], view) / self.std[:k],
            goals=turned,
            next_maps=FeatureMaps(self._which_map(view, next_view), self._maps(k)),
        )

    def _maps(self, width: int) -> Array:
        """From one view to another of the same goal, (2 G, width, width): each renaming with either sign."""
        count = len(self.angles)
        renaming, sign = jnp.repeat(jnp.arange(count), 2), jnp.tile(jnp.array([1.0, -1.0]), count)
        view = _make_view(renaming[:, None], -self.angles[renaming][:, None], sign[:, None])
        return self._turn(jnp.tile(jnp.eye(width), (2 * count, 1, 1)), view)

    def _which_map(self, to: View, source: View) -> Array:
        """The number of the map between two views of the same goal; deviations are common to all views."""
        angle = self.angles[to.renaming] - self.angles[source.renaming]
        renaming = jnp.argmax(jnp.cos(angle[..., None] - self.angles), axis=-1)
        cos = to.half_cos * source.half_cos + to.half_sin * source.half_sin  # of half of the turn between them
        sin = to.half_sin * source.half_cos - to.half_cos * source.half_sin
        half = -self.angles[renaming] / 2
        return 2 * renaming + (cos * jnp.cos(half) + sin * jnp.sin(half) < 0)

    def _view(self, raw: Array, goals: Array) -> View:
        direction = jnp.arctan2(goals[..., 1] / self.world.std[1], goals[..., 0] / self.world.std[0])
        turning = self.heading is not None
        heading = raw[..., self.heading] if turning else 2 * jnp.arctan2(raw[..., _Z], raw[..., _W])
        # A renaming turns the goal direction and leaves the heading.
        renaming = jnp.argmax(jnp.cos((heading - direction)[..., None] - self.angles), axis=-1)
        turn = -(direction + self.angles[renaming])
        if turning:
            return _make_view(renaming, turn, jnp.ones_like(turn))
        sign = jnp.where(jnp.cos(turn / 2) * raw[..., _W] < jnp.sin(turn / 2) * raw[..., _Z], -1.0, 1.0)
        return _make_view(renaming, turn, sign)

    def _inputs(self, raw: Array, turned: Array, view: View) -> Array:
        seen = (self._turn(raw, view) - self.mean) / self.std * self.world.keep
        if self.heading is not None:
            heading = raw[..., self.heading] + view.turn
            seen = seen.at[..., 0].set(jnp.cos(heading)).at[..., 1].set(jnp.sin(heading)).at[..., self.heading].set(0.0)
        return jnp.concatenate([seen, turned], axis=-1)

    def _goals(self, goals: Array, view: View) -> Array:
        k = goals.shape[-1]
        return self._turn(goals / self.world.std[:k], view) * self.std[:k]

    def _turn(self, values: Array, view: View) -> Array:
        """Rename and turn raw values (..., k), the first of a state."""
        k = values.shape[-1]
        parts = []
        for first, *others in list(zip(*self.renamings, strict=True))[:k]:
            part = _signed(values, first)
            for which, source in enumerate(others, start=1):  # selecting is faster on a CPU than indexing
                part = jnp.where(view.renaming == which, _signed(values, source), part)
            parts.append(part)
        for a, b, half in turning_pairs(self.num_positions, self.heading):
            if b < k:
                cos, sin = (view.half_cos, view.half_sin) if half else (view.cos, view.sin)
                parts[a], parts[b] = cos * parts[a] - sin * parts[b], sin * parts[a] + cos * parts[b]
        return jnp.stack(parts, axis=-1)


Frame = WorldFrame | GoalFrame


def _signed(values: Array, source: int) -> Array:
    """The value of a number counted from 1, with its sign."""
    return values[..., source - 1] if source > 0 else -values[..., -source - 1]


def _make_view(renaming: Array, turn: Array, sign: Array) -> View:
    cos, sin = jnp.cos(turn / 2), jnp.sin(turn / 2)
    return View(renaming, turn, jnp.cos(turn), jnp.sin(turn), sign * cos, sign * sin)


@jax.jit
def seen_transitions(frame: Frame, columns: Mapping[str, Array], goals: Array) -> Seen:
    """`frame.transitions`, compiled."""
    return frame.transitions(columns, goals)


def world_frame(normalizer: Normalizer, location_dims: tuple[int, ...]) -> WorldFrame:
    """The plain view."""
    keep = np.ones(len(normalizer.mean), np.float32)
    keep[list(location_dims)] = 0.0
    std = jnp.asarray(normalizer.std + 1e-8, jnp.float32)
    return WorldFrame(jnp.asarray(normalizer.mean, jnp.float32), std, jnp.asarray(keep))


def goal_frame(env: str, normalizer: Normalizer, robot: Robot | None = None) -> GoalFrame:
    """The view of a robot from its goal; without one it is that which the environment is known to have."""
    robot = robot or find_robot(env)
    if robot is None or not has_goal_frame(robot):
        raise IbolError(f"frame goal needs a robot that moves in the plane, and {env} does not")
    model = load_model(robot)
    group, num_positions, heading = symmetries(robot, model), int(model.nq), _HEADINGS.get(robot.rotation)
    mean, std = _common_statistics(group, normalizer, turning_pairs(num_positions, heading))
    # Where each symmetry takes the x and the y axis.
    x_to, y_to = ((group.state_sign * (group.state_index == axis))[:, :2] for axis in (0, 1))
    sources = group.state_sign.astype(int) * (group.state_index + 1)
    turns = x_to[:, 0] * y_to[:, 1] > x_to[:, 1] * y_to[:, 0]
    return GoalFrame(
        world=world_frame(normalizer, robot.location_dims),
        mean=jnp.asarray(mean, jnp.float32),
        std=jnp.asarray(std, jnp.float32),
        angles=jnp.asarray(np.arctan2(x_to[turns, 1], x_to[turns, 0]), jnp.float32),
        action_index=jnp.asarray(group.action_index[turns]),
        action_sign=jnp.asarray(group.action_sign[turns]),
        renamings=tuple(map(tuple, sources[turns].tolist())),
        num_positions=num_positions,
        heading=heading,
    )


def has_goal_frame(robot: Robot) -> bool:
    """Whether a robot moves in the plane and turns in a way that the goal frame knows."""
    return robot.location_dims == (0, 1) and robot.rotation in ("quaternion", *_HEADINGS)


def turning_pairs(num_positions: int, heading: int | None) -> list[tuple[int, int, bool]]:
    """Pairs of values that a turn about the vertical mixes, and whether by half of its angle, as quaternions."""
    if heading == _HEADINGS["angles"]:
        return [(0, 1, False), (3, 4, False)]
    if heading is not None:
        return [(0, 1, False), (num_positions, num_positions + 1, False)]
    return [(0, 1, False), (num_positions, num_positions + 1, False), (_W, _Z, True), (_X, _Y, True)]


def _common_statistics(
    group: Symmetries, normalizer: Normalizer, pairs: list[tuple[int, int, bool]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and deviations that neither a renaming nor a turn changes; the heading is near 0 once turned."""
    mean = (group.state_sign * normalizer.mean[group.state_index]).mean(axis=0)
    variance = (normalizer.std[group.state_index] ** 2).mean(axis=0)
    for a, b, half in pairs:
        variance[[a, b]] = variance[[a, b]].mean()
        mean[[a, b]] = mean[a] if half and a == _W else 0.0, 0.0
    return mean, np.sqrt(variance)
