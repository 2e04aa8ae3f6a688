// Layout of a body: available views and lines. Lines are stored as offsets in
// one text, which a worker can transfer without copying.

import { fromBase64, hitPattern, imageType, type Kind, prettyJson, prettyXml } from "./text";

export type View = "pretty" | "raw" | "hex" | "image";

/** A body to be laid out. */
export interface Body {
  text?: string;
  /** A binary body. */
  base64?: string;
  /** Only the beginning is present. */
  isCut?: boolean;
  /** The selected view; default: the first one. */
  view?: View;
  /** Words of the search. */
  hits: string[];
}

/** Lines of a text. */
export interface Lines {
  text: string;
  count: number;
  starts: Uint32Array;
  ends: Uint32Array;
  /** Line numbers from 1; 0 for the continuation of a line. */
  numbers: Uint32Array;
  /** Length of the longest line in characters. */
  widest: number;
}

export interface Layout {
  views: View[];
  view: View | undefined;
  kind: Kind;
  /** Media type of an image. */
  type?: string;
  lines: Lines;
  /** The first thousand lines with matches. */
  found: number[];
}

/** Longer lines are continued in the next row. */
const MAX_LINE_LENGTH = 800;
const MAX_MATCHES = 1000;
const NO_LINES: Lines = { text: "", count: 0, starts: new Uint32Array(), ends: new Uint32Array(), numbers: new Uint32Array(), widest: 0 };

export function layOut(body: Body): Layout {
  if (body.text) return textOut(body, body.text);
  if (!body.base64) return { views: [], view: undefined, kind: "text", lines: NO_LINES, found: [] };
  const binary = fromBase64(body.base64);
  const type = body.isCut ? undefined : imageType(binary);
  const views: View[] = type ? ["image", "hex"] : ["hex"];
  const view = chosen(body, views);
  return { views, view, kind: "text", ...(type ? { type } : {}), lines: view === "hex" ? hex(binary) : NO_LINES, found: [] };
}

function textOut(body: Body, text: string): Layout {
  const json = prettyJson(text);
  const pretty = json ?? prettyXml(text);
  const views: View[] = pretty === undefined ? ["raw", "hex"] : ["pretty", "raw", "hex"];
  const view = chosen(body, views);
  const kind: Kind = json !== undefined ? "json" : pretty !== undefined ? "xml" : "text";
  if (view === "hex") return { views, view, kind, lines: hex(new TextEncoder().encode(text)), found: [] };
  const all = lines(view === "pretty" ? (pretty ?? text) : text);
  return { views, view, kind, lines: all, found: find(all, body.hits) };
}

function chosen(body: Body, views: View[]): View | undefined {
  return body.view && views.includes(body.view) ? body.view : views[0];
}

function find(all: Lines, words: string[]): number[] {
  const hits = hitPattern(words);
  const found: number[] = [];
  for (let at = 0; hits && at < all.count && found.length < MAX_MATCHES; at += 1) {
    hits.lastIndex = 0;
    if (hits.test(all.text.slice(all.starts[at], all.ends[at]))) found.push(at);
  }
  return found;
}

/** One line, as it is shown. */
export function lineAt(all: Lines, at: number): { text: string; number?: number } {
  const text = all.text.slice(all.starts[at], all.ends[at]);
  const number = all.numbers[at];
  return number ? { text, number } : { text };
}

export function lines(text: string): Lines {
  const [starts, ends, numbers]: [number[], number[], number[]] = [[], [], []];
  let widest = 0;
  let number = 0;
  for (let begin = 0; begin <= text.length; ) {
    const newline = text.indexOf("\n", begin);
    const next = newline < 0 ? text.length : newline;
    const last = next > begin && text.charCodeAt(next - 1) === 0x0d && newline >= 0 ? next - 1 : next;
    number += 1;
    let at = begin;
    do {
      let end = Math.min(at + MAX_LINE_LENGTH, last);
      // Not between the halves of a character.
      const code = text.charCodeAt(end - 1);
      if (end < last && code >= 0xd800 && code < 0xdc00) end += 1;
      starts.push(at);
      ends.push(end);
      numbers.push(at === begin ? number : 0);
      widest = Math.max(widest, end - at);
      at = end;
    } while (at < last);
    if (newline < 0) break;
    begin = newline + 1;
  }
  return { text, count: starts.length, starts: Uint32Array.from(starts), ends: Uint32Array.from(ends), numbers: Uint32Array.from(numbers), widest };
}

const ROW = 16;

/** Bytes in hexadecimal, sixteen a line, with what can be read of them. */
export function hex(bytes: Uint8Array): Lines {
  const all: string[] = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const row = bytes.subarray(at, at + ROW);
    const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const left = digits.slice(0, 8).join(" ").padEnd(23);
    const right = digits.slice(8).join(" ").padEnd(23);
    const readable = Array.from(row, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    all.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${readable}`);
  }
  return all.length > 0 ? lines(all.join("\n")) : NO_LINES;
}
