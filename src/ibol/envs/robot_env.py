"""A robot as a batched environment on `mujoco.batch`."""

import re
from typing import Any

import mujoco
import numpy as np
from gymnasium.vector import AutoresetMode
from mujoco.batch import Batch, SimulationError

from ibol.bounds import yes_or_no
from ibol.envs.base import BatchedEnv, Bools, Floats, Ints
from ibol.envs.checks import thread_count
from ibol.envs.robots import Robot, has_fallen, load_model, model_text, quiet_mujoco, untimed_mujoco
from ibol.errors import IbolError

_DIVERGED = [int(w) for w in (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL)]
_DIVERGED.append(int(mujoco.mjtWarning.mjWARN_BADQACC))
_SIMULATION = ("_batch", "_ctrl", "_qpos", "_state")


class RobotEnv(BatchedEnv):
    """`num_envs` simulations of one robot, stepped on `num_threads` threads (None: one for each core).

    The state is qpos followed by qvel. A simulation that diverges is cut (truncated) at its last good state.
    With `terminate=False` the robot's episodes always last for the whole horizon. With `end_when_fallen=True` an
    episode also terminates when the robot has fallen and cannot move on.
    """

    extra_dims = 0  # of a state that is more than qpos and qvel
    max_lead: float | None = None
    """How far a control may be ahead of its joint's position."""

    def __init__(
        self,
        robot: Robot,
        *,
        num_envs: int = 1,
        num_threads: int | None = None,
        seed: int = 0,
        horizon: int | None = None,
        autoreset: AutoresetMode | str = AutoresetMode.SAME_STEP,
        terminate: bool = True,
        end_when_fallen: bool = False,
    ) -> None:
        threads = thread_count(num_threads)
        self.robot: Robot = robot
        self.terminate, end_when_fallen = (
            yes_or_no("terminate", terminate),
            yes_or_no("end_when_fallen", end_when_fallen),
        )
        self.end_when_fallen = end_when_fallen or (terminate and robot.terminates_when_fallen)
        self.model = load_model(robot)
        self.dt = robot.frame_skip * self.model.opt.timestep
        nq, nv = robot.num_positions, self.model.nv
        super().__init__(
            robot.name,
            num_envs=num_envs,
            state_dim=nq + nv + self.extra_dims - len(robot.hidden),
            action_dim=self.model.nu,
            horizon=robot.horizon if horizon is None else horizon,
            location_dims=robot.location_dims,
            seed=seed,
            autoreset=autoreset,
        )
        self._nq = nq
        self._forward = robot.shown(nq + nv)[robot.location_dims[0]] if robot.location_dims else 0
        """The value of qpos whose velocity is rewarded."""
        self._simulate(threads or 0)
        self._quaternions = _quaternions(self.model)
        self._kept = list(robot.shown(nq + nv)) if robot.hidden else None
        if end_when_fallen and robot.fallen == "never":
            raise IbolError(f"end_when_fallen is for robots that fall, and {robot.name} does not")
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        if robot.start is not None:
            self._qpos[0] = robot.start
        self._rest = self._batch.state[0].copy()
        low, high = self.control_range()
        self._ctrl_scale, self._ctrl_offset = (high - low) / 2, (high + low) / 2

    def control_range(self) -> tuple[Floats, Floats]:
        """The controls that actions -1 and 1 stand for."""
        given = self.robot.control_range
        low, high = self.model.actuator_ctrlrange.T if given is None else np.array(given).T
        return low, high

    def model_file(self) -> tuple[str, float | None]:
        """The model as the text of an MJCF file, and the total mass (kg) that it is to be scaled to, if any."""
        return re.sub(r'\s+settotalmass="[^"]*"', "", model_text(self.robot)), self.robot.total_mass

    def layout(self) -> list[tuple[str, int]]:
        """Where each value of a state comes from, and which of those it is."""
        every = [("qpos", i) for i in range(self._nq)] + [("qvel", i) for i in range(self.model.nv)]
        return every if self._kept is None else [every[i] for i in self._kept]

    def _simulate(self, num_threads: int) -> None:
        """Make the simulations, and the views of their states."""
        self._batch = self._make_batch(num_threads)
        self._ctrl, self._qpos = self._batch.bind("ctrl"), self._batch.bind("qpos")
        # qpos and qvel lie side by side in the rows, so that one copy makes the observation.
        qpos_start, _ = self._batch._component(mujoco.mjtState.mjSTATE_QPOS)
        qvel_start, _ = self._batch._component(mujoco.mjtState.mjSTATE_QVEL)
        assert qvel_start == qpos_start + self._nq
        self._state = self._batch.state[:, qpos_start : qvel_start + self.model.nv]

    def _make_batch(self, num_threads: int) -> Batch:
        return Batch(self.model, self.num_envs, num_threads)

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in _SIMULATION}
        return {**kept, "num_threads": self.num_threads, "rows": self._batch.state.copy()}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        num_threads, rows = kept.pop("num_threads"), kept.pop("rows")
        vars(self).update(kept)
        self._simulate(num_threads)
        self._batch.state[:] = rows

    @property
    def num_threads(self) -> int:
        """Threads that step the simulations."""
        return int(self._batch.nthread)

    def _reset(self, ids: Ints) -> Floats:
        robot, nq = self.robot, self._nq
        nv = self._state.shape[1] - nq
        self._batch.state[ids] = self._rest
        noise = np.empty((len(ids), nq + nv))
        alike = robot.qpos_noise == robot.qvel_noise and not robot.qvel_noise_is_normal
        for row, i in enumerate(ids):
            rng = self._rngs[i]
            if alike:  # the same numbers as below, in one call
                noise[row] = rng.uniform(-robot.qpos_noise, robot.qpos_noise, nq + nv)
                continue
            noise[row, :nq] = rng.uniform(-robot.qpos_noise, robot.qpos_noise, nq)
            if robot.qvel_noise_is_normal:
                noise[row, nq:] = robot.qvel_noise * rng.standard_normal(nv)
            else:
                noise[row, nq:] = rng.uniform(-robot.qvel_noise, robot.qvel_noise, nv)
        state = self._state[ids] + noise
        for place in self._quaternions:
            state[:, place] /= np.linalg.norm(state[:, place], axis=1, keepdims=True)
        self._place(state, ids)
        self._state[ids] = state
        return self._observation(state, np.zeros((len(ids), self.model.nu)))

    def _place(self, state: Floats, ids: Ints) -> None:
        """Put what a robot's episodes need besides it into the initial qpos and qvel (len(ids), nq + nv)."""

    def _advance(self, actions: Floats, ids: Ints | None) -> tuple[Floats, Floats, Bools, Bools]:
        robot = self.robot
        ctrl = self._controls(actions)
        self._drive(ctrl)
        x_before = self._qpos[:, self._forward].copy()
        diverged = np.zeros(self.num_envs, bool)
        # MuJoCo resets a simulation with a bad state by itself and counts it as a warning, but never beyond 1.
        self._batch.warning[:] = 0
        with quiet_mujoco(), untimed_mujoco():
            try:
                self._batch.step(ids, nstep=robot.frame_skip)
            except SimulationError as error:
                diverged[error.ids] = True
        obs = self._observation(self._state.copy(), actions)
        if self._batch.warning.any():
            diverged |= self._batch.warning[:, _DIVERGED, 1].any(axis=1)
        if not np.isfinite(obs).all():
            diverged |= ~np.isfinite(obs).all(axis=1)
        unhealthy = self._unhealthy()
        reward = self._rewards(x_before, ctrl, unhealthy)
        terminated = unhealthy.copy() if self.terminate else np.zeros(self.num_envs, bool)
        if robot.healthy_height is not None and self.terminate:
            low, high = robot.healthy_height
            terminated |= (obs[:, 2] < low) | (obs[:, 2] > high)
        if self.end_when_fallen:
            terminated |= has_fallen(robot, obs)
        return obs, reward, terminated, diverged

    def _rewards(self, x_before: Floats, ctrl: Floats, unhealthy: Bools) -> Floats:
        """The external rewards (N,) of a step from x (N,) with controls (N, m), and which are unhealthy (N,) now."""
        robot = self.robot
        velocity = (self._qpos[:, self._forward] - x_before) / self.dt
        reward = robot.forward_weight * velocity + robot.alive_reward
        reward -= robot.control_cost * np.einsum("ij,ij->i", ctrl, ctrl)
        return np.asarray(reward)

    def _unhealthy(self) -> Bools:
        """Which robots (N,) have a value outside of its range."""
        found = np.zeros(self.num_envs, bool)
        for value, low, high in self.robot.healthy:
            found |= ~((self._state[:, value] > low) & (self._state[:, value] < high))
        return found

    def _drive(self, ctrl: Floats) -> None:
        """Set what moves the simulations in their next step."""
        self._ctrl[:] = ctrl

    def _controls(self, actions: Floats) -> Floats:
        """What the actuators get."""
        return actions * self._ctrl_scale + self._ctrl_offset

    def _observation(self, state: Floats, actions: Floats) -> Floats:
        """States (N, n) from qpos and qvel (N, nq + nv), which may be changed, and the actions that led there."""
        clip = self.robot.velocity_clip
        if clip is not None:
            state[:, self._nq :].clip(-clip, clip, out=state[:, self._nq :])
        return state if self._kept is None else state[:, self._kept]


def _quaternions(model: Any) -> list[slice]:
    """Where in qpos there are quaternions."""
    kinds = {mujoco.mjtJoint.mjJNT_FREE.value: 3, mujoco.mjtJoint.mjJNT_BALL.value: 0}
    starts = [(int(place), kinds.get(int(kind))) for place, kind in zip(model.jnt_qposadr, model.jnt_type, strict=True)]
    return [slice(place + skip, place + skip + 4) for place, skip in starts if skip is not None]
