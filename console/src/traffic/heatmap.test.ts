import { describe, expect, it } from "vitest";
import { heatmap } from "./heatmap";
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
