// Differences of two JSON documents by path.

import { create, type Delta } from "jsondiffpatch";

export interface PathChange {
  /** JSONPath: `$.lines[2].price`. */
  path: string;
  kind: "added" | "removed" | "changed" | "moved";
  before?: unknown;
  after?: unknown;
}

/** Sum of the squares of the lengths of arrays: time and memory grow with it. Beyond it they are not compared. */
const MAX_SQUARES = 1500 ** 2;

/**
 * Precedes the names of members while documents are compared: a name such as `constructor` or `__proto__` is
 * then not that of an inherited property.
 */
const MARK = ".";

/** Elements of an array belong together by their `id`, or else by their position. */
const differ = create({
  objectHash: (item, index) => {
    const id = (item as Record<string, unknown> | null)?.[`${MARK}id`];
    return typeof id === "string" || typeof id === "number" ? `id:${id}` : `at:${index}`;
  },
});

/** The changes; undefined if one text is not JSON, or too large or too deep to be compared. */
export function compareJson(before: string, after: string): PathChange[] | undefined {
  try {
    const [a, b] = [parse(before), parse(after)];
    if (squares(a) > MAX_SQUARES || squares(b) > MAX_SQUARES) return undefined;
    const found: PathChange[] = [];
    walk("$", differ.diff(a, b), found);
    return found;
  } catch {
    return undefined;
  }
}

/** Integers that a number cannot hold stay different: as their digits. */
function parse(text: string): unknown {
  const revive = (_: string, value: unknown, context?: { source?: string }) => {
    if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source) return context.source;
    return isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [MARK + name, inner])) : value;
  };
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value of a document that was parsed, with the names of its members. */
function unmarked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unmarked);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name.slice(MARK.length), unmarked(inner)]));
}

function squares(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = Array.isArray(value) ? value.length ** 2 : 0;
  return Object.values(value).reduce<number>((sum, inner) => sum + squares(inner), own);
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
    const next = isArray ? `${path}[${key.replace("_", "")}]` : `${path}${member(key.slice(MARK.length))}`;
    walk(next, inner as Delta, found);
  }
}

/** A delta is `[new]`, `[old, new]`, `[old, 0, 0]` or, of an element that has moved, `["", position, 3]`. */
function leaf(path: string, delta: unknown[]): PathChange {
  if (delta.length === 1) return { path, kind: "added", after: unmarked(delta[0]) };
  if (delta.length === 2) return { path, kind: "changed", before: unmarked(delta[0]), after: unmarked(delta[1]) };
  if (delta[2] === 3) return { path, kind: "moved", after: `to ${path.replace(/\[\d+\]$/, `[${String(delta[1])}]`)}` };
  return { path, kind: "removed", before: unmarked(delta[0]) };
}

function member(key: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
