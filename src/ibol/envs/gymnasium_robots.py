"""The MuJoCo robots of Gymnasium (v5), stepped in a batch instead of one by one.

The state is qpos and qvel, with the location that Gymnasium leaves out of its observations. Physics, rewards and
terminations are those of Gymnasium's own environments (`tests/test_native_gym.py` compares them). As there, positions
of bodies that a reward needs are one physics step behind the state (`mj_step` leaves them there).
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from ibol.envs.base import Bools, Floats, Ints
from ibol.envs.lean import lean_model
from ibol.envs.robot_env import RobotEnv
from ibol.envs.robots import Robot
from ibol.errors import IbolError

_INFINITE = float("inf")
_VIEWS = ("_lean", "_derived", "_forces")  # made anew in a copy

ARGUMENTS = {
    "forward_reward_weight": "forward_weight",
    "ctrl_cost_weight": "control_cost",
    "healthy_reward": "alive_reward",
    "reset_noise_scale": "noise",
    "frame_skip": "frame_skip",
    "terminate_when_unhealthy": "terminate",
}
"""Arguments of Gymnasium's environments that the batch understands, too, and what they set."""


class GymnasiumRobotEnv(RobotEnv):
    """A robot whose reward is that of `RobotEnv`, but for staying healthy only where it is.

    `env_kwargs` are some arguments of Gymnasium's environment (`ARGUMENTS`).
    """

    derived: tuple[str, ...] = ()
    """What of MuJoCo's data the rewards need besides the state."""
    persistent = False  # whether each simulation has an MjData of its own, for what a batch does not compute

    def __init__(self, robot: Robot, *, env_kwargs: Mapping[str, Any] | None = None, **options: Any) -> None:
        given = dict(env_kwargs or {})
        if "terminate_when_unhealthy" in given:
            options = {"terminate": given.pop("terminate_when_unhealthy"), **options}
        super().__init__(with_arguments(robot, given), **options)

    def _simulate(self, num_threads: int) -> None:
        self._lean = lean_model(self.robot, self.model)
        super()._simulate(num_threads)
        if not self._lean.nu:
            joints = self.model.actuator_trnid[:, 0]
            self._motors, self._gears = self.model.jnt_dofadr[joints], self.model.actuator_gear[:, 0]
            self._forces = self._batch.bind("qfrc_applied")
        self._derived = {name: self._batch.bind(name) for name in self.derived}

    def _make_batch(self, num_threads: int) -> Batch:
        return Batch(self._lean, self.num_envs, num_threads, persistent=self.persistent)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in _VIEWS}

    def _reset(self, ids: Ints) -> Floats:
        states = super()._reset(ids)
        self._batch.forward(ids)  # as Gymnasium does: the solver starts from what it finds here
        return states

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        reward = super()._rewards(x_before, ctrl, unhealthy)
        if self.robot.alive_reward and self.robot.healthy:
            reward = reward - self.robot.alive_reward * unhealthy
        return np.asarray(reward)

    def _drive(self, ctrl: Floats) -> None:
        if self._lean.nu:
            super()._drive(ctrl)
        else:
            self._forces[:, self._motors] = ctrl * self._gears

    def _body(self, name: str) -> Floats:
        """Positions (N, 3) of a body."""
        return self._derived["xpos"][:, mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name)]

    def _effort(self, ctrl: Floats) -> Floats:
        return np.asarray(self.robot.control_cost * np.einsum("ij,ij->i", ctrl, ctrl))


class ReacherEnv(GymnasiumRobotEnv):
    """An arm in a horizontal plane, and a target within its reach."""

    derived = ("xpos",)

    def _place(self, state: Floats, ids: Ints) -> None:
        for row, i in enumerate(ids):
            target = self._rngs[i].uniform(-0.2, 0.2, 2)
            while np.linalg.norm(target) >= 0.2:
                target = self._rngs[i].uniform(-0.2, 0.2, 2)
            state[row, 2:4], state[row, -2:] = target, 0.0

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        far = np.linalg.norm(self._body("fingertip") - self._body("target"), axis=1)
        return np.asarray(-far - self._effort(ctrl))


class PusherEnv(GymnasiumRobotEnv):
    """An arm, a cylinder on a table, and where it should be."""

    derived = ("xpos",)

    def _place(self, state: Floats, ids: Ints) -> None:
        for row, i in enumerate(ids):
            place = np.zeros(2)
            while np.linalg.norm(place) <= 0.17:
                place = np.array([self._rngs[i].uniform(-0.3, 0.0), self._rngs[i].uniform(-0.2, 0.2)])
            state[row, 7:9], state[row, 9:11], state[row, -4:] = place, 0.0, 0.0

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        thing = self._body("object")
        near = np.linalg.norm(thing - self._body("tips_arm"), axis=1)
        far = np.linalg.norm(thing - self._body("goal"), axis=1)
        return np.asarray(-far - self._effort(ctrl) - 0.5 * near)


