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

/**
 * The values of the range before at the times of this one, all in seconds. A value belongs to a time if it was
 * measured within a step of it; the step is that of the coarser series.
 */
export function shifted(times: number[], before: { at: number[]; values: (number | null)[] }, shift: number): (number | null)[] {
  const gap = (all: number[]) => (all.length > 1 ? ((all.at(-1) ?? 0) - (all[0] ?? 0)) / (all.length - 1) : 1);
  const step = Math.max(1, gap(times), gap(before.at));
  let next = 0;
  return times.map((time) => {
    const then = time - shift;
    while (next + 1 < before.at.length && (before.at[next + 1] ?? 0) <= then) next += 1;
    const at = before.at[next];
    return at !== undefined && Math.abs(then - at) <= step ? (before.values[next] ?? null) : null;
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
