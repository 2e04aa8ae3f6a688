// Which configurations were in force in a range, and the times to compare before and after one.

import type { Schemas } from "../api/client";
import { type RangeSearch, resolveRange } from "../time/range";

export type Past = Schemas["PastConfiguration"];

/** The configurations that were put in force within a range, the first one first. */
export function within(all: Past[], range: RangeSearch, now: Date): Past[] {
  const { from, to } = resolveRange(range, now);
  const inside = all.filter(({ time }) => Date.parse(time) >= from.getTime() && Date.parse(time) < to.getTime());
  return inside.sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
}

const MINUTE = 60_000;
/** Longest time that is compared before and after. */
const WINDOW = 30 * MINUTE;

/** The times to compare before and after a configuration: equally long, at most 30 minutes. */
export function windows(one: Past, before: Past | null | undefined, now: Date): { before: RangeSearch; after: RangeSearch } {
  const start = Date.parse(one.time);
  const end = one.until ? Date.parse(one.until) : now.getTime();
  const lengths = [WINDOW, end - start, ...(before ? [start - Date.parse(before.time)] : [])];
  const length = Math.max(1000, Math.min(...lengths));
  const at = (time: number) => new Date(time).toISOString();
  return { before: { from: at(start - length), to: at(start) }, after: { from: at(start), to: at(start + length) } };
}