class PendulumEnv(GymnasiumRobotEnv):
    """A cart with a pole: 1 for each step in which the pole stands."""

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        return np.asarray(1.0 - unhealthy, np.float64)


class DoublePendulumEnv(GymnasiumRobotEnv):
    """A cart with a pole on a pole."""

    derived = ("site_xpos",)

    def _unhealthy(self) -> Bools:
        return np.asarray(self._derived["site_xpos"][:, 0, 2] <= 1)

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        x, height = self._derived["site_xpos"][:, 0, 0], self._derived["site_xpos"][:, 0, 2]
        first, second = self._state[:, self._nq + 1], self._state[:, self._nq + 2]
        alive = self.robot.alive_reward * ~unhealthy
        return np.asarray(alive - 0.01 * x**2 - (height - 2) ** 2 - 1e-3 * first**2 - 5e-3 * second**2)


class ContactEnv(GymnasiumRobotEnv):
    """Robots whose reward has a cost of contact forces, and the velocity of what `_middle` says."""

    derived = ("xpos", "xipos")
    persistent = True
    contact_weight, contact_clip, most = 5e-4, 1.0, _INFINITE

    def _simulate(self, num_threads: int) -> None:
        super()._simulate(num_threads)
        self._scratch = mujoco.MjData(self._lean)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_scratch"}

    def _middle(self) -> Floats:
        """What moves, x (N,): the torso."""
        return self._body("torso")[:, 0].copy()

    def _reset(self, ids: Ints) -> Floats:
        states = super()._reset(ids)
        if not hasattr(self, "_before"):
            self._before = self._middle()
        self._before[ids] = self._middle()[ids]
        return states

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        robot, now = self.robot, self._middle()
        velocity, self._before = (now - self._before) / self.dt, now
        alive = robot.alive_reward * ~unhealthy
        return np.asarray(robot.forward_weight * velocity + alive - self._effort(ctrl) - self._contact_cost())

    def _contact_cost(self) -> Floats:
        """Costs (N,) of the forces on all bodies, which only a whole MjData has."""
        cost = np.zeros(self.num_envs)
        for i in np.flatnonzero(~(self._terminated | self._truncated)):
            self._batch.get_data(int(i), self._scratch)
            mujoco.mj_rnePostConstraint(self._lean, self._scratch)
            forces = np.clip(self._scratch.cfrc_ext, -self.contact_clip, self.contact_clip)
            cost[i] = min(self.contact_weight * np.sum(np.square(forces)), self.most)
        return cost


class HumanoidEnv(ContactEnv):
    """A humanoid, whose centre of mass is to move."""

    contact_weight, contact_clip, most = 5e-7, _INFINITE, 10.0

    def _middle(self) -> Floats:
        mass = self.model.body_mass
        return np.einsum("b,nb->n", mass, self._derived["xipos"][:, :, 0]) / mass.sum()


class StandupEnv(HumanoidEnv):
    """A humanoid that lies and is to stand up."""

    contact_weight = 5e-7

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        height = self._qpos[:, 2] / self.model.opt.timestep
        return np.asarray(height - self._effort(ctrl) - self._contact_cost() + 1)


def with_arguments(robot: Robot, given: Mapping[str, Any]) -> Robot:
    """The robot with arguments of Gymnasium's environment."""
    changes: dict[str, Any] = {}
    for name, value in given.items():
        field = ARGUMENTS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _INFINITE:
            raise IbolError(f"{name} in env_kwargs is {value!r}, but a number is needed")
        if field == "frame_skip" and (not isinstance(value, int) or value < 1):
            raise IbolError(f"frame_skip in env_kwargs is {value!r}, but a whole number of at least 1 is needed")
        changes |= {"qpos_noise": value, "qvel_noise": value} if field == "noise" else {field: value}
    return dataclasses.replace(robot, **changes)


def _gymnasium(
    name: str, summary: str, model_file: str, num_positions: int, frame_skip: int, *, noise: float, **more: Any
) -> Robot:
    values: dict[str, Any] = {
        "horizon": 1000, "qpos_noise": noise, "qvel_noise": noise, "qvel_noise_is_normal": False, "location_dims": (0,),
        **more,
    }  # fmt: skip
    return Robot(name, summary, model_file, num_positions, frame_skip, **values)


_HUMANOID_MIRROR = ((1, -2, 3), (-1, 2, -3), (-1, 2, -3, 8, 9, 10, 11, 4, 5, 6, 7, -15, -16, 17, -12, -13, 14))
_HOPPING = tuple((i, -100.0, 100.0) for i in range(2, 12))

