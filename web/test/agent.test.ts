import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Agent } from "../src/agent";
import { Numbers, type StoredAgent } from "../src/data";

interface Case {
  name: string;
  agent: StoredAgent;
  states: number[][];
  chosen: number[][];
  actions: number[][];
}

const kept = JSON.parse(readFileSync(new URL("numbers.json", import.meta.url), "utf8")) as { arrays: string[]; cases: Case[] };
const numbers = new Numbers(kept.arrays);

describe.each(kept.cases)("$name", ({ agent: stored, states, chosen, actions }) => {
  it("answers as the Python policy does", () => {
    const agent = new Agent(stored, numbers);
    states.forEach((state, i) => {
      const seen = Float32Array.from(state);
      const action = agent.action(seen, agent.answer(seen, chosen[i]));
      action.forEach((value, j) => expect(value).toBeCloseTo(actions[i][j], 5));
    });
  });

  it("answers anew at macro steps, or at once for a goal that is chosen by hand", () => {
    const agent = new Agent(stored, numbers);
    const steps = [0, 1, 5, 6, 10].filter((step) => agent.answersAt(step));
    expect(steps).toEqual(stored.kind === "skills" ? [0, 5, 10] : [0, 1, 5, 6, 10]);
  });
});
