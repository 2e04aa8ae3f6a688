// The time range that all pages share. It is in the URL: `range=1h`, or `from` and `to`.

/** Time parameters of the URL. */
export interface RangeSearch {
  /** Length of a range that ends now: `15m`. */
  range?: string;
  /** Start (RFC 3339). */
  from?: string;
  /** End, exclusive. */
  to?: string;
}

/** A resolved range. */
export interface Range {
  from: Date;
  to: Date;
  /** The range ends now and moves on. */
  rolling: boolean;
  /** Length of a rolling range: `15m`. */
  back: string;
}

/** Predefined ranges. */
export const RANGES = ["5m", "15m", "1h", "6h", "24h", "7d", "30d"] as const;
export const USUAL = "15m";

export const RANGE_NAMES: Record<string, string> = {
  "5m": "5 minutes",
  "15m": "15 minutes",
  "1h": "1 hour",
  "6h": "6 hours",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

/** Seconds of `15m`; undefined for any other text. */
export function seconds(text: string): number | undefined {
  const found = /^(\d{1,5})([smhd])$/.exec(text);
  const unit = found && UNITS[found[2] ?? ""];
  return found && unit ? Number(found[1]) * unit : undefined;
}

/** The valid time parameters of a URL. */
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

/** The range between two times, rounded outwards to seconds, as time parameters. */
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

/** The user's query within the range, and the number of characters before it. */
export function within(query: string, search: RangeSearch): { query: string; before: number } {
  const typed = query.trim();
  if (!typed) return { query: asTerms(search), before: 0 };
  const lead = query.length - query.trimStart().length;
  return { query: `(${typed}) ${asTerms(search)}`, before: 1 - lead };
}
