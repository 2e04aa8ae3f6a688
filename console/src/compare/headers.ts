// Headers of two messages by name.

import type { Schemas } from "../api/client";

type Field = Schemas["Field"];

export interface HeaderChange {
  name: string;
  kind: "same" | "added" | "removed" | "changed";
  /** All values of the name, in their order. */
  before: string[];
  after: string[];
}

/** Every name of either, in alphabetical order; names are compared without case. */
export function compareHeaders(before: Field[], after: Field[]): HeaderChange[] {
  const [a, b] = [byName(before), byName(after)];
  const names = [...new Set([...a.keys(), ...b.keys()])].sort();
  return names.map((name) => {
    const [old, now] = [a.get(name) ?? [], b.get(name) ?? []];
    const isSame = old.length === now.length && old.every((value, at) => value === now[at]);
    const kind = isSame ? "same" : old.length === 0 ? "added" : now.length === 0 ? "removed" : "changed";
    return { name, kind, before: old, after: now };
  });
}

function byName(fields: Field[]): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { name, value } of fields) {
    const key = name.toLowerCase();
    found.set(key, [...(found.get(key) ?? []), value]);
  }
  return found;
}
