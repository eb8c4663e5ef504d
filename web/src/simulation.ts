/** One run that moves: its agent and its body, in control steps and by the clock. */

import { Agent } from "./agent";
import { type Body, Point, Robot } from "./body";
import type { Numbers, RunData } from "./data";
import type { Mujoco } from "./mujoco";
import { Random } from "./random";

const REST = 2; // seconds that a fallen robot lies before it starts anew

export class Simulation {
  readonly agent: Agent;
  readonly body: Body;
  /** Simulated seconds since the last reset. */
  time = 0;
  /** Seconds since it fell; 0 if it has not. */
  lying = 0;
  /** How often it was reset. */
  resets = 0;
  private piece = 0;
  private step = 0;
  private due = 0;
  private goal: Float64Array = new Float64Array(0);
  private seed = 0;

  constructor(
    readonly about: RunData,
    numbers: Numbers,
    mujoco: Mujoco | null,
  ) {
    this.agent = new Agent(about.agent, numbers);
    this.body = about.body.kind === "point" ? new Point(about.body) : new Robot(mujoco!, about.body, numbers);
    this.reset(0);
  }

  /** Start in a fresh initial state: that of a seed, or the next one. */
  reset(seed?: number): void {
    this.seed = seed ?? this.seed + 1;
    this.body.reset(new Random(this.seed));
    this.begin();
  }

  /** Start in a given state. */
  place(state: ArrayLike<number>): void {
    this.body.place(state);
    this.begin();
  }

  private begin(): void {
    this.time = this.lying = this.piece = this.step = this.due = 0;
    this.resets++;
  }

  /** Where it is: x and y, or x alone. */
  location(): number[] {
    const state = this.body.observation();
    return this.about.agent.location_dims.map((dim) => state[dim]);
  }

  /** Simulate `seconds` more, but stop at `deadline` (of performance.now()); returns the seconds that were simulated. */
  advance(seconds: number, chosen: ArrayLike<number>, deadline = Infinity): number {
    const before = this.time;
    const one = this.body.dt / this.body.pieces;
    this.due += seconds;
    while (this.due >= one) {
      this.due -= one;
      this.advancePiece(chosen);
      if (this.lying > REST) this.reset();
      if (performance.now() > deadline) this.due = 0;
    }
    return this.time >= before ? this.time - before : this.time;
  }

  private advancePiece(chosen: ArrayLike<number>): void {
    if (this.piece === 0) this.decide(chosen);
    this.body.advance();
    this.time += this.body.dt / this.body.pieces;
    this.piece = (this.piece + 1) % this.body.pieces;
    if (this.piece === 0) {
      this.step++;
      this.lying = this.body.fallen() ? this.lying + this.body.dt : 0;
    }
  }

  private decide(chosen: ArrayLike<number>): void {
    const state = this.body.observation();
    if (this.agent.answersAt(this.step)) this.goal = this.agent.answer(state, chosen);
    this.body.control(this.agent.action(state, this.goal));
  }

  /** The states (steps + 1) of one episode, as fast as possible, whether it falls or not. */
  rollout(chosen: ArrayLike<number>, steps: number, start: number | ArrayLike<number> = 0): number[][] {
    if (typeof start === "number") this.reset(start);
    else this.place(start);
    const states = [Array.from(this.body.observation())];
    while (states.length <= steps) {
      for (let i = 0; i < this.body.pieces; i++) this.advancePiece(chosen);
      states.push(Array.from(this.body.observation()));
    }
    return states;
  }
}
