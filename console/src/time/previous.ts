// Comparison with the range before: of the same length, immediately before the range of the page.

import { useSearchText } from "../url/use-search-text";
import { between, type RangeSearch, resolveRange } from "./range";

/** The value of `compare` in the URL. */
const PREVIOUS = "previous";

export function useComparison(): [boolean, (on: boolean) => void] {
  const [value, set] = useSearchText("compare");
  return [value === PREVIOUS, (on) => set(on ? PREVIOUS : "")];
}

/** The range before this one, and the milliseconds between both. */
export function previousRange(range: RangeSearch, now: Date): { range: RangeSearch; shift: number } {
  const { from, to } = resolveRange(range, now);
  const shift = to.getTime() - from.getTime();
  return { range: between(from.getTime() - shift, from.getTime()), shift };
}

/** Values of the range before: the beginning of each interval, its value, and the length of intervals. */
export interface Earlier {
  at: number[];
  values: (number | null)[];
  step: number;
  /** Value of an interval that is missing. */
  missing: number | null;
}

/**
 * The values of the range before at the times of this one, all in seconds: that of the interval in which most
 * of the interval of a time was then. `step`: length of the intervals of this range.
 */
export function shifted(times: number[], step: number, before: Earlier, shift: number): (number | null)[] {
  let next = 0;
  return times.map((time) => {
    const middle = time - shift + step / 2;
    while (next + 1 < before.at.length && (before.at[next + 1] ?? 0) <= middle) next += 1;
    const at = before.at[next];
    const isThere = at !== undefined && at <= middle && middle < at + before.step;
    return isThere ? (before.values[next] ?? null) : before.missing;
  });
}

/** `+12 %` of a figure against the one before; empty if that was zero. */
export function change(now: number, before: number | undefined): string {
  if (before === undefined) return "";
  if (before === 0) return now === 0 ? "±0 %" : "new";
  const percent = 100 * (now / before - 1);
  const size = Math.abs(percent);
  if (size < 0.05) return "±0 %";
  return `${percent < 0 ? "−" : "+"}${size >= 10 ? size.toFixed(0) : size.toFixed(1)} %`;
}
