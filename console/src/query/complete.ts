// Completion of a query: fields first, then values of a field.

import { FIELDS, quoted } from "./fields";

export interface Suggestion {
  /** Inserted text. */
  insert: string;
  /** Displayed text. */
  label: string;
  help: string;
  /** More input follows the inserted text. */
  open: boolean;
}

export interface Completion {
  /** Start and end of the replaced part of the query. */
  from: number;
  to: number;
  suggestions: Suggestion[];
}

/** Facet values by field. */
export type Known = Record<string, string[]>;

const MAX_SUGGESTIONS = 12;

/** Suggestions at the caret. `known` contains facet values, and the names of keys as `key`. */
export function complete(query: string, caret: number, known: Known): Completion {
  const from = startOf(query, caret);
  const typed = query.slice(from, caret);
  const sign = /^[-(]+/.exec(typed)?.[0] ?? "";
  const part = typed.slice(sign.length);
  const at = from + sign.length;
  const colon = part.indexOf(":");
  const suggestions = colon < 0 ? names(part, known) : values(part, colon, known);
  return { from: at, to: caret, suggestions: suggestions.slice(0, MAX_SUGGESTIONS) };
}

/** Start of the part that contains the caret; spaces in quotation marks do not separate. */
function startOf(query: string, caret: number): number {
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

/** The query with an inserted suggestion, and the new position of the caret. */
export function insertSuggestion(query: string, completion: Completion, chosen: Suggestion): { query: string; caret: number } {
  const behind = query.slice(completion.to);
  const gap = chosen.open || /^\s/.test(behind) ? "" : " ";
  const before = query.slice(0, completion.from) + chosen.insert + gap;
  return { query: before + behind, caret: before.length };
}

/** Converts an offset in bytes of UTF-8 to an offset in a text. */
export function fromBytes(text: string, offset: number): number {
  let bytes = 0;
  let at = 0;
  for (const character of text) {
    if (bytes >= offset) return at;
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += character.length;
  }
  return at;
}
