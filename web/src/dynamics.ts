/** The D'Kitty's dynamics, drawn anew for every episode as in training: servos, friction, mass and rough ground. */

import type { MjData, MjModel } from "@mujoco/mujoco";
import type { Ranges } from "./data";
import type { Mujoco } from "./mujoco";
import type { Random } from "./random";

const ROOT = 6; // joints before the legs'

export class Dynamics {
  private readonly mass: Float64Array;
  private readonly inertia: Float64Array;

  constructor(
    private readonly mujoco: Mujoco,
    private readonly model: MjModel,
    private readonly data: MjData,
    private readonly ranges: Ranges,
  ) {
    this.mass = (model.body_mass as Float64Array).slice();
    this.inertia = (model.body_inertia as Float64Array).slice();
  }

  /** New ones; without random numbers the middle of all, on flat ground. */
  draw(random: Random | null): void {
    const { model, ranges } = this;
    const one = ([low, high]: [number, number]) => low + (high - low) * (random ? random.next() : 0.5);
    (model.dof_damping as Float64Array).fill(one(ranges.damping), ROOT);
    (model.dof_frictionloss as Float64Array).fill(one(ranges.friction_loss), ROOT);
    const gain = one(ranges.gain);
    const [gains, biases] = [model.actuator_gainprm as Float64Array, model.actuator_biasprm as Float64Array];
    for (let i = 0; i < model.nu; i++) {
      gains[(i * gains.length) / model.nu] = gain;
      biases[(i * biases.length) / model.nu + 1] = -gain;
    }
    const friction = [one(ranges.slide), one(ranges.spin), one(ranges.roll)];
    for (let i = 0; i < model.ngeom; i++) (model.geom_friction as Float64Array).set(friction, 3 * i);
    const heavier = one(ranges.mass) / this.mass.reduce((sum, mass) => sum + mass, 0);
    (model.body_mass as Float64Array).set(this.mass.map((value) => heavier * value));
    (model.body_inertia as Float64Array).set(this.inertia.map((value) => heavier * value));
    const ground = model.hfield_data as Float32Array; // fractions of the field's own height
    const unit = (model.hfield_size as Float64Array)[2];
    for (let i = 0; i < ground.length; i++) ground[i] = random ? one(ranges.height) / unit : 0;
    this.mujoco.mj_setConst(model, this.data);
  }
}