_ROBOTS: tuple[tuple[Robot, type[GymnasiumRobotEnv]], ...] = (
    (
        _gymnasium(
            "Ant-v5", "four-legged, as Gymnasium has it", "ant.xml", 15, 5, noise=0.1, qvel_noise_is_normal=True,
            location_dims=(0, 1), rotation="quaternion", fallen="upside_down", control_cost=0.5, alive_reward=1.0,
            healthy=((2, 0.2, 1.0),), camera=(90.0, -40.0, 6.0), goal_range=20.0,
            symmetry_generators=(
                ((-2, 1, 3), (-2, 1, 3), (7, 8, 1, -2, 3, 4, 5, -6)),
                ((1, -2, 3), (-1, 2, -3), (-7, 8, -5, 6, -3, 4, -1, 2)),
            ),
        ),
        ContactEnv,
    ),
    (
        _gymnasium(
            "HalfCheetah-v5", "two-legged runner, as Gymnasium has it", "half_cheetah.xml", 9, 5, noise=0.1,
            qvel_noise_is_normal=True, control_cost=0.1, total_mass=14.0, goal_range=20.0,
        ),
        GymnasiumRobotEnv,
    ),
    (
        _gymnasium(
            "Hopper-v5", "one-legged hopper, as Gymnasium has it", "hopper.xml", 6, 4, noise=5e-3, control_cost=1e-3,
            alive_reward=1.0, velocity_clip=10.0, fallen="lying",
            healthy=((1, 0.7, _INFINITE), (2, -0.2, 0.2), *_HOPPING),
        ),
        GymnasiumRobotEnv,
    ),
    (
        _gymnasium(
            "Humanoid-v5", "two-legged humanoid, as Gymnasium has it", "humanoid.xml", 24, 5, noise=0.01,
            location_dims=(0, 1), rotation="quaternion", fallen="upside_down", control_cost=0.1, alive_reward=5.0,
            forward_weight=1.25, healthy=((2, 1.0, 2.0),), camera=(90.0, -25.0, 5.0),
            symmetry_generators=(_HUMANOID_MIRROR,),
        ),
        HumanoidEnv,
    ),
    (
        _gymnasium(
            "HumanoidStandup-v5", "a humanoid that lies", "humanoidstandup.xml", 24, 5, noise=0.01,
            location_dims=(0, 1), rotation="quaternion", control_cost=0.1, camera=(90.0, -25.0, 5.0),
            symmetry_generators=(_HUMANOID_MIRROR,),
        ),
        StandupEnv,
    ),
    (
        _gymnasium(
            "InvertedDoublePendulum-v5", "a cart with a pole on a pole", "inverted_double_pendulum.xml", 3, 5,
            noise=0.1, qvel_noise_is_normal=True, control_cost=0.0, alive_reward=10.0, goal_range=1.0,
        ),
        DoublePendulumEnv,
    ),
    (
        _gymnasium(
            "InvertedPendulum-v5", "a cart with a pole", "inverted_pendulum.xml", 2, 2, noise=0.01, control_cost=0.0,
            healthy=((1, -0.2, 0.2),), goal_range=1.0,
        ),
        PendulumEnv,
    ),
    (
        _gymnasium(
            "Pusher-v5", "an arm and a cylinder, whose place is the location", "pusher_v5.xml", 11, 5, noise=0.0,
            qvel_noise=5e-3, horizon=100, location_dims=(8, 7), rotation="none", control_cost=0.1, goal_range=0.3,
            camera=(90.0, -45.0, 3.0), square=0.5,
        ),
        PusherEnv,
    ),
    (
        _gymnasium(
            "Reacher-v5", "an arm in a plane, whose two angles are the location", "reacher.xml", 4, 2, noise=0.1,
            qvel_noise=5e-3, horizon=50, location_dims=(0, 1), rotation="none", control_cost=1.0, goal_range=2.0,
            camera=(90.0, -60.0, 0.9), square=0.1,
        ),
        ReacherEnv,
    ),
    (
        _gymnasium(
            "Swimmer-v5", "three links that swim in the plane", "swimmer.xml", 5, 4, noise=0.1, location_dims=(0, 1),
            rotation="yaw", control_cost=1e-4, camera=(90.0, -60.0, 8.0),
            symmetry_generators=(((1, -2), (-1,), (-1, -2)),),
        ),
        GymnasiumRobotEnv,
    ),
    (
        _gymnasium(
            "Walker2d-v5", "two-legged walker in a vertical plane", "walker2d_v5.xml", 9, 4, noise=5e-3,
            control_cost=1e-3, alive_reward=1.0, velocity_clip=10.0, fallen="lying",
            healthy=((1, 0.8, 2.0), (2, -1.0, 1.0)), camera=(90.0, -12.0, 5.0),
        ),
        GymnasiumRobotEnv,
    ),
)  # fmt: skip

ROBOTS = {robot.name: robot for robot, _ in _ROBOTS}
BUILD = {robot.name: partial(kind, robot) for robot, kind in _ROBOTS}
