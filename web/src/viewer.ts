/** One run on the page: its picture, its map and what it does, in a card. */

import { element } from "./dom";
import { PathMap } from "./map";
import { Scene } from "./scene";
import type { Simulation } from "./simulation";
import type { Space } from "./space";
import { Robot } from "./body";
import { Trail } from "./trail";

const MAP_EVERY = 0.1; // seconds

export class Viewer {
  readonly root: HTMLElement;
  readonly scene: Scene | null;
  readonly trail: Trail;
  private readonly map: PathMap;
  private readonly said: HTMLElement;
  private readonly fallen: HTMLElement;
  private readonly plane: boolean;
  private resets: number;
  private sinceMap = Infinity;
  private recent: { time: number; x: number; y: number }[] = [];

  constructor(
    readonly simulation: Simulation,
    readonly space: Space,
    software: boolean | null,
  ) {
    const { about, body } = simulation;
    this.plane = about.agent.location_dims.length > 1;
    const square = body instanceof Robot ? body.about.square : 0.5;
    this.trail = new Trail(square / 40);
    const picture = element("canvas", {
      class: "picture",
      tabindex: 0,
      role: "img",
      "aria-label": `${about.env} in 3-D: drag or arrow keys turn the camera, plus and minus zoom`,
    });
    this.fallen = element("p", { class: "fallen", role: "status" });
    const map = element("canvas", { class: "map", role: "img", "aria-label": `path of ${about.name}` });
    this.said = element("p", { class: "said" });
    this.root = element(
      "article",
      { class: "viewer", "aria-label": about.name },
      element("h2", {}, about.name, element("span", { class: "of" }, `${about.title} · ${about.env}`)),
      element("div", { class: "stage" }, picture, this.fallen),
      this.said,
      map,
    );
    this.scene = null;
    if (software === null) picture.replaceWith(element("p", { class: "none" }, "This browser has no WebGL: only the map is drawn."));
    else this.scene = new Scene(picture, simulation, this.trail, software);
    this.map = new PathMap(map, this.trail, !this.plane, 8 * square);
    this.resets = simulation.resets;
  }

  /** Show what `seconds` of real time have changed. */
  draw(seconds: number): void {
    const { simulation, trail } = this;
    if (simulation.resets !== this.resets) {
      this.resets = simulation.resets;
      this.recent = [];
      trail.clear();
    }
    const [x, y = 0] = simulation.location();
    trail.add(x, y, simulation.time, this.space.colour());
    this.scene?.draw(seconds);
    this.sinceMap += seconds;
    if (this.sinceMap < MAP_EVERY) return;
    this.sinceMap = 0;
    this.map.draw({ x, y, time: simulation.time });
    this.tell(x, y);
  }

  private tell(x: number, y: number): void {
    const { simulation, recent } = this;
    recent.push({ time: simulation.time, x, y });
    while (recent.length > 2 && recent[0].time < simulation.time - 1) recent.shift();
    const [first] = recent;
    const passed = simulation.time - first.time;
    const speed = passed > 0 ? Math.hypot(x - first.x, y - first.y) / passed : 0;
    const place = this.plane ? `x ${x.toFixed(1)} m, y ${y.toFixed(1)} m` : `x ${x.toFixed(1)} m`;
    this.said.textContent = `${place} · ${speed.toFixed(1)} m/s · ${simulation.time.toFixed(0)} s`;
    const text = simulation.lying > 0 ? "It has fallen and starts anew." : "";
    if (this.fallen.textContent !== text) this.fallen.textContent = text;
  }
}
