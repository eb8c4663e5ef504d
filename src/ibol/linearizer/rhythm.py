"""Exploration by open-loop gaits, called rhythms: legs that swing in time walk far more often than legs that tremble.

White noise hardly ever lifts the foot of a robot with many joints and slow servos. A rhythm is an open-loop movement: a
sine of its own in each joint, all of one frequency. Those that moved the robot farthest are kept, some for each
direction, and varied for the next episodes with a goal in that direction. Their transitions go into the replay buffer
as the policy's own do.

The policy also imitates the best of them: for a goal along the path of the next steps, do what the rhythm does. An
imitated gait falls apart unless it recovers from small errors. So rhythms are disturbed while they are recorded, and
imitation takes what they meant to do from states that are blurred.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ibol.envs.symmetry import Symmetries
from ibol.learners import adam, sac
from ibol.learners.replay import Columns
from ibol.learners.rollout import Trajectories
from ibol.runs.checkpoint import Arrays

DISTURBANCE = 0.1  # standard deviation of what is added to a rhythm's actions
BLUR = 0.2  # of what is added to normalised states that are imitated from

_KEPT = 4  # rhythms for each direction
_FRESH = 0.2  # of the rhythms are drawn anew instead of varied
_OFFSET = 0.3  # standard deviation of the joints' middle positions
_NEW_CYCLES = (0.05, 0.3)  # a step, of new rhythms
_CYCLES = (0.03, 0.35)  # and of varied ones
_AHEAD = 15  # steps whose movement is the direction of the first of them
_CHANGES = {"offset": 0.1, "amplitude": 0.1, "phase": 0.3, "cycles": 0.015}  # standard deviations of a variation
_CHANGED = (0.1, 0.3, 1.0)  # chances of a value to be changed, one of them for each variation
_STRENGTHS = (0.5, 1.0, 2.0)  # and what its changes are multiplied by

Floats = NDArray[np.float64]


class Rhythms:
    """Rhythms of a robot whose first symmetry but the identity is the mirror, and the best of them so far.

    A rhythm is a row: offsets, amplitudes and phases of the m joints, and cycles in a step.
    """

    def __init__(self, mirror: Symmetries, locations: int) -> None:
        self.mirror = mirror
        self.joints = mirror.action_index.shape[1]
        angles = np.arange(8) * np.pi / 4
        self.directions = np.array([[1.0], [-1.0]]) if locations == 1 else np.stack([np.cos(angles), np.sin(angles)], 1)
        self.kept: Columns = {}  # of the best, (directions, _KEPT, ...): what they are, their states and directions
        self.reach = np.zeros((len(self.directions), _KEPT))  # metres along the direction; 0: none is kept yet
        self.changes = np.repeat(list(_CHANGES.values()), [self.joints] * 3 + [1])

    def draw(self, rng: np.random.Generator, goals: NDArray[np.floating]) -> Floats:
        """A rhythm for each goal (N, locations): one that moved in its direction, varied, or a new one."""
        rhythms = self._new(rng, len(goals))
        any_direction = rng.integers(len(self.directions), size=len(goals))
        asked = np.where(goals.any(axis=1), (goals @ self.directions.T).argmax(axis=1), any_direction)
        for row, direction in enumerate(asked):
            known = np.flatnonzero(self.reach[direction])
            if len(known) and rng.random() > _FRESH:
                changed = rng.random(rhythms.shape[1]) < rng.choice(_CHANGED)
                change = rng.choice(_STRENGTHS) * self.changes * rng.standard_normal(rhythms.shape[1])
                rhythms[row] = self.kept["rhythm"][direction, rng.choice(known)] + changed * change
        rhythms[:, -1] = rhythms[:, -1].clip(*_CYCLES)
        return rhythms

    def actions(self, rhythms: Floats, step: int | NDArray[np.int64]) -> Floats:
        """What rhythms (N, ...) do at a step, or each at its own (N, 1): (N, m)."""
        offset, amplitude, phase = rhythms[:, :-1].reshape(len(rhythms), 3, self.joints).swapaxes(0, 1)
        return np.clip(offset + amplitude * np.sin(2 * np.pi * rhythms[:, -1:] * step + phase), -1, 1)

    def learn(self, rhythms: Floats, trajectories: Trajectories, dims: list[int]) -> None:
        """Keep the best of N: those that moved the robot's location `dims` farthest, times the fraction it lived."""
        count, horizon = len(rhythms), trajectories.actions.shape[1]
        places, lengths = trajectories.states[:count, :, dims], trajectories.lengths[:count]
        made: Columns = {
            "rhythm": rhythms,
            "states": trajectories.states[:count, :-1],
            "directions": _local_directions(places, lengths),
        }
        if not self.kept:
            shape = (len(self.directions), _KEPT)
            self.kept = {name: np.zeros((*shape, *values.shape[1:]), values.dtype) for name, values in made.items()}
        reach = self.directions @ (places[:, -1] - places[:, 0]).T * (lengths / horizon)  # (directions, N)
        for direction, now in enumerate(reach):
            scores = np.concatenate([self.reach[direction], now.clip(min=0)])
            first = (-scores).argsort(kind="stable")[:_KEPT]
            self.reach[direction] = scores[first]
            for name, values in made.items():
                self.kept[name][direction] = np.concatenate([self.kept[name][direction], values])[first]

    def moving_steps(self) -> NDArray[np.int64]:
        """The numbers (M, 3) of direction, place and step of whatever kept rhythms moved the robot with, if any did."""
        if not self.kept:
            return np.zeros((0, 3), np.int64)
        return np.argwhere(self.kept["directions"].any(axis=-1) & (self.reach > 0)[..., None])

    def examples(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Floats]:
        """Raw states and actions of steps of the best rhythms, at random, and their directions (unit vectors)."""
        steps = self.moving_steps()
        kept_for, place, step = steps[rng.integers(len(steps), size=count)].T
        states, directions = (self.kept[name][kept_for, place, step] for name in ("states", "directions"))
        return states, self.actions(self.kept["rhythm"][kept_for, place], step[:, None]), directions

    def _new(self, rng: np.random.Generator, count: int) -> Floats:
        """Random ones whose mirror image is the same half a period later."""
        shape = (count, self.joints)
        index, sign = self.mirror.action_index[1], self.mirror.action_sign[1]
        offset = _OFFSET * rng.standard_normal(shape)
        amplitude = rng.uniform(0, 1, (count, 1)) * rng.uniform(0, 1, shape)
        phase = rng.uniform(0, 2 * np.pi, shape)
        follows = index < np.arange(self.joints)  # the second of a pair
        offset = np.where(follows, sign * offset[:, index], offset)
        amplitude = np.where(follows, sign * amplitude[:, index], amplitude)
        phase = np.where(follows, phase[:, index] + np.pi, phase)
        return np.concatenate([offset, amplitude, phase, rng.uniform(*_NEW_CYCLES, (count, 1))], axis=1)

    def state(self) -> Arrays:
        """The best rhythms by name."""
        return {"rhythms/reach": self.reach, **{f"rhythms/kept/{name}": kept for name, kept in self.kept.items()}}

    def restore(self, arrays: Arrays) -> None:
        """Continue from what `state` gave."""
        prefix = "rhythms/kept/"
        self.reach = arrays["rhythms/reach"].copy()
        self.kept = {name.removeprefix(prefix): kept.copy() for name, kept in arrays.items() if name.startswith(prefix)}


