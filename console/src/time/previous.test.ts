import { expect, it, vi } from "vitest";
import { change, previousRange, shifted } from "./previous";

vi.mock("../url/use-search-text", () => ({}));

it("is of the same length, immediately before", () => {
  const now = new Date("2026-11-20T10:00:00Z");
  const { range, shift } = previousRange({ range: "1h" }, now);
  expect([range, shift]).toEqual([{ from: "2026-11-20T08:00:00Z", to: "2026-11-20T09:00:00Z" }, 3_600_000]);
});

it("is drawn at the times of this range, also with coarser steps", () => {
  expect(shifted([100, 110, 120, 130], { at: [0, 10, 20, 30], values: [1, 2, null, 4] }, 100)).toEqual([1, 2, null, 4]);
  expect(shifted([100, 110, 120, 130], { at: [0, 20], values: [1, 3] }, 100)).toEqual([1, 1, 3, 3]);
  expect(shifted([100, 110], { at: [], values: [] }, 100)).toEqual([null, null]);
  expect(shifted([100, 110], { at: [500, 510], values: [1, 1] }, 100), "elsewhere").toEqual([null, null]);
});

it("is a change in percent", () => {
  expect([change(112, 100), change(95.5, 100), change(1000.1, 1000), change(0, 0), change(5, 0), change(5, undefined)]).toEqual(["+12 %", "−4.5 %", "±0 %", "±0 %", "new", ""]);
});
