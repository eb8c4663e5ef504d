"""The D'Kitty: a robot with servos whose dynamics are drawn anew for every episode."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from ibol.bounds import yes_or_no
from ibol.envs.base import Floats, Ints
from ibol.envs.checks import check_copies
from ibol.envs.robot_env import RobotEnv
from ibol.envs.robots import model_path

LEGS = 12  # joints, after the root's 6; in order front right, front left, back left, back right: hip, upper, lower
_ROOT = 6
_MAX_SPEED = np.pi  # rad/s of a servo's target

Range = tuple[float, float]


@dataclass(frozen=True)
class Ranges:
    """Where each episode's dynamics are drawn from, uniformly; one value for all joints, actuators or geoms."""

    damping: Range = (0.1, 0.2)
    friction_loss: Range = (0.001, 0.005)
    gain: Range = (2.8, 3.2)
    slide: Range = (0.8, 1.2)
    """Friction of all geoms, the floor's too; so are the two that follow."""
    spin: Range = (0.003, 0.007)
    roll: Range = (5e-5, 1.5e-4)
    mass: Range = (1.6, 2.0)
    """Of the whole robot, kg."""
    height: Range = (0.0, 0.02)
    """Of each sample of the height field, m."""


RANGES = Ranges()


class DKittyEnv(RobotEnv):
    """`num_envs` D'Kitties, each with dynamics of its own, drawn anew for every episode.

    The state is root position, root angles, leg angles, leg velocities, last action and how upright it is. An action
    is a target in the servos' working range; a servo's target runs ahead of its joint by no more than it can turn
    within a step. With `randomize=False` all episodes have the model file's dynamics, on flat ground.
    """

    extra_dims = 7  # 12 of the last action and 1 of uprightness, without the root's 6 velocities

    def __init__(self, *args: Any, randomize: bool = True, **options: Any) -> None:
        self._models: list[Any] = []
        super().__init__(*args, **options)
        self.max_lead = _MAX_SPEED * self.dt
        self._scratch = mujoco.MjData(self.model)
        self.randomize = yes_or_no("randomize", randomize)
        if self.randomize:
            check_copies(self.name, self.num_envs, mujoco.mj_sizeModel(self.model))
            self._models = [copy.copy(self.model) for _ in range(self.num_envs)]
            self._batch.set_models(self._models)

    def _simulate(self, num_threads: int) -> None:
        super()._simulate(num_threads)
        if self._models:
            self._batch.set_models(self._models)

    def control_range(self) -> tuple[Floats, Floats]:
        """The joint angles that actions -1 and 1 ask for."""
        return working_range()

    def model_file(self) -> tuple[str, float | None]:
        """The model file; where dynamics are drawn anew, that of the middle of their ranges, on flat ground."""
        if not self._models:
            return super().model_file()
        spec = mujoco.MjSpec.from_file(str(model_path(self.robot)))
        middle = Ranges(**{name: (sum(ends) / 2,) * 2 for name, ends in vars(RANGES).items()})
        for joint in spec.joints[_ROOT:]:
            joint.damping[0], joint.frictionloss = middle.damping[0], middle.friction_loss[0]
        for actuator in spec.actuators:
            actuator.gainprm[0], actuator.biasprm[1] = middle.gain[0], -middle.gain[0]
        for geom in spec.geoms:
            geom.friction = middle.slide[0], middle.spin[0], middle.roll[0]
        spec.compile()
        return spec.to_xml(), middle.mass[0]

    def layout(self) -> list[tuple[str, int]]:
        """Root, leg angles, leg velocities, the last action, and how upright it is."""
        legs = [("qvel", _ROOT + i) for i in range(LEGS)]
        actions = [("action", i) for i in range(LEGS)]
        return [*(("qpos", i) for i in range(self._nq)), *legs, *actions, ("upright", 0)]

    def dynamics(self, i: int) -> Any:
        """The `mujoco.MjModel` that environment `i` runs on in its present episode."""
        return self._models[i] if self._models else self.model

    def _reset(self, ids: Ints) -> Floats:
        if self._models:
            for i in ids:
                draw_dynamics(self._models[i], self.model, self._rngs[i], self._scratch)
            self._batch.set_models(self._models)  # asked for after changes
        return super()._reset(ids)

    def _controls(self, actions: Floats) -> Floats:
        joints, ahead = self._qpos[:, _ROOT:], self.max_lead
        return np.clip(super()._controls(actions), joints - ahead, joints + ahead)

    def _observation(self, state: Floats, actions: Floats) -> Floats:
        qpos, legs = state[:, : self._nq], state[:, self._nq + _ROOT :]
        upright = np.cos(qpos[:, 3:4]) * np.cos(qpos[:, 4:5])
        return np.concatenate([qpos, legs, actions, upright], axis=1)


def working_range() -> tuple[Floats, Floats]:
    """The joint angles that actions -1 and 1 ask for."""
    upper, lower = (0.0, np.pi / 2), (-2.0, 0.0)
    right, left = ((-0.5, 0.279), upper, lower), ((-0.279, 0.5), upper, lower)
    low, high = np.array([*right, *left, *left, *right]).T
    return low, high


def draw_dynamics(model: Any, original: Any, rng: np.random.Generator, scratch: Any) -> None:
    """Give `model`, a copy of `original`, dynamics of its own; `scratch` is any `mujoco.MjData` of it."""
    _set_dynamics(model, original, rng.uniform)
    low, high = np.array(RANGES.height) / model.hfield_size[0, 2]
    model.hfield_data[:] = low + (high - low) * rng.random(model.nhfielddata, np.float32)
    mujoco.mj_setConst(model, scratch)


def middle_dynamics(original: Any) -> Any:
    """A copy of a D'Kitty's model with the middle of all ranges, on flat ground."""
    model = copy.copy(original)
    _set_dynamics(model, original, lambda low, high: (low + high) / 2)
    mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


def _set_dynamics(model: Any, original: Any, draw: Callable[[float, float], float]) -> None:
    model.dof_damping[_ROOT:] = draw(*RANGES.damping)
    model.dof_frictionloss[_ROOT:] = draw(*RANGES.friction_loss)
    gain = draw(*RANGES.gain)
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1] = gain, -gain
    model.geom_friction[:] = draw(*RANGES.slide), draw(*RANGES.spin), draw(*RANGES.roll)
    heavier = draw(*RANGES.mass) / original.body_mass.sum()
    model.body_mass[:], model.body_inertia[:] = heavier * original.body_mass, heavier * original.body_inertia
