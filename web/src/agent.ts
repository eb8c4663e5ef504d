/** What acts: a skill policy, with or without a linearizer below it, or a linearizer alone. */

import type { Numbers, StoredAgent } from "./data";
import { type Frame, makeFrame, normalised } from "./frame";
import { Network } from "./networks";

type Values = Float32Array | Float64Array;

export class Agent {
  readonly macroLength: number;
  private readonly skills: SkillPolicy | null;
  private readonly linearizer: Linearizer | null;

  constructor(stored: StoredAgent, numbers: Numbers) {
    this.macroLength = stored.macro_length;
    this.skills = stored.skill_policy && new SkillPolicy(stored, numbers);
    this.linearizer = stored.linearizer && new Linearizer(stored, numbers);
  }

  /** What the skill policy answers for a latent: a goal to hold for a macro step, or an action without a linearizer. */
  answer(state: Float32Array, chosen: ArrayLike<number>): Float64Array {
    return this.skills ? this.skills.answer(state, chosen) : Float64Array.from(chosen);
  }

  /** The action for an answer. */
  action(state: Float32Array, answer: Float64Array): Float64Array {
    return this.linearizer ? this.linearizer.action(state, answer) : answer;
  }

  /** Whether the answer of this step of an episode is a new one; a goal that somebody chooses by hand always is. */
  answersAt(step: number): boolean {
    return this.skills === null || step % this.macroLength === 0;
  }
}

class SkillPolicy {
  private readonly network: Network;
  private readonly mean: Values;
  private readonly std: Values;
  private readonly keep: Values;
  private readonly squeezes: boolean;

  constructor({ skill_policy }: StoredAgent, numbers: Numbers) {
    const stored = skill_policy!;
    this.network = new Network(stored, numbers);
    [this.mean, this.std, this.keep] = [stored.mean, stored.std, stored.keep].map((one) => numbers.read(one));
    this.squeezes = stored.distortion === "squeeze_y";
  }

  answer(state: Float32Array, latent: ArrayLike<number>): Float64Array {
    const inputs = normalised(state, this.mean, this.std, this.keep, latent.length);
    inputs.set(latent, state.length);
    const answer = this.network.mode(inputs);
    return this.squeezes ? squeezed(answer) : answer;
  }
}

class Linearizer {
  private readonly network: Network;
  private readonly frame: Frame;

  constructor({ linearizer }: StoredAgent, numbers: Numbers) {
    this.network = new Network(linearizer!, numbers);
    this.frame = makeFrame(linearizer!.frame, numbers);
  }

  action(state: Float32Array, goal: Float64Array): Float64Array {
    const { inputs, toAction } = this.frame.see(state, goal);
    return toAction(this.network.mode(inputs));
  }
}

/** The length of the goal's x-y part stays, its direction nears the x axis. */
function squeezed(goal: Float64Array): Float64Array {
  const made = goal.slice();
  const scale = Math.hypot(goal[0], goal[1]) / Math.max(Math.hypot(goal[0], 0.2 * goal[1]), 1e-12);
  made[0] = goal[0] * scale;
  made[1] = 0.2 * goal[1] * scale;
  return made;
}
