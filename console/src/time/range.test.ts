import { expect, it } from "vitest";
import { asTerms, between, readRange, resolveRange, seconds, within } from "./range";

it("reads only valid ranges from a URL", () => {
  expect(readRange({ range: "1h", other: 1 })).toEqual({ range: "1h" });
  expect(readRange({ range: "15m" })).toEqual({});
  expect(readRange({ range: "1 year" })).toEqual({});
  expect(readRange({ from: "2026-11-20T10:00:00Z", to: "2026-11-20T09:00:00Z" })).toEqual({});
  const both = { from: "2026-11-20T10:00:00Z", to: "2026-11-20T11:00:00Z" };
  expect(readRange({ ...both, range: "1h" })).toEqual(both);
  expect(seconds("2d")).toBe(172800);
  expect(seconds("x")).toBeUndefined();
});

it("resolves a rolling range against the current time", () => {
  const now = new Date("2026-11-20T10:00:00Z");
  const range = resolveRange({ range: "1h" }, now);
  expect(range.from.toISOString()).toBe("2026-11-20T09:00:00.000Z");
  expect(range.rolling).toBe(true);
  expect(resolveRange({}, now).back).toBe("15m");
});

it("rounds a selected range outwards to seconds", () => {
  const at = Date.parse("2026-11-20T10:00:00Z");
  expect(between(at + 100, at + 1100)).toEqual({
    from: "2026-11-20T10:00:00Z",
    to: "2026-11-20T10:00:02Z",
  });
  expect(between(at, at).to).toBe("2026-11-20T10:00:01Z");
});

it("puts a query in parentheses and reports its offset", () => {
  expect(within("", {})).toEqual({ query: "since:15m", before: 0 });
  expect(within("a OR b", { range: "1h" })).toEqual({ query: "(a OR b) since:1h", before: 1 });
  expect(within("  a", {}).before).toBe(-1);
  expect(asTerms({ from: "a", to: "b" })).toBe("after:a before:b");
});
