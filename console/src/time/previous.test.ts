import { expect, it, vi } from "vitest";
import { change, previousRange, shifted } from "./previous";

vi.mock("../url/use-search-text", () => ({}));

it("is of the same length, immediately before", () => {
  const now = new Date("2026-11-20T10:00:00Z");
  const { range, shift } = previousRange({ range: "1h" }, now);
  expect([range, shift]).toEqual([{ from: "2026-11-20T08:00:00Z", to: "2026-11-20T09:00:00Z" }, 3_600_000]);
});

const earlier = (at: number[], values: (number | null)[], step = 10, missing: number | null = null) => ({ at, values, step, missing });

it("is drawn at the times of this range, also with coarser steps", () => {
  expect(shifted([100, 110, 120, 130], 10, earlier([0, 10, 20, 30], [1, 2, null, 4]), 100)).toEqual([1, 2, null, 4]);
  expect(shifted([100, 110, 120, 130], 10, earlier([0, 20], [1, 3], 20), 100)).toEqual([1, 1, 3, 3]);
  expect(shifted([100, 110], 10, earlier([], []), 100)).toEqual([null, null]);
  expect(shifted([100, 110], 10, earlier([500, 510], [1, 1]), 100), "elsewhere").toEqual([null, null]);
});

it("has gaps where the range before has them", () => {
  const times = [100, 110, 120, 130, 140, 150];
  expect(shifted(times, 10, earlier([0, 40], [1, 5]), 100), "nothing is known").toEqual([1, null, null, null, 5, null]);
  expect(shifted(times, 10, earlier([0, 40], [1, 5], 10, 0), 100), "nothing happened").toEqual([1, 0, 0, 0, 5, 0]);
  expect(shifted(times, 10, earlier([4, 44], [1, 5], 10, 0), 100), "not aligned").toEqual([1, 0, 0, 0, 5, 0]);
});

it("is a change in percent", () => {
  expect([change(112, 100), change(95.5, 100), change(1000.1, 1000), change(0, 0), change(5, 0), change(5, undefined)]).toEqual(["+12 %", "−4.5 %", "±0 %", "±0 %", "new", ""]);
});
