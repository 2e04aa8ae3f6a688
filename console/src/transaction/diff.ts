// Difference of two texts by line.

import { diffArrays } from "diff";

export interface Change {
  kind: "same" | "removed" | "added";
  text: string;
}

/** A line that is shown; `gap`: equal lines that are not. */
export interface DiffLine {
  kind: Change["kind"] | "gap";
  text: string;
  /** The line that replaces it, or that it replaces. */
  other?: string;
}

/** Bounds of the comparison: texts that differ more are shown as replaced. */
const LIMITS = { maxEditLength: 4000, timeout: 2000 };
/** Equal lines that are shown before and after a change. */
const AROUND = 2;

export function diff(before: string, after: string): Change[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const change = (kind: Change["kind"]) => (text: string) => ({ kind, text });
  const parts = diffArrays(a, b, LIMITS);
  if (!parts) return [...a.map(change("removed")), ...b.map(change("added"))];
  return parts.flatMap((part) => part.value.map(change(part.added ? "added" : part.removed ? "removed" : "same")));
}

/** Changed lines with the equal ones around them; other equal lines are gaps. */
export function linesOf(changes: Change[]): DiffLine[] {
  const others = counterparts(changes);
  const isNear = new Uint8Array(changes.length);
  changes.forEach((change, at) => {
    if (change.kind !== "same") isNear.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const lines: DiffLine[] = [];
  changes.forEach((change, at) => {
    const other = others.get(at);
    if (isNear[at]) lines.push(other === undefined ? change : { ...change, other });
    else if (isNear[at - 1]) lines.push({ kind: "gap", text: "" });
  });
  return lines;
}

/** Removed lines belong to the added ones that follow them, in their order. */
function counterparts(changes: Change[]): Map<number, string> {
  const found = new Map<number, string>();
  let removed: number[] = [];
  let pairs = 0;
  changes.forEach((change, at) => {
    if (change.kind === "removed") {
      if (pairs > 0) [removed, pairs] = [[], 0];
      removed.push(at);
    } else if (change.kind === "added" && pairs < removed.length) {
      const before = removed[pairs] as number;
      pairs += 1;
      found.set(before, change.text);
      found.set(at, changes[before]?.text ?? "");
    } else if (change.kind === "same") {
      [removed, pairs] = [[], 0];
    }
  });
  return found;
}

/** A part of a text, and the numbers of characters before and after it. */
export interface Excerpt {
  text: string;
  before: number;
  after: number;
}

/** At most `most` characters of a text: those around the first difference from another one. */
export function excerpt(text: string, other: string | undefined, most: number): Excerpt {
  let equal = 0;
  if (text.length > most && other !== undefined) while (equal < text.length && text.charCodeAt(equal) === other.charCodeAt(equal)) equal += 1;
  const before = Math.max(0, Math.min(equal - Math.floor(most / 2), text.length - most));
  const part = text.slice(before, before + most);
  return { text: part, before, after: text.length - before - part.length };
}
