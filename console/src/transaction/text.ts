// Text of bodies: pretty printing, visible control characters, highlighting.

export type Kind = "json" | "xml" | "text";

/** Replaces invisible characters, and characters that change the text direction, by code points. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000B-\u001F\u007F\u0080-\u009F\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF\uFFF9-\uFFFB]/g, (c) => {
    return `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** Pretty-printed JSON with unchanged tokens; undefined if the text is not JSON. */
export function prettyJson(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Without a regular expression: a match for each token of a MiB takes too long.
  const out: string[] = [];
  let depth = 0;
  let before = 0;
  const pad = () => `\n${"  ".repeat(Math.min(depth, 200))}`;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    const begin = at;
    at += 1;
    if (code === SPACE || code === 0x0a || code === 0x0d || code === 0x09) continue;
    const isClosing = code === 0x7d || code === 0x5d;
    if (isClosing) depth -= 1;
    if (isClosing ? !isOpening(before) : isOpening(before)) out.push(pad());
    if (code === COMMA) {
      out.push(",", pad());
    } else if (code === COLON) {
      out.push(": ");
    } else {
      if (code === QUOTE) at = endOfString(text, begin);
      else if (!isClosing && !isOpening(code)) while (at < text.length && !isDelimiter(text.charCodeAt(at))) at += 1;
      out.push(text.slice(begin, at));
      if (isOpening(code)) depth += 1;
    }
    before = code;
  }
  return out.join("");
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;

function isOpening(code: number): boolean {
  return code === 0x7b || code === 0x5b;
}

function isDelimiter(code: number): boolean {
  return code <= SPACE || code === COMMA || code === 0x7d || code === 0x5d || code === COLON;
}

/** Position behind the quotation mark that ends the string at `begin`. */
function endOfString(text: string, begin: number): number {
  let end = begin;
  do {
    end = text.indexOf('"', end + 1);
    if (end < 0) return text.length;
  } while (isEscaped(text, end));
  return end + 1;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === 0x5c) first -= 1;
  return (at - first) % 2 === 1;
}

/** XML with one element per line; undefined if its tags do not match. */
export function prettyXml(text: string): string | undefined {
  if (!/^\s*</.test(text)) return undefined;
  const out: string[] = [];
  let open: string[] = [];
  let isInline = false;
  const parts = /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<\?[\s\S]*?\?>|<![^>]*>|<\/[^>]+>|<[^>]+>|[^<]+/g;
  const pad = () => "  ".repeat(Math.min(open.length, 100));
  for (const [part] of text.matchAll(parts)) {
    if (part.startsWith("</")) {
      const name = part.slice(2, -1).trim();
      if (open.pop() !== name) return undefined;
      if (isInline) out[out.length - 1] += part;
      else out.push(pad() + part);
      isInline = false;
    } else if (/^<[^!?/]/.test(part) && !part.endsWith("/>")) {
      out.push(pad() + part.trim());
      open = [...open, /^<([^\s/>]+)/.exec(part)?.[1] ?? ""];
      isInline = true;
    } else if (part.startsWith("<") && !part.startsWith("<![CDATA[")) {
      out.push(pad() + part.trim());
      isInline = false;
    } else if (part.trim()) {
      if (isInline && !part.includes("\n")) out[out.length - 1] += part.trim();
      else {
        out.push(pad() + part.trim());
        isInline = false;
      }
    }
  }
  return open.length === 0 ? out.join("\n") : undefined;
}

export function fromBase64(text: string): Uint8Array {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

const IMAGES: [string, number[]][] = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", [0x52, 0x49, 0x46, 0x46]],
];

/** Media type of an image by its signature; never an active type such as SVG. */
export function imageType(bytes: Uint8Array): string | undefined {
  return IMAGES.find(([, begin]) => begin.every((byte, at) => bytes[at] === byte))?.[0];
}

/** A span of a line: its colour, and whether it is a match of the search. */
export interface Span {
  text: string;
  kind: "" | "key" | "string" | "number" | "tag";
  isHit: boolean;
}

const TOKENS: Record<Kind, RegExp | undefined> = {
  json: /"(?:[^"\\]|\\.)*"?(?:\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g,
  xml: /<\/?[\w:.-]+|\/?>|\s[\w:.-]+=|"[^"]*"/g,
  text: undefined,
};

function tokenKind(kind: Kind, token: string): Span["kind"] {
  if (kind === "xml") return token.startsWith('"') ? "string" : token.endsWith("=") ? "key" : "tag";
  if (token.endsWith(":")) return "key";
  return token.startsWith('"') ? "string" : "number";
}

/** Splits a line into spans, at most a few hundred. */
export function spans(line: string, kind: Kind, hits: RegExp | undefined): Span[] {
  const cuts: { at: number; kind: Span["kind"] }[] = [];
  const tokens = TOKENS[kind];
  if (tokens) {
    for (const found of line.matchAll(tokens)) {
      if (cuts.length > 300) break;
      cuts.push({ at: found.index, kind: tokenKind(kind, found[0]) }, { at: found.index + found[0].length, kind: "" });
    }
  }
  const marks = hits ? [...line.matchAll(hits)].slice(0, 100).map((found) => [found.index, found.index + found[0].length] as const) : [];
  const ends = new Set([0, line.length, ...cuts.map((cut) => cut.at), ...marks.flat()]);
  const sorted = [...ends].sort((a, b) => a - b);
  const out: Span[] = [];
  let cut = 0;
  let now: Span["kind"] = "";
  let mark = 0;
  for (let index = 0; index + 1 < sorted.length; index += 1) {
    const [from, to] = [sorted[index] as number, sorted[index + 1] as number];
    while (cut < cuts.length && (cuts[cut]?.at ?? 0) <= from) {
      now = cuts[cut]?.kind ?? "";
      cut += 1;
    }
    while (mark < marks.length && (marks[mark]?.[1] ?? 0) <= from) mark += 1;
    const isHit = mark < marks.length && (marks[mark]?.[0] ?? 0) <= from;
    out.push({ text: line.slice(from, to), kind: now, isHit });
  }
  return out;
}

/** Pattern for the words of the search: complete words in sequence, case-insensitive. */
export function hitPattern(words: string[]): RegExp | undefined {
  const all = words
    .map((text) => text.match(/[\p{L}\p{N}]+/gu) ?? [])
    .filter((row) => row.length > 0)
    .map((row) => row.join("[^\\p{L}\\p{N}]+"));
  if (all.length === 0) return undefined;
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${all.join("|")})(?![\\p{L}\\p{N}])`, "giu");
}
