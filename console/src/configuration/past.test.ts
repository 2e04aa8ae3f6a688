import { expect, test } from "vitest";
import { type Past, windows, within } from "./past";

const at = (minute: number) => new Date(Date.UTC(2026, 10, 28, 10, minute)).toISOString();
const past = (number: number, time: string, until?: string): Past => ({ number, time, by: "files", configuration: `c${number}`, digest: "", findings: 0, ...(until ? { until } : {}) });

test("the configurations of a range are in the order of their times", () => {
  const all = [past(3, at(30)), past(2, at(20)), past(1, at(0))];
  const found = within(all, { from: at(20), to: at(31) }, new Date(at(59)));
  expect(found.map((one) => one.number)).toEqual([2, 3]);
});

test("before and after are equally long, as long as both were in force and at most 30 minutes", () => {
  const short = windows(past(2, at(20)), past(1, at(15)), new Date(at(59)));
  expect(short).toEqual({ before: { from: at(15), to: at(20) }, after: { from: at(20), to: at(25) } });
  const ended = windows(past(2, at(40), at(42)), past(1, at(0)), new Date(at(59)));
  expect(ended).toEqual({ before: { from: at(38), to: at(40) }, after: { from: at(40), to: at(42) } });
  const long = windows(past(2, at(0)), null, new Date(Date.parse(at(59)) + 3_600_000));
  expect(long.after.to).toBe(at(30));
});
