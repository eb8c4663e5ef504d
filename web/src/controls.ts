/** The buttons that all runs share, with their keys. */

import { element } from "./dom";

export const SPEEDS = [0.25, 0.5, 1, 2, 4];

export interface Actions {
  pause(): boolean;
  reset(): void;
  speed(factor: number): void;
  follow(): boolean;
  random(): void;
  tour(): boolean;
  push(): void;
}

export class Controls {
  readonly root: HTMLElement;
  private readonly keys = new Map<string, () => void>();
  private readonly speeds: HTMLButtonElement[];
  private readonly touring: HTMLButtonElement;
  private factor = 1;

  constructor(private readonly actions: Actions) {
    const pause = this.toggle("Pause", " ", "Space", false, () => {
      const paused = actions.pause();
      pause.firstChild!.textContent = paused ? "Go on" : "Pause";
      return paused;
    });
    this.touring = this.toggle("Tour", "t", "T", false, () => actions.tour());
    this.speeds = SPEEDS.map((factor) => {
      const name = `${factor}×`;
      return element("button", { type: "button", "aria-label": `speed ${factor} times`, click: () => this.setSpeed(factor) }, name);
    });
    this.keys.set("[", () => this.faster(-1));
    this.keys.set("]", () => this.faster(1));
    this.root = element(
      "section",
      { class: "controls", "aria-label": "Controls" },
      element(
        "div",
        { class: "row" },
        this.button("Random skill", "n", "N", () => actions.random()),
        this.touring,
        this.button("Push", "p", "P", () => actions.push()),
      ),
      element(
        "div",
        { class: "row" },
        pause,
        this.button("Reset", "r", "R", () => actions.reset()),
        this.toggle("Follow", "f", "F", true, () => actions.follow()),
      ),
      element("div", { class: "row speeds", role: "group", "aria-label": "Speed, keys [ and ]" }, ...this.speeds),
    );
    this.setSpeed(1);
    window.addEventListener("keydown", (event) => this.press(event));
  }

  /** Show that the tour has ended because somebody has chosen. */
  endTour(): void {
    this.touring.setAttribute("aria-pressed", "false");
  }

  private press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    // Space presses a button that has the focus, and letters belong to fields of text.
    if (event.key === " " && target.closest("button, summary, input, a")) return;
    const act = this.keys.get(event.key.toLowerCase());
    if (!act) return;
    event.preventDefault();
    act();
  }

  private button(text: string, key: string, shown: string, act: () => void): HTMLButtonElement {
    this.keys.set(key, act);
    const properties = { type: "button", "aria-keyshortcuts": shown, click: act };
    return element("button", properties, element("span", {}, text), element("kbd", { "aria-hidden": "true" }, shown));
  }

  private toggle(text: string, key: string, shown: string, on: boolean, act: () => boolean): HTMLButtonElement {
    const made = this.button(text, key, shown, () => made.setAttribute("aria-pressed", String(act())));
    made.setAttribute("aria-pressed", String(on));
    return made;
  }

  private faster(by: number): void {
    const at = SPEEDS.indexOf(this.factor) + by;
    if (SPEEDS[at] !== undefined) this.setSpeed(SPEEDS[at]);
  }

  private setSpeed(factor: number): void {
    this.factor = factor;
    this.actions.speed(factor);
    this.speeds.forEach((button, i) => button.setAttribute("aria-pressed", String(SPEEDS[i] === factor)));
  }
}
