/** The path of a robot: places with the colours of what was chosen there. */

import type { Colour } from "./space";

const MOST = 6000;

export class Trail {
  readonly places: { x: number; y: number; time: number; colour: Colour }[] = [];
  /** Grows whenever places are dropped or all are cleared, so that who draws them starts anew. */
  version = 0;

  /** @param step the distance (m) between two places */
  constructor(readonly step: number) {}

  add(x: number, y: number, time: number, colour: Colour): void {
    const last = this.places.at(-1);
    if (last && Math.hypot(x - last.x, y - last.y) < this.step) return;
    if (this.places.length >= MOST) {
      this.places.splice(0, MOST / 2);
      this.version++;
    }
    this.places.push({ x, y, time, colour });
  }

  clear(): void {
    this.places.length = 0;
    this.version++;
  }
}
