/** Random numbers from a seed. */

export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = (Math.imul(seed ^ 0x5bd1e995, 0x9e3779b1) ^ (seed >>> 3)) >>> 0;
    for (let i = 0; i < 4; i++) this.next();
  }

  /** Uniform in [0, 1): a Weyl sequence, mixed. */
  next(): number {
    this.state = (this.state + 0x9e3779b9) >>> 0;
    let x = this.state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  }

  uniform(halfWidth: number): number {
    return halfWidth * (2 * this.next() - 1);
  }

  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
}
