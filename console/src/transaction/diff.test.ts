import { expect, it } from "vitest";
import { diff, excerpt, linesOf } from "./diff";

const numbered = (length: number) => Array.from({ length }, (_, at) => `line ${at}`);

it("leaves out equal lines, wherever the change is", () => {
  const before = numbered(9000);
  const after = before.with(8000, "other");
  const lines = linesOf(diff(before.join("\n"), after.join("\n")));
  expect(lines.map((line) => line.kind)).toEqual(["same", "same", "removed", "added", "same", "same", "gap"]);
  expect(lines.filter((line) => line.other).map((line) => [line.text, line.other])).toEqual([["line 8000", "other"], ["other", "line 8000"]]);
});

it("pairs lines that replace each other only", () => {
  const lines = linesOf(diff("a\nb\nx\nc", "A\nx\nC\nD"));
  expect(lines.map((line) => [line.text, line.other])).toEqual([["a", "A"], ["b", undefined], ["A", "a"], ["x", undefined], ["c", "C"], ["C", "c"], ["D", undefined]]);
});

it("shows the part of a long line that differs, and says what it does not", () => {
  const [a, b] = [`${"x".repeat(5000)}1${"y".repeat(5000)}`, `${"x".repeat(5000)}2${"y".repeat(5000)}`];
  const part = excerpt(a, b, 100);
  expect([part.text.length, part.text.includes("1"), part.before, part.after]).toEqual([100, true, 4950, 4951]);
  expect(excerpt(a, `${a}!`, 100)).toEqual({ text: "y".repeat(100), before: 9901, after: 0 });
  expect(excerpt("short", "other", 100)).toEqual({ text: "short", before: 0, after: 0 });
});
