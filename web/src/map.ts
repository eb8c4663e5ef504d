/** The path from above, on a grid of metres; of a robot in a vertical plane its place over time. */

import { css } from "./space";
import type { Trail } from "./trail";

const MARGIN = 0.12;
const SECONDS = 30; // of a path that has one dimension

export class PathMap {
  private readonly pen: CanvasRenderingContext2D;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly trail: Trail,
    private readonly flat: boolean,
    private readonly least: number,
  ) {
    this.pen = canvas.getContext("2d")!;
  }

  /** @param place where it is now, and when */
  draw(place: { x: number; y: number; time: number }): void {
    const { canvas, pen, trail } = this;
    const ratio = Math.min(window.devicePixelRatio, 2);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (width === 0) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const places = [...trail.places, { ...place, colour: trail.places.at(-1)?.colour ?? ([0, 0, 0] as const) }];
    const since = this.flat ? Math.max(0, place.time - SECONDS) : 0;
    const shown = this.flat ? places.filter(({ time }) => time >= since) : places;
    const xs = shown.map(({ x }) => x);
    const ys = this.flat ? [0] : shown.map(({ y }) => y);
    const [left, right] = [Math.min(0, ...xs), Math.max(0, ...xs)];
    const [low, high] = [Math.min(0, ...ys), Math.max(0, ...ys)];
    const metre = Math.min(
      width / Math.max((right - left) * (1 + 2 * MARGIN), this.least),
      this.flat ? Infinity : height / Math.max((high - low) * (1 + 2 * MARGIN), (this.least * height) / width),
    );
    const toX = (x: number) => width / 2 + (x - (left + right) / 2) * metre;
    const toY = this.flat
      ? (_: number, time: number) => 14 + ((time - since) / SECONDS) * (height - 34)
      : (y: number) => height / 2 - (y - (low + high) / 2) * metre;
    this.grid(style, metre, toX, toY, width, height);
    pen.lineWidth = 2.2;
    pen.lineCap = "round";
    for (let i = 1; i < shown.length; i++) {
      pen.strokeStyle = css([...shown[i].colour]);
      pen.beginPath();
      pen.moveTo(toX(shown[i - 1].x), toY(shown[i - 1].y, shown[i - 1].time));
      pen.lineTo(toX(shown[i].x), toY(shown[i].y, shown[i].time));
      pen.stroke();
    }
    const last = shown[shown.length - 1];
    pen.fillStyle = css([...last.colour]);
    pen.strokeStyle = style.color;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.arc(toX(last.x), toY(last.y, last.time), 5, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
  }

  private grid(
    style: CSSStyleDeclaration,
    metre: number,
    toX: (x: number) => number,
    toY: (y: number, time: number) => number,
    width: number,
    height: number,
  ): void {
    const { pen } = this;
    const step = nice(60 / metre);
    pen.strokeStyle = style.borderTopColor;
    pen.lineWidth = 1;
    const lines = (to: (value: number) => number, size: number, draw: (at: number) => void) => {
      const zero = to(0);
      const span = Math.abs(to(step) - zero);
      const first = zero - span * Math.floor(zero / span);
      for (let at = first; at < size; at += span) draw(Math.round(at) + 0.5);
    };
    pen.beginPath();
    lines(toX, width, (at) => (pen.moveTo(at, 0), pen.lineTo(at, height)));
    if (!this.flat) lines((y) => toY(y, 0), height, (at) => (pen.moveTo(0, at), pen.lineTo(width, at)));
    pen.stroke();
    pen.fillStyle = style.color;
    pen.beginPath();
    if (!this.flat) pen.arc(toX(0), toY(0, 0), 2.5, 0, 2 * Math.PI);
    else pen.rect(Math.round(toX(0)), 0, 1, height);
    pen.fill();
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(`${step} m${this.flat ? ` · x over ${SECONDS} s, newest below` : ""}`, 8, height - 8);
  }
}

/** The next of 1, 2 and 5 times a power of ten. */
function nice(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value)! * power;
  return Number(step.toPrecision(1));
}
