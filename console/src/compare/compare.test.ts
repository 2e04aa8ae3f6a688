import { describe, expect, it } from "vitest";
import { compareHeaders } from "./headers";
import { compareJson } from "./json";

describe("headers", () => {
  it("are compared by name without case, with all their values", () => {
    const field = (name: string, value: string) => ({ name, value });
    const before = [field("Accept", "a"), field("x-one", "1"), field("Via", "a"), field("via", "b")];
    const after = [field("accept", "a"), field("X-Two", "2"), field("via", "b"), field("via", "a")];
    const kinds = compareHeaders(before, after).map((one) => [one.name, one.kind]);
    expect(kinds).toEqual([["accept", "same"], ["via", "changed"], ["x-one", "removed"], ["x-two", "added"]]);
  });
});

describe("JSON", () => {
  const of = (before: unknown, after: unknown) => compareJson(JSON.stringify(before), JSON.stringify(after))?.map(({ path, kind }) => [path, kind]);
  it("is compared by path", () => {
    expect(of({ a: 1, "b c": { d: 2 }, e: 1 }, { a: 1, "b c": { d: 3 }, f: null })).toEqual([['$["b c"].d', "changed"], ["$.e", "removed"], ["$.f", "added"]]);
    expect(compareJson('{"a":"x"}', '{"a":"y"}')).toEqual([{ path: "$.a", kind: "changed", before: "x", after: "y" }]);
  });
  it("has elements that belong together by their id", () => {
    expect(of([{ id: 1, n: 1 }, { id: 2, n: 1 }], [{ id: 2, n: 1 }])).toEqual([["$[0]", "removed"]]);
    expect(of([{ id: 1 }, { id: 2 }], [{ id: 2 }, { id: 1 }])?.map(([, kind]) => kind)).toEqual(["moved"]);
  });
  it("says what it cannot compare", () => {
    expect(compareJson("{", "{}")).toBeUndefined();
    expect(of(Array(2000).fill(1), [])).toBeUndefined();
    const many = Array.from({ length: 10 }, () => Array(1000).fill(1));
    expect(of(many, []), "long in sum").toBeUndefined();
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    expect(compareJson(deep, deep.replace("[]", "[1]"))).toBeUndefined();
  });
  it("has elements that are null", () => {
    expect(of([null, { id: 1, n: 1 }], [{ id: 1, n: 2 }, null])?.length).toBeGreaterThan(0);
    expect(of([null, 1], [{}, 1])).toEqual([["$[0]", "changed"]]);
  });
  it("has members with names of inherited properties", () => {
    expect(compareJson("{}", '{"constructor":1,"__proto__":{"toString":2},"_t":"a"}')).toEqual([
      { path: "$.constructor", kind: "added", after: 1 },
      { path: "$.__proto__", kind: "added", after: { toString: 2 } },
      { path: "$._t", kind: "added", after: "a" },
    ]);
    expect(of(JSON.parse('{"__proto__":{"a":1}}'), JSON.parse('{"__proto__":{"a":2}}'))).toEqual([["$.__proto__.a", "changed"]]);
  });
  it("tells numbers apart that are too large", () => {
    expect(compareJson('{"a":12345678901234567890}', '{"a":12345678901234567891}')).toHaveLength(1);
  });
});
