import { describe, expect, it } from "vitest";
import type { SpaceData } from "../src/data";
import { Random } from "../src/random";
import { Space } from "../src/space";
import { Trail } from "../src/trail";

const COLOURS = { scale: 1.5, range: 4, radius: 1.5 };

function space(kind: SpaceData["kind"], dim: number, pad = [0, 1]): Space {
  return new Space({ kind, dim, pad, limit: kind === "gaussian" ? 2 : 1, sign: kind === "goal" ? "g" : "z" }, COLOURS);
}

describe("a space", () => {
  it("has the colours of our figures", () => {
    // (1.5 * 2 + 4) / 8 = 0.875 and (0 + 4) / 8 = 0.5 leave (2 - 1.375) / 2 = 0.3125 for blue.
    expect(space("gaussian", 2).colour([2, 0])).toEqual([0.875, 0.5, 0.3125]);
    expect(space("goal", 5, [0, 3]).colour([0, 1, 1, 1, 1])[1]).toBeCloseTo((1.5 * 1.5 + 4) / 8);
  });

  it("keeps to its limits and takes no nonsense", () => {
    const made = space("gaussian", 3);
    made.set([5, -7, Number.NaN]);
    expect(Array.from(made.values)).toEqual([2, -2, 0]);
  });

  it("goes around", () => {
    const made = space("gaussian", 2);
    made.tour(0.25);
    expect(made.values[0]).toBeCloseTo(0);
    expect(made.values[1]).toBeCloseTo(1.5);
    const skills = space("one_hot", 4);
    expect([0, 0.3, 0.6, 0.9, 1.1].map((phase) => (skills.tour(phase), skills.label()))).toEqual([
      "skill 0", "skill 1", "skill 2", "skill 3", "skill 0",
    ]);
  });

  it("chooses unit vectors from a sphere, even in its middle", () => {
    const made = space("sphere", 3);
    made.set([0, 0, 0]);
    expect(Array.from(made.chosen())).toEqual([1, 0, 0]);
    made.random(new Random(1));
    expect(Math.hypot(...made.chosen())).toBeCloseTo(1);
  });

  it("says what is chosen", () => {
    const goal = space("goal", 29);
    expect(goal.label()).toBe("g = (1.00, 0.00)");
    goal.set(Array.from({ length: 29 }, () => -0.001));
    expect(goal.label()).toBe("g = (0.00, 0.00, …)");
    expect(space("gaussian", 1, [0]).label()).toBe("z = 1.50");
  });
});

describe("random numbers", () => {
  it("have the moments that they should have, and follow from the seed", () => {
    const drawn = Array.from({ length: 20000 }, ((random) => () => random.normal())(new Random(3)));
    const mean = drawn.reduce((sum, x) => sum + x, 0) / drawn.length;
    const variance = drawn.reduce((sum, x) => sum + (x - mean) ** 2, 0) / drawn.length;
    expect(Math.abs(mean)).toBeLessThan(0.03);
    expect(Math.abs(variance - 1)).toBeLessThan(0.05);
    expect(new Random(7).next()).toBe(new Random(7).next());
    expect(new Random(7).next()).not.toBe(new Random(8).next());
  });
});

describe("a trail", () => {
  it("keeps places that are apart, and forgets the oldest", () => {
    const trail = new Trail(0.5);
    for (let i = 0; i < 100; i++) trail.add(0.1 * i, 0, i, [0, 0, 0]);
    expect(trail.places.length).toBeGreaterThan(15);
    expect(trail.places.length).toBeLessThanOrEqual(20);
    for (let i = 0; i < 10000; i++) trail.add(i, 0, i, [0, 0, 0]);
    expect(trail.places.length).toBeLessThanOrEqual(6000);
    expect(trail.version).toBeGreaterThan(0);
  });
});
