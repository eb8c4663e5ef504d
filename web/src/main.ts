/** The page: reads its data, starts the physics, and lets runs move. */

import { Clock } from "./clock";
import { Controls } from "./controls";
import { Numbers, type PageData } from "./data";
import { element } from "./dom";
import { loadPhysics, type Mujoco } from "./mujoco";
import { Chooser } from "./pad";
import { Random } from "./random";
import { Simulation } from "./simulation";
import { Space } from "./space";
import { Viewer } from "./viewer";

const TOUR_SECONDS = 24;
const LONGEST = 0.25; // seconds that one picture catches up, after which time is lost
const BUSY = 40; // milliseconds of physics in one picture of all runs; where pictures are slow, half of their time
const SOFTWARE_RATIO = 0.8;
const [FEW, MANY] = [34, 50]; // pictures in a second at which pixels become fewer, and more again
const COARSEST = 0.5;

/** Whether WebGL draws without a graphics card; null where there is no WebGL. */
function findSoftware(): boolean | null {
  const context = document.createElement("canvas").getContext("webgl2");
  if (!context) return null;
  const info = context.getExtension("WEBGL_debug_renderer_info");
  const name = String(context.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : context.RENDERER));
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

class Page {
  private readonly numbers: Numbers;
  private readonly viewers: Viewer[];
  private readonly choosers = new Map<string, Chooser>();
  private readonly spaces = new Map<string, Space>();
  private readonly apart = new Map<number, Simulation>(); // for roll-outs that nobody sees
  private readonly controls: Controls;
  private readonly clock = new Clock();
  private readonly random = new Random(Date.now() >>> 0);
  private readonly status = document.getElementById("status")!;
  private readonly software = findSoftware();
  private readonly finest = this.software ? SOFTWARE_RATIO : Math.min(window.devicePixelRatio, 2);
  private ratio = this.finest;
  private paused = false;
  private speed = 1;
  private tour: number | null = null; // the phase it is at
  private last = 0;
  private lastStatus = 0;
  private judged = 0; // how often pictures were fast, or with a minus slow, one after another
  private firstMotion = 0;
  private follow = true;
  private turn = 0; // which pictures are drawn
  private awake = 0; // until when what rests is drawn, too

