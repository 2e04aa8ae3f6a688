// Differences of two JSON documents by path.

import { create, type Delta } from "jsondiffpatch";

export interface PathChange {
  /** JSONPath: `$.lines[2].price`. */
  path: string;
  kind: "added" | "removed" | "changed" | "moved";
  before?: unknown;
  after?: unknown;
}

/** Longer arrays are not compared: time and memory grow with the square. */
const MAX_ITEMS = 1500;

/** Elements of an array belong together by their `id`, or else by their position. */
const differ = create({
  objectHash: (item, index) => {
    const id = (item as { id?: unknown }).id;
    return typeof id === "string" || typeof id === "number" ? `id:${id}` : `at:${index}`;
  },
});

/** The changes; undefined if one text is not JSON, or too large or too deep to be compared. */
export function compareJson(before: string, after: string): PathChange[] | undefined {
  try {
    const [a, b] = [parse(before), parse(after)];
    if (hasLongArray(a) || hasLongArray(b)) return undefined;
    const found: PathChange[] = [];
    walk("$", differ.diff(a, b), found);
    return found;
  } catch {
    return undefined;
  }
}

/** Integers that a number cannot hold stay different: as their digits. */
function parse(text: string): unknown {
  const revive = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value;
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

function hasLongArray(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value) && value.length > MAX_ITEMS) return true;
  return Object.values(value).some(hasLongArray);
}

function walk(path: string, delta: Delta, found: PathChange[]): void {
  if (delta === undefined) return;
  if (Array.isArray(delta)) {
    found.push(leaf(path, delta as unknown[]));
    return;
  }
  const isArray = (delta as { _t?: unknown })._t === "a";
  for (const [key, inner] of Object.entries(delta)) {
    if (isArray && key === "_t") continue;
    const next = isArray ? `${path}[${key.replace("_", "")}]` : `${path}${member(key)}`;
    walk(next, inner as Delta, found);
  }
}

/** A delta is `[new]`, `[old, new]`, `[old, 0, 0]` or, of an element that has moved, `["", position, 3]`. */
function leaf(path: string, delta: unknown[]): PathChange {
  if (delta.length === 1) return { path, kind: "added", after: delta[0] };
  if (delta.length === 2) return { path, kind: "changed", before: delta[0], after: delta[1] };
  if (delta[2] === 3) return { path, kind: "moved", after: `to ${path.replace(/\[\d+\]$/, `[${String(delta[1])}]`)}` };
  return { path, kind: "removed", before: delta[0] };
}

function member(key: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
