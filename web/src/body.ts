/** What is simulated: a robot by MuJoCo, or the point. */

import type { MjData, MjModel } from "@mujoco/mujoco";
import type { Numbers, PointData, RobotData } from "./data";
import { Dynamics } from "./dynamics";
import type { Mujoco } from "./mujoco";
import type { Random } from "./random";

export interface Body {
  /** Seconds of a control step. */
  readonly dt: number;
  /** Pieces that a control step is simulated in. */
  readonly pieces: number;
  /** A fresh initial state. */
  reset(random: Random): void;
  /** Go to the state that an observation shows. */
  place(state: ArrayLike<number>): void;
  observation(): Float32Array;
  /** What the next pieces are simulated with. */
  control(action: ArrayLike<number>): void;
  advance(): void;
  /** Whether it cannot move on, or its simulation has failed. */
  fallen(): boolean;
  /** A push in a direction (rad). */
  push(direction: number): void;
}

const PUSH_SECONDS = 0.2;

export class Robot implements Body {
  readonly dt: number;
  readonly pieces: number;
  readonly model: MjModel;
  readonly data: MjData;
  private action: Float64Array;
  private pushing = 0; // pieces for which a push lasts
  private seen = 0; // simulated time when it was last asked
  private readonly freeJoint: boolean;
  private readonly dynamics: Dynamics | null;

  constructor(
    private readonly mujoco: Mujoco,
    readonly about: RobotData,
    numbers: Numbers,
  ) {
    this.model = mujoco.MjModel.from_xml_string(about.xml);
    for (const [name, stored] of Object.entries(about.fields)) this.array(name).set(numbers.read(stored));
    this.data = new mujoco.MjData(this.model);
    mujoco.mj_setConst(this.model, this.data);
    this.dynamics = about.ranges && new Dynamics(mujoco, this.model, this.data, about.ranges);
    this.dt = about.dt;
    this.pieces = about.frame_skip;
    this.action = new Float64Array(this.model.nu);
    this.freeJoint = this.model.jnt_type[0] === mujoco.mjtJoint.mjJNT_FREE.value;
  }

  private array(name: string): Float64Array {
    return (this.model as unknown as Record<string, Float64Array>)[name];
  }

  reset(random: Random): void {
    const { mujoco, model, data, about } = this;
    this.dynamics?.draw(random);
    mujoco.mj_resetData(model, data);
    const { qpos, qvel } = data as { qpos: Float64Array; qvel: Float64Array };
    if (about.start) qpos.set(about.start);
    for (let i = 0; i < qpos.length; i++) qpos[i] += random.uniform(about.qpos_noise);
    for (let i = 0; i < qvel.length; i++) {
      qvel[i] = about.qvel_noise_is_normal ? about.qvel_noise * random.normal() : random.uniform(about.qvel_noise);
    }
    if (this.freeJoint) {
      const length = Math.hypot(...qpos.subarray(3, 7));
      for (let i = 3; i < 7; i++) qpos[i] /= length;
    }
    this.begin();
  }

  place(state: ArrayLike<number>): void {
    this.dynamics?.draw(null);
    this.mujoco.mj_resetData(this.model, this.data);
    const { qpos, qvel } = this.data as { qpos: Float64Array; qvel: Float64Array };
    if (this.about.start) qpos.set(this.about.start);
    if (this.about.shown) {
      this.about.shown.forEach((value, i) => {
        if (value < qpos.length) qpos[value] = state[i];
        else qvel[value - qpos.length] = state[i];
      });
      this.begin();
      return;
    }
    for (let i = 0; i < qpos.length; i++) qpos[i] = state[i];
    const still = this.about.max_lead === null ? 0 : 6; // velocities of the root that a state with servos lacks
    for (let i = still; i < qvel.length; i++) qvel[i] = state[qpos.length + i - still];
    this.begin();
  }

  private begin(): void {
    this.action = new Float64Array(this.model.nu);
    this.pushing = 0;
    this.seen = 0;
    this.mujoco.mj_kinematics(this.model, this.data);
  }

