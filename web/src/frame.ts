/** How a linearizer's network sees a state and a goal: as they are, or turned until the goal points along x. */

import type { Numbers, StoredFrame } from "./data";

type Values = Float32Array | Float64Array;

export interface Seen {
  inputs: Float64Array;
  /** Makes the network's answer the robot's action. */
  toAction: (answer: Float64Array) => Float64Array;
}

export interface Frame {
  see(state: Float32Array, goal: ArrayLike<number>): Seen;
}

export function makeFrame(stored: StoredFrame, numbers: Numbers): Frame {
  return stored.kind === "world" ? new WorldFrame(stored, numbers) : new GoalFrame(stored, numbers);
}

/** (state - mean) / std, without what is not kept, with room for the goal behind it. */
export function normalised(state: ArrayLike<number>, mean: Values, std: Values, keep: Values, room: number): Float64Array {
  const made = new Float64Array(state.length + room);
  for (let i = 0; i < state.length; i++) made[i] = ((state[i] - mean[i]) / std[i]) * keep[i];
  return made;
}

class WorldFrame implements Frame {
  private readonly mean: Values;
  private readonly std: Values;
  private readonly keep: Values;

  constructor(stored: StoredFrame, numbers: Numbers) {
    [this.mean, this.std, this.keep] = [stored.mean, stored.std, stored.keep].map((one) => numbers.read(one));
  }

  see(state: Float32Array, goal: ArrayLike<number>): Seen {
    const inputs = normalised(state, this.mean, this.std, this.keep, goal.length);
    inputs.set(goal, state.length);
    return { inputs, toAction: (answer) => answer };
  }
}

/** How a state is turned. */
interface View {
  which: number; // renaming of the legs
  turn: number; // of the world after it
  sign: number; // that makes a quaternion's first value positive
}

class GoalFrame implements Frame {
  private readonly mean: Values;
  private readonly std: Values;
  private readonly keep: Values;
  private readonly goalStd: Values;
  private readonly angles: Values;

  constructor(
    private readonly stored: StoredFrame,
    numbers: Numbers,
  ) {
    [this.mean, this.std, this.keep] = [stored.mean, stored.std, stored.keep].map((one) => numbers.read(one));
    [this.goalStd, this.angles] = [stored.goal_std!, stored.angles!].map((one) => numbers.read(one));
  }

  see(state: Float32Array, goal: ArrayLike<number>): Seen {
    const asked = Float64Array.from(goal, (value, i) => value / this.goalStd[i]);
    const place = this.stored.heading ?? 5; // of the heading's angle, where it is not in a quaternion
    const heading = this.stored.has_angles ? state[place] : 2 * Math.atan2(state[6], state[3]);
    const view = this.view(state, asked, heading);
    const inputs = normalised(this.turned(state, view), this.mean, this.std, this.keep, goal.length);
    if (this.stored.has_angles) {
      // Of the heading networks see cosine and sine, in the place of the location.
      inputs[0] = Math.cos(heading + view.turn);
      inputs[1] = Math.sin(heading + view.turn);
      inputs[place] = 0;
    }
    this.turned(asked, view).forEach((value, i) => (inputs[state.length + i] = value * this.std[i]));
    const from = this.stored.action_from![view.which];
    const sign = this.stored.action_sign![view.which];
    return { inputs, toAction: (answer) => Float64Array.from(from, (source, j) => answer[source] * sign[j]) };
  }

  private view(state: Float32Array, asked: Float64Array, heading: number): View {
    const direction = Math.atan2(asked[1], asked[0]);
    let which = 0;
    let nearest = -Infinity;
    this.angles.forEach((angle, i) => {
      const near = Math.cos(heading - direction - angle);
      if (near > nearest) [which, nearest] = [i, near];
    });
    const turn = -(direction + this.angles[which]);
    const sign = Math.cos(turn / 2) * state[3] < Math.sin(turn / 2) * state[6] ? -1 : 1;
    return { which, turn, sign };
  }

  /** Raw values, the first of a state, renamed and turned. */
  private turned(values: ArrayLike<number>, { which, turn, sign }: View): Float64Array {
    const source = this.stored.renamings![which];
    const moved = new Float64Array(values.length);
    for (let i = 0; i < values.length; i++) moved[i] = values[Math.abs(source[i]) - 1] * Math.sign(source[i]);
    for (const [a, b, half] of this.stored.pairs!) {
      if (b >= values.length) continue;
      const cos = half ? sign * Math.cos(turn / 2) : Math.cos(turn);
      const sin = half ? sign * Math.sin(turn / 2) : Math.sin(turn);
      const [first, second] = [moved[a], moved[b]];
      moved[a] = cos * first - sin * second;
      moved[b] = sin * first + cos * second;
    }
    return moved;
  }
}