  constructor(
    private readonly data: PageData,
    private readonly mujoco: Mujoco | null,
  ) {
    this.numbers = new Numbers(data.arrays);
    this.viewers = data.runs.map((run) => {
      const space = this.spaceOf(new Space(run.space, data.colours));
      return new Viewer(new Simulation(run, this.numbers, mujoco), space, this.software);
    });
    const stage = document.getElementById("stage")!;
    const columns = this.viewers.length === 4 ? 2 : Math.min(this.viewers.length, 3);
    stage.style.setProperty("--columns", String(columns));
    stage.classList.toggle("many", columns > 1);
    stage.replaceChildren(...this.viewers.map(({ root }) => root));
    for (const [key, space] of this.spaces) {
      const followers = this.viewers.filter((viewer) => viewer.space === space).map(({ simulation }) => simulation.about.name);
      const chooser = new Chooser(space, this.spaces.size > 1 ? followers : [], () => this.endTour());
      this.choosers.set(key, chooser);
    }
    this.controls = new Controls({
      pause: () => (this.paused = !this.paused),
      reset: () => this.viewers.forEach(({ simulation }) => simulation.reset()),
      speed: (factor) => (this.speed = factor),
      follow: () => {
        this.follow = !this.follow;
        this.viewers.forEach(({ scene }) => scene && (scene.follow = this.follow));
        return this.follow;
      },
      random: () => {
        this.endTour();
        this.spaces.forEach((space) => space.random(this.random));
        this.updateChoosers();
      },
      tour: () => {
        this.tour = this.tour === null ? 0 : null;
        return this.tour !== null;
      },
      push: () => this.push(2 * Math.PI * this.random.next()),
    });
    const panel = document.getElementById("panel")!;
    panel.replaceChildren(...[...this.choosers.values()].map(({ root }) => root), this.controls.root);
    this.explain();
    new ResizeObserver(() => this.resize()).observe(stage);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
      this.viewers.forEach(({ scene }) => scene?.paint(matches));
    });
    for (const event of ["pointerdown", "pointermove", "wheel", "keydown", "click"]) {
      window.addEventListener(event, () => (this.awake = performance.now() + 500), { capture: true, passive: true });
    }
    this.resize();
    document.documentElement.dataset.ready = "yes";
    requestAnimationFrame((now) => this.frame(now));
  }

  /** Runs with the same kind of latents share one. */
  private spaceOf(made: Space): Space {
    const known = this.spaces.get(made.key);
    if (!known) this.spaces.set(made.key, made);
    return known ?? made;
  }

  private updateChoosers(): void {
    for (const chooser of this.choosers.values()) chooser.update();
  }

  private endTour(): void {
    if (this.tour !== null) this.controls.endTour();
    this.tour = null;
  }

  private push(direction: number): void {
    this.viewers.forEach(({ simulation }) => simulation.body.push(direction));
  }

  private resize(): void {
    this.awake = performance.now() + 500;
    this.viewers.forEach(({ scene }) => scene?.resize(this.ratio));
  }

  private frame(now: number): void {
    requestAnimationFrame((next) => this.frame(next));
    const real = this.last === 0 ? 0 : Math.min((now - this.last) / 1000, LONGEST);
    this.last = now;
    let simulated = 0;
    if (!this.paused) {
      if (this.tour !== null) {
        this.tour += (real * this.speed) / TOUR_SECONDS;
        this.spaces.forEach((space) => space.tour(this.tour!));
        this.updateChoosers();
      }
      const share = Math.max(BUSY, 500 * real) / this.viewers.length;
      simulated = Math.min(
        ...this.viewers.map(({ simulation, space }) =>
          simulation.advance(real * this.speed, space.chosen(), performance.now() + share),
        ),
      );
    }
    // What rests is drawn only while somebody does something, and without a graphics card two pictures at a time.
    const turns = this.software ? Math.ceil(this.viewers.length / 2) : 1;
    this.turn = (this.turn + 1) % turns;
    if (!this.paused || now < this.awake) {
      this.viewers.forEach((viewer, i) => i % turns === this.turn && viewer.draw(turns * real));
    }
    if (this.firstMotion === 0 && simulated > 0) this.firstMotion = performance.now();
    this.clock.count(now / 1000, simulated);
    if (now - this.lastStatus > 500) this.tell(now);
  }

  private tell(now: number): void {
    this.lastStatus = now;
    const { frames, realTime } = this.clock;
    const pace = this.paused ? "paused" : `${realTime.toFixed(2)}× real time`;
    this.status.textContent = `${this.physics()} · ${pace} · ${frames.toFixed(0)} frames/s`;
    this.adapt(frames);
  }

  /** Fewer pixels where pictures come slowly, more again where they come fast, but not at once. */
  private adapt(frames: number): void {
    const [coarser, finer] = [frames < FEW && this.ratio > COARSEST, frames > MANY && this.ratio < this.finest];
    this.judged = coarser ? Math.min(this.judged, 0) - 1 : finer ? Math.max(this.judged, 0) + 1 : 0;
    if (document.hidden || (this.judged > -4 && this.judged < 20)) return;
    this.ratio = Math.min(Math.max(this.ratio * (this.judged < 0 ? 0.8 : 1.25), COARSEST), this.finest);
    this.judged = 0;
    this.resize();
  }

  private physics(): string {
    if (!this.mujoco) return "without physics: the point needs none";
    const trained = [...new Set(this.data.runs.map((run) => run.trained_with).filter((version) => version))];
    const other = trained.length > 0 ? ` (trained with ${trained.join(" and ")})` : "";
    return `physics: MuJoCo ${this.mujoco.mj_versionString()}${other}`;
  }

  private explain(): void {
    const notes = document.getElementById("notes")!;
    for (const { about } of this.viewers.map(({ simulation }) => simulation)) {
      if (about.notes.length > 0) notes.append(element("li", {}, `${about.name}: ${about.notes.join(" ")}`));
    }
  }

  /** What the console and tests can use; see docs/guides/page.md. */
  console() {
    const at = (run: number | string): number => {
      const found = typeof run === "number" ? run : this.data.runs.findIndex(({ name }) => name === run);
      if (!this.viewers[found]) throw new Error(`there is no run ${run}`);
      return found;
    };
    return {
      runs: this.data.runs.map(({ name }) => name),
      figures: () => ({
        mujoco: this.mujoco?.mj_versionString() ?? "",
        software: this.software,
        frames: this.clock.frames,
        realTime: this.clock.realTime,
        firstMotion: this.firstMotion / 1000,
        pixels: this.ratio,
      }),
      state: (run: number | string = 0) => {
        const { simulation, space } = this.viewers[at(run)];
        return {
          state: Array.from(simulation.body.observation()),
          location: simulation.location(),
          time: simulation.time,
          fallen: simulation.lying > 0,
          chosen: Array.from(space.chosen()),
          paused: this.paused,
          speed: this.speed,
          follow: this.follow,
          touring: this.tour !== null,
          resets: simulation.resets,
        };
      },
      choose: (values: number[], run: number | string = 0) => {
        this.endTour();
        this.viewers[at(run)].space.set(values);
        this.updateChoosers();
      },
      push: (direction: number) => this.push(direction),
      act: (state: number[], chosen: number[], run: number | string = 0) => {
        const { agent } = this.viewers[at(run)].simulation;
        const seen = Float32Array.from(state);
        const answer = agent.answer(seen, Float32Array.from(chosen));
        return { answer: Array.from(answer), action: Array.from(agent.action(seen, answer.map(Math.fround))) };
      },
      rollout: (chosen: number[], steps = 200, start: number | number[] = 0, run: number | string = 0) => {
        const number = at(run);
        const known = this.apart.get(number) ?? new Simulation(this.data.runs[number], this.numbers, this.mujoco);
        this.apart.set(number, known);
        return known.rollout(chosen, steps, start);
      },
    };
  }
}

declare global {
  interface Window {
    ibol: ReturnType<Page["console"]>;
  }
}

async function start(): Promise<void> {
  const data = JSON.parse(document.getElementById("data")!.textContent!) as PageData;
  const physics = document.getElementById("physics")!;
  const mujoco = physics.textContent!.trim() ? await loadPhysics(physics.textContent!.trim()) : null;
  physics.remove();
  window.ibol = new Page(data, mujoco).console();
}

start().catch((error: unknown) => {
  document.getElementById("status")!.textContent = `This browser cannot show the page: ${error}`;
  document.documentElement.dataset.ready = "failed";
  throw error;
});