  observation(): Float32Array {
    const { qpos, qvel } = this.data as { qpos: Float64Array; qvel: Float64Array };
    if (this.about.max_lead !== null) {
      const upright = Math.cos(qpos[3]) * Math.cos(qpos[4]);
      return Float32Array.of(...qpos, ...qvel.subarray(6), ...this.action, upright);
    }
    const most = this.about.velocity_clip ?? Infinity;
    const all = Float32Array.of(...qpos, ...qvel.map((value) => Math.min(Math.max(value, -most), most)));
    return this.about.shown ? Float32Array.from(this.about.shown, (value) => all[value]) : all;
  }

  control(action: ArrayLike<number>): void {
    const { ctrl_scale, ctrl_offset, max_lead } = this.about;
    const { ctrl, qpos } = this.data as { ctrl: Float64Array; qpos: Float64Array };
    for (let i = 0; i < ctrl.length; i++) {
      this.action[i] = Math.min(Math.max(action[i], -1), 1);
      ctrl[i] = this.action[i] * ctrl_scale[i] + ctrl_offset[i];
      if (max_lead !== null) {
        const joint = qpos[6 + i];
        ctrl[i] = Math.min(Math.max(ctrl[i], joint - max_lead), joint + max_lead);
      }
    }
  }

  advance(): void {
    if (this.pushing > 0 && --this.pushing === 0) (this.data.xfrc_applied as Float64Array).fill(0);
    this.mujoco.mj_step(this.model, this.data);
  }

  /** Where all parts are, for a picture. */
  pose(): void {
    this.mujoco.mj_kinematics(this.model, this.data);
  }

  fallen(): boolean {
    const { fallen, healthy_height } = this.about;
    const qpos = this.data.qpos as Float64Array;
    if (!qpos.every(Number.isFinite) || this.diverged()) return true;
    for (const [value, low, high] of this.about.healthy ?? []) {
      const now = value < qpos.length ? qpos[value] : (this.data.qvel as Float64Array)[value - qpos.length];
      if (now < (low ?? -Infinity) || now > (high ?? Infinity)) return true;
    }
    if (healthy_height && (qpos[2] < healthy_height[0] || qpos[2] > healthy_height[1])) return true;
    if (fallen === "upside_down") return qpos[4] ** 2 + qpos[5] ** 2 > 0.5;
    if (fallen === "lying") return Math.abs(qpos[2]) > 1;
    return fallen === "tipped" && Math.cos(qpos[3]) * Math.cos(qpos[4]) < 0.95;
  }

  /** MuJoCo itself starts a simulation with a bad state anew, so that its time is short. */
  private diverged(): boolean {
    const early = this.data.time < this.seen;
    this.seen = this.data.time;
    return early;
  }

  push(direction: number): void {
    const mass = (this.model.body_subtreemass as Float64Array)[1];
    const speed = this.about.camera[2] / 3; // larger robots are seen from further away
    const force = (mass * speed) / PUSH_SECONDS;
    const applied = this.data.xfrc_applied as Float64Array; // (bodies, force and torque)
    applied[6] = force * Math.cos(direction);
    applied[7] = force * Math.sin(direction);
    this.pushing = Math.round((PUSH_SECONDS / this.dt) * this.pieces);
  }
}

/** s' = s + step_size * a, in pieces so that it moves smoothly. */
export class Point implements Body {
  readonly dt: number;
  readonly pieces = 5;
  private state = new Float64Array(2);
  private action: ArrayLike<number> = [0, 0];

  constructor(private readonly about: PointData) {
    this.dt = about.dt;
  }

  reset(random: Random): void {
    this.place([random.uniform(this.about.start_range), random.uniform(this.about.start_range)]);
  }

  place(state: ArrayLike<number>): void {
    this.state = Float64Array.from(state);
    this.action = [0, 0];
  }

  observation(): Float32Array {
    return Float32Array.from(this.state);
  }

  control(action: ArrayLike<number>): void {
    this.action = action;
  }

  advance(): void {
    for (let i = 0; i < 2; i++) this.state[i] += (this.about.step_size * this.action[i]) / this.pieces;
  }

  fallen(): boolean {
    return false;
  }

  push(direction: number): void {
    this.state[0] += 0.3 * Math.cos(direction);
    this.state[1] += 0.3 * Math.sin(direction);
  }
}
