import { describe, expect, it } from "vitest";
import { complete, fromBytes, insertSuggestion } from "./complete";
import { facetTerm, hasTerm, quoted, toggleTerm, wordsOf } from "./fields";

const known = { api: ["orders", "order items"], key: ["order"], "key.order": ["A-17"] };
const labels = (query: string, caret = query.length) =>
  complete(query, caret, known).suggestions.map((one) => one.label);

describe("completion", () => {
  it("suggests fields", () => {
    expect(labels("st")).toEqual(["status:", "state:"]);
    expect(labels("status:500 -con")).toEqual(["consumer:"]);
    expect(labels("k")).toEqual(["key.order:"]);
    expect(complete("k", 1, {}).suggestions[0]?.insert).toBe("key.");
    expect(labels("").length).toBeGreaterThan(10);
  });
  it("suggests values, facets first", () => {
    expect(labels("api:")).toEqual(["orders", "order items"]);
    expect(labels('api:"order ')).toEqual(["order items"]);
    expect(labels("status:5")).toEqual(["5xx"]);
    expect(labels("key.order:a")).toEqual(["A-17"]);
    expect(labels("state:failed")).toEqual([]);
    expect(labels("body:x")).toEqual([]);
  });
  it("replaces the part at the caret", () => {
    const query = "(api:o) took:>1s";
    const completion = complete(query, 6, known);
    expect(completion.from).toBe(1);
    const [, second] = completion.suggestions;
    expect(insertSuggestion(query, completion, second!)).toEqual({
      query: '(api:"order items" ) took:>1s',
      caret: 19,
    });
    const open = complete("st", 2, known);
    expect(insertSuggestion("st", open, open.suggestions[0]!)).toEqual({ query: "status:", caret: 7 });
  });
  it("counts bytes as the server does", () => {
    expect(fromBytes("aü€😀b", 1)).toBe(1);
    expect(fromBytes("aü€😀b", 3)).toBe(2);
    expect(fromBytes("aü€😀b", 6)).toBe(3);
    expect(fromBytes("aü€😀b", 10)).toBe(5);
    expect(fromBytes("a", 9)).toBe(1);
  });
});

describe("terms", () => {
  it("are quoted if necessary", () => {
    expect(quoted("A-17")).toBe("A-17");
    expect(quoted("GET /x/{id}")).toBe('"GET /x/{id}"');
    expect(quoted('a"b\\')).toBe('"a\\"b\\\\"');
    expect(quoted("OR")).toBe('"OR"');
    expect(facetTerm("receiver", "netty")).toBe("upstream:netty");
    expect(facetTerm("consumer", "")).toBe("-consumer:*");
  });
  it("are added and removed", () => {
    expect(toggleTerm("", "api:a")).toBe("api:a");
    expect(toggleTerm("x", "api:a")).toBe("x api:a");
    expect(toggleTerm("x api:a y", "api:a")).toBe("x y");
    expect(toggleTerm("a OR b", "api:a")).toBe("(a OR b) api:a");
    expect(hasTerm('operation:"GET /a b" x', 'operation:"GET /a b"')).toBe(true);
    expect(hasTerm("(api:a)", "api:a")).toBe(false);
  });
  it("contain the words of the search", () => {
    expect(wordsOf('status:500 refund body:"acme corp" -no key.order:A-17')).toEqual([
      "refund",
      "acme corp",
      "A-17",
    ]);
    expect(wordsOf("(refund OR header.x-a:b) since:1h")).toEqual(["refund", "b"]);
    expect(wordsOf("body:* took:>1s")).toEqual([]);
  });
});