def _local_directions(places: NDArray[np.floating], lengths: NDArray[np.int64]) -> Floats:
    """Unit vectors of where each step of episodes (N, T + 1, k) and the next few moved; 0 where they hardly did."""
    steps = np.arange(places.shape[1] - 1)
    later = np.minimum(steps + _AHEAD, lengths[:, None])
    moved = places[np.arange(len(places))[:, None], later] - places[:, :-1]
    far = np.linalg.norm(moved, axis=-1, keepdims=True)
    whole = (steps + _AHEAD <= lengths[:, None])[..., None]
    return np.where(whole & (far > 0.5 * far.mean(axis=1, keepdims=True)), moved / np.maximum(far, 1e-9), 0.0)


@partial(jax.jit, static_argnames="learning_rate")
def imitate(
    policy: sac.Policy, optimizer: Any, inputs: jax.Array, actions: jax.Array, learning_rate: float, decay: float
) -> tuple[sac.Policy, Any, jax.Array]:
    """A step of the policy's mode towards the actions of each minibatch (steps, batch, ...), and the mean loss."""

    def step(carry: tuple[sac.Policy, Any], batch: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        def loss(policy: sac.Policy) -> jax.Array:
            return jnp.mean((policy(batch[0]).mode - batch[1]) ** 2)

        value, gradients = jax.value_and_grad(loss)(carry[0])
        return adam.descend(learning_rate, carry[0], gradients, carry[1], decay), value

    (policy, optimizer), losses = jax.lax.scan(step, (policy, optimizer), (inputs, actions))
    return policy, optimizer, losses.mean()
