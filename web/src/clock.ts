/** How fast it goes: pictures and simulated seconds in the last second. */

export class Clock {
  /** Pictures in a second. */
  frames = 0;
  /** Simulated seconds in a second, of the slowest run. */
  realTime = 0;
  private readonly seen: { at: number; simulated: number }[] = [];

  /** @param at now, in seconds */
  count(at: number, simulated: number): void {
    this.seen.push({ at, simulated });
    while (this.seen.length > 2 && this.seen[0].at < at - 1) this.seen.shift();
    const passed = at - this.seen[0].at;
    if (passed <= 0) return;
    this.frames = (this.seen.length - 1) / passed;
    this.realTime = this.seen.slice(1).reduce((sum, one) => sum + one.simulated, 0) / passed;
  }
}
