// The time range that all pages share. It stands in the URL: `range=1h`, or `from` and `to`.

/** What of the URL is about time. */
export interface RangeSearch {
  /** How far back from now: `15m`. */
  range?: string;
  /** First instant (RFC 3339). */
  from?: string;
  /** First instant after it. */
  to?: string;
}

/** A range, resolved. */
export interface Range {
  from: Date;
  to: Date;
  /** It ends now, and goes on. */
  rolling: boolean;
  /** Of a rolling one, how long it is: `15m`. */
  back: string;
}

/** Ranges that can be chosen by name. */
export const RANGES = ["5m", "15m", "1h", "6h", "24h", "7d", "30d"] as const;
export const USUAL = "15m";

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** Seconds of `15m`; nothing if it is no such text. */
export function seconds(text: string): number | undefined {
  const found = /^(\d{1,5})([smhd])$/.exec(text);
  const unit = found && UNITS[found[2] ?? ""];
  return found && unit ? Number(found[1]) * unit : undefined;
}

/** What a URL says, as far as it makes sense. */
export function readRange(search: Record<string, unknown>): RangeSearch {
  const { range, from, to } = search;
  const time = (value: unknown) =>
    typeof value === "string" && !Number.isNaN(Date.parse(value)) ? value : undefined;
  const [first, last] = [time(from), time(to)];
  if (first && last && Date.parse(first) < Date.parse(last)) return { from: first, to: last };
  if (typeof range === "string" && seconds(range) && range !== USUAL) return { range };
  return {};
}

export function resolveRange(search: RangeSearch, now: Date): Range {
  if (search.from && search.to) {
    return { from: new Date(search.from), to: new Date(search.to), rolling: false, back: "" };
  }
  const back = search.range ?? USUAL;
  const length = seconds(back) ?? 900;
  return { from: new Date(now.getTime() - length * 1000), to: now, rolling: true, back };
}

/** The stretch between two times, outwards to whole seconds, as the URL has it. */
export function between(from: number, to: number): RangeSearch {
  const first = Math.floor(from / 1000) * 1000;
  const last = Math.max(Math.ceil(to / 1000) * 1000, first + 1000);
  const text = (time: number) => new Date(time).toISOString().replace(".000Z", "Z");
  return { from: text(first), to: text(last) };
}

/** The range as terms of the query language. */
export function asTerms(search: RangeSearch): string {
  if (search.from && search.to) return `after:${search.from} before:${search.to}`;
  return `since:${search.range ?? USUAL}`;
}

/** What a user has asked for, within the range; and how many characters stand before it. */
export function within(query: string, search: RangeSearch): { query: string; before: number } {
  const asked = query.trim();
  if (!asked) return { query: asTerms(search), before: 0 };
  const lead = query.length - query.trimStart().length;
  return { query: `(${asked}) ${asTerms(search)}`, before: 1 - lead };
}
