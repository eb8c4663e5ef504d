/** What the user chooses from: latents of a prior, or goals; with the colours of our figures. */

import type { PageData, SpaceData } from "./data";
import type { Random } from "./random";

export type Colour = [number, number, number]; // each from 0 to 1

export class Space {
  /** What pad and sliders show. */
  readonly values: Float64Array;

  constructor(
    readonly about: SpaceData,
    private readonly colours: PageData["colours"],
  ) {
    this.values = new Float64Array(about.dim);
    this.tour(0);
  }

  get discrete(): boolean {
    return this.about.kind === "one_hot";
  }

  /** Spaces with the same key are chosen from together. */
  get key(): string {
    const { kind, dim, pad } = this.about;
    return `${kind} ${dim} ${pad.join(" ")}`;
  }

  /** The latent or goal for what pad and sliders show. */
  chosen(values: ArrayLike<number> = this.values): Float64Array {
    const made = Float64Array.from(values);
    if (this.about.kind !== "sphere") return made;
    const length = Math.hypot(...made);
    return length > 0 ? made.map((value) => value / length) : made.fill(0).fill(1, 0, 1);
  }

  /** Set values; those that are not numbers become 0, those beyond the limits the limits. */
  set(values: ArrayLike<number>): void {
    const { limit } = this.about;
    for (let i = 0; i < this.values.length; i++) {
      const value = Number(values[i]);
      this.values[i] = Number.isFinite(value) ? Math.min(Math.max(value, -limit), limit) : 0;
    }
  }

  setSkill(number: number): void {
    this.set(Array.from(this.values, (_, i) => (i === number ? 1 : 0)));
  }

  random(random: Random): void {
    const { kind, dim, pad } = this.about;
    if (kind === "one_hot") return this.setSkill(Math.floor(random.next() * dim));
    if (kind === "goal") {
      const angle = 2 * Math.PI * random.next();
      return this.set(this.onPad(Math.cos(angle), Math.sin(angle)));
    }
    const drawn = Array.from({ length: dim }, () => random.normal());
    this.set(kind === "sphere" ? this.chosen(drawn) : drawn);
    return pad.length ? undefined : this.tour(0);
  }

  /** Go around: `phase` 0 to 1 is the whole circle of the pad, the line of one dimension, or all discrete skills. */
  tour(phase: number): void {
    const { kind, dim, limit } = this.about;
    const turn = phase - Math.floor(phase);
    if (kind === "one_hot") return this.setSkill(Math.floor(turn * dim));
    const radius = kind === "gaussian" ? Math.min(this.colours.radius, limit) : limit;
    this.set(this.onPad(radius * Math.cos(2 * Math.PI * turn), radius * Math.sin(2 * Math.PI * turn)));
  }

  /** The present values with others for the pad's dimensions. */
  onPad(x: number, y: number): number[] {
    const made = Array.from(this.values);
    this.about.pad.forEach((dim, i) => (made[dim] = i === 0 ? x : y));
    return made;
  }

  /** The colour of our figures: red and green follow the first two dimensions, blue makes up for them. */
  colour(values: ArrayLike<number> = this.values): Colour {
    const { scale, range } = this.colours;
    const [x, y] = this.plane(values);
    const red = (scale * x + range) / (2 * range);
    const green = (scale * y + range) / (2 * range);
    return [red, green, (2 - red - green) / 2].map((value) => Math.min(Math.max(value, 0), 1)) as Colour;
  }

  private plane(values: ArrayLike<number>): [number, number] {
    const { kind, dim, pad } = this.about;
    const { radius } = this.colours;
    if (kind === "one_hot") {
      const angle = (2 * Math.PI * Array.from(values).indexOf(Math.max(...Array.from(values)))) / dim;
      return [radius * Math.cos(angle), radius * Math.sin(angle)];
    }
    const made = this.chosen(values);
    const stretch = kind === "gaussian" ? 1 : radius;
    return [stretch * (made[pad[0]] ?? 0), stretch * (made[pad[1]] ?? 0)];
  }

  label(): string {
    const { sign, pad, dim } = this.about;
    if (this.discrete) return `skill ${this.values.indexOf(1)}`;
    const made = this.chosen();
    const shown = dim > 4 ? pad.map((i) => made[i]) : Array.from(made);
    const numbers = shown.map((value) => (Math.round(100 * value) / 100 + 0).toFixed(2));
    const more = shown.length < dim && made.some((value, i) => value !== 0 && !pad.includes(i)) ? ", …" : "";
    return shown.length === 1 && !more ? `${sign} = ${numbers[0]}` : `${sign} = (${numbers.join(", ")}${more})`;
  }
}

export function css(colour: Colour, alpha = 1): string {
  const [r, g, b] = colour.map((value) => Math.round(255 * value));
  return alpha === 1 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${alpha})`;
}
