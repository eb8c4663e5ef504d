/** Where a latent or a goal is chosen: a pad for two dimensions, sliders for the others, buttons for discrete skills. */

import { element } from "./dom";
import { css, type Space } from "./space";

const FINE = 64; // coloured squares to each side of the pad
const REACH = 1.12; // of the pad beyond the limits, so that its handle is seen whole
const MANY = 8; // sliders that are shown without being asked for

export class Chooser {
  readonly root: HTMLElement;
  private readonly shown: HTMLElement;
  private readonly refresh: (() => void)[] = [];

  /** @param onChange is called when somebody has chosen; `names` are the runs that follow */
  constructor(
    readonly space: Space,
    names: string[],
    private readonly onChange: () => void,
  ) {
    const what = space.about.kind === "goal" ? "Goal" : "Skill";
    this.shown = element("output", { class: "chosen", "aria-live": "off" });
    this.root = element("section", { class: "chooser", "aria-label": `${what} of ${names.join(", ")}` });
    this.root.append(element("h2", {}, what, element("span", { class: "of" }, names.length > 0 ? names.join(", ") : "")));
    this.root.append(space.discrete ? this.buttons() : this.pad(), this.shown);
    if (!space.discrete) this.sliders();
    this.update();
  }

  /** Show the space's present values. */
  update(): void {
    this.shown.textContent = this.space.label();
    this.shown.style.setProperty("--chosen", css(this.space.colour()));
    for (const one of this.refresh) one();
  }

  private choose(values: ArrayLike<number>): void {
    this.space.set(values);
    this.onChange();
    this.update();
  }

  private pad(): HTMLElement {
    const { space } = this;
    const { limit, pad, sign, kind } = space.about;
    const flat = pad.length === 1;
    const canvas = element("canvas", { "aria-hidden": "true" });
    const handle = element("div", { class: "handle" });
    const names = pad.map((dim) => `${sign}${dim + 1}`);
    const root = element(
      "div",
      {
        class: flat ? "pad flat" : "pad",
        tabindex: 0,
        role: "slider",
        "aria-label": `${kind === "goal" ? "goal" : "latent"} ${names.join(" and ")}: arrow keys move, Home goes to the middle`,
        "aria-roledescription": flat ? "slider" : "two-dimensional slider",
        "aria-valuemin": -limit,
        "aria-valuemax": limit,
      },
      canvas,
      element("span", { class: "axis right" }, names[0]),
      ...(flat ? [] : [element("span", { class: "axis top" }, names[1])]),
      handle,
    );
    this.paint(canvas);
    const at = (event: PointerEvent) => {
      const box = root.getBoundingClientRect();
      const x = (2 * (event.clientX - box.left)) / box.width - 1;
      const y = 1 - (2 * (event.clientY - box.top)) / box.height;
      this.choose(space.onPad(REACH * limit * x, flat ? 0 : REACH * limit * y));
    };
    root.addEventListener("pointerdown", (event) => {
      root.setPointerCapture(event.pointerId);
      root.focus();
      event.preventDefault();
      at(event);
    });
    root.addEventListener("pointermove", (event) => {
      if (root.hasPointerCapture(event.pointerId)) at(event);
    });
    root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = limit / (event.shiftKey ? 50 : 10);
      const moves: Record<string, [number, number]> = {
        ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step],
      };
      const [x, y] = [space.values[pad[0]], flat ? 0 : space.values[pad[1]]];
      const move = moves[event.key];
      if (event.key === "Home") this.choose(space.onPad(0, 0));
      else if (move) this.choose(space.onPad(x + (flat ? move[0] + move[1] : move[0]), y + move[1]));
      else return;
      event.preventDefault();
    });
    this.refresh.push(() => {
      this.paint(canvas);
      const made = space.chosen();
      handle.style.left = `${50 + (50 * made[pad[0]]) / (REACH * limit)}%`;
      handle.style.top = flat ? "50%" : `${50 - (50 * made[pad[1]]) / (REACH * limit)}%`;
      handle.style.background = css(space.colour());
      root.setAttribute("aria-valuenow", made[pad[0]].toFixed(2));
      root.setAttribute("aria-valuetext", space.label());
    });
    return root;
  }

  private painted = "";

  /** The colours of all places; those of a sphere depend on the other dimensions. */
  private paint(canvas: HTMLCanvasElement): void {
    const { space } = this;
    const { limit, pad, kind } = space.about;
    const others = kind === "sphere" ? space.values.filter((_, i) => !pad.includes(i)).join(" ") : "-";
    if (others === this.painted) return;
    this.painted = others;
    canvas.width = FINE;
    canvas.height = pad.length === 1 ? 1 : FINE;
    const pen = canvas.getContext("2d")!;
    const image = pen.createImageData(canvas.width, canvas.height);
    for (let row = 0, i = 0; row < canvas.height; row++) {
      for (let column = 0; column < FINE; column++, i += 4) {
        const [x, y] = [(2 * column + 1) / FINE - 1, pad.length === 1 ? 0 : 1 - (2 * row + 1) / FINE];
        image.data.set(space.colour(space.onPad(REACH * limit * x, REACH * limit * y)).map((value) => 255 * value), i);
        image.data[i + 3] = 255;
      }
    }
    pen.putImageData(image, 0, 0);
  }

  private sliders(): void {
    const { space } = this;
    const { dim, pad, limit, sign } = space.about;
    const others = Array.from({ length: dim }, (_, i) => i).filter((i) => !pad.includes(i));
    if (others.length === 0) return;
    const rows = others.map((i) => {
      const input = element("input", { type: "range", min: -limit, max: limit, step: limit / 100 });
      const number = element("output");
      input.addEventListener("input", () => {
        const values = Array.from(space.values);
        values[i] = Number(input.value);
        this.choose(values);
      });
      this.refresh.push(() => {
        input.value = String(space.values[i]);
        number.textContent = space.values[i].toFixed(2);
      });
      return element("label", { class: "slider" }, `${sign}${i + 1}`, input, number);
    });
    const all = element("div", { class: "sliders" }, ...rows);
    if (others.length <= MANY) this.root.append(all);
    else this.root.append(element("details", {}, element("summary", {}, `${others.length} more dimensions`), all));
  }

  private buttons(): HTMLElement {
    const { space } = this;
    const made = Array.from({ length: space.about.dim }, (_, i) => {
      const button = element("button", { type: "button", class: "skill", "aria-label": `skill ${i}` }, String(i));
      button.style.setProperty("--own", css(space.colour(Array.from(space.values, (_, j) => (j === i ? 1 : 0)))));
      button.addEventListener("click", () => {
        space.setSkill(i);
        this.onChange();
        this.update();
      });
      this.refresh.push(() => button.setAttribute("aria-pressed", String(space.values[i] === 1)));
      return button;
    });
    return element("div", { class: "skills", role: "group", "aria-label": "skills" }, ...made);
  }
}
