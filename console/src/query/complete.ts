// What can be typed next in a query: fields first, then values of a field.

import { FIELDS, quoted } from "./fields";

export interface Suggestion {
  /** What stands there once it is taken. */
  insert: string;
  /** What is shown. */
  label: string;
  help: string;
  /** There is more to be typed behind it. */
  open: boolean;
}

export interface Completion {
  /** Where in the query the part to be replaced begins and ends. */
  from: number;
  to: number;
  suggestions: Suggestion[];
}

/** Values that were counted, by field. */
export type Known = Record<string, string[]>;

const MOST = 12;

/** What suits at a place of a query. `known` are values of facets, and the names of keys as `key`. */
export function complete(query: string, caret: number, known: Known): Completion {
  const from = begin(query, caret);
  const typed = query.slice(from, caret);
  const sign = /^[-(]+/.exec(typed)?.[0] ?? "";
  const part = typed.slice(sign.length);
  const at = from + sign.length;
  const colon = part.indexOf(":");
  const suggestions = colon < 0 ? names(part, known) : values(part, colon, known);
  return { from: at, to: caret, suggestions: suggestions.slice(0, MOST) };
}

/** Where the part begins that the caret stands in: quotes keep spaces together. */
function begin(query: string, caret: number): number {
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < caret; at += 1) {
    const c = query[at] as string;
    if (isQuoted && c === "\\") at += 1;
    else if (c === '"') isQuoted = !isQuoted;
    else if (!isQuoted && /\s/.test(c)) start = at + 1;
  }
  return start;
}

function names(part: string, known: Known): Suggestion[] {
  const lower = part.toLowerCase();
  const keys = (known.key ?? []).map((name) => ({ name: `key.${name}`, help: "business key" }));
  const plain = FIELDS.filter((field) => field.name !== "key" || keys.length === 0);
  return [...plain, ...keys]
    .filter((field) => field.name.startsWith(lower))
    .map(({ name, help }) => {
      const insert = name === "key" ? "key." : `${name}:`;
      return { insert, label: insert, help, open: true };
    });
}

function values(part: string, colon: number, known: Known): Suggestion[] {
  const name = part.slice(0, colon);
  const typed = part.slice(colon + 1);
  const text = typed.replace(/^"/, "").replace(/\\(["\\])/g, "$1").toLowerCase();
  const field = FIELDS.find((one) => one.name === name);
  const facet = name.startsWith("key.") ? name : field?.facet;
  const counted = (facet ? known[facet] : undefined) ?? [];
  const fixed = field?.values ?? [];
  const all = [...new Set([...counted, ...fixed])];
  return all
    .filter((value) => value && value.toLowerCase().startsWith(text) && value.toLowerCase() !== text)
    .map((value) => {
      const isFixed = fixed.includes(value);
      const insert = `${name}:${isFixed ? value : quoted(value)}`;
      return { insert, label: value, help: field?.help ?? "business key", open: false };
    });
}

/** A query with a suggestion taken, and where the caret is then. */
export function take(query: string, completion: Completion, chosen: Suggestion): { query: string; caret: number } {
  const behind = query.slice(completion.to);
  const gap = chosen.open || /^\s/.test(behind) ? "" : " ";
  const before = query.slice(0, completion.from) + chosen.insert + gap;
  return { query: before + behind, caret: before.length };
}

/** Where a place in bytes of UTF-8 stands in a text. */
export function fromBytes(text: string, place: number): number {
  let bytes = 0;
  let at = 0;
  for (const character of text) {
    if (bytes >= place) return at;
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += character.length;
  }
  return at;
}
