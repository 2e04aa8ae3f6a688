// Difference of two texts by line.

import { diffArrays } from "diff";

export interface Change {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Bounds of the comparison: texts that differ more are shown as replaced. */
const LIMITS = { maxEditLength: 4000, timeout: 2000 };

export function diff(before: string, after: string): Change[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const change = (kind: Change["kind"]) => (text: string) => ({ kind, text });
  const parts = diffArrays(a, b, LIMITS);
  if (!parts) return [...a.map(change("removed")), ...b.map(change("added"))];
  return parts.flatMap((part) => part.value.map(change(part.added ? "added" : part.removed ? "removed" : "same")));
}
