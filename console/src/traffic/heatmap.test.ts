import { describe, expect, it } from "vitest";
import { heatmap, neighbour } from "./heatmap";
import type { Interval } from "./queries";

const interval = (bins: [number, number][]): Interval => ({
  time: "2026-11-28T10:00:00Z",
  classes: [0, 0, 0, 0, 0, 0],
  failed: 0,
  durations: { p50_us: 0, p90_us: 0, p99_us: 0, max_us: 0, bins },
});

describe("heatmap", () => {
  it("has two rows for each power of two, from the shortest to the longest duration", () => {
    const { bounds, cells, most } = heatmap([interval([[1000, 2], [1010, 3]]), interval([[2100, 7]])]);
    expect(bounds.map(Math.round)).toEqual([724, 1024, 1448, 2048, 2896]);
    expect(cells).toEqual([
      { column: 0, row: 0, count: 5 },
      { column: 1, row: 3, count: 7 },
    ]);
    expect(most).toBe(7);
  });
  it("is empty without transactions", () => {
    expect(heatmap([interval([])]).cells).toEqual([]);
  });
  it("has a row of durations below a microsecond", () => {
    expect(heatmap([interval([[0, 1], [1, 1]])]).bounds).toEqual([0, 1, Math.SQRT2]);
  });
});

describe("keys", () => {
  const cells = [[0, 1], [0, 4], [2, 0], [2, 3], [5, 3]].map(([column = 0, row = 0]) => ({ column, row, count: 1 }));
  const from = (at: number, key: string) => {
    const found = neighbour(cells, cells[at] as never, key);
    return found && cells.indexOf(found);
  };
  it("lead to the nearest cell in their direction, over gaps", () => {
    expect(["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown"].map((key) => from(3, key))).toEqual([4, 1, 3, 2]);
    expect([from(0, "ArrowUp"), from(1, "ArrowDown"), from(4, "ArrowRight"), from(0, "ArrowLeft")]).toEqual([1, 0, 4, 0]);
    expect([from(2, "Home"), from(1, "End"), from(0, "Enter")]).toEqual([0, 4, undefined]);
  });
});
