// Transactions over time; dragging selects a time range.

import { useMemo } from "react";
import { useMarks } from "../configuration/history";
import { count } from "../format/format";
import { between, type RangeSearch, resolveRange } from "../time/range";
import { Chart, type Series } from "../ui/chart";
import type { Counts } from "./queries";

const SERIES: Series[] = [{ label: "transactions", color: "--chart-1", bars: true }];

export function Histogram({ counts, range, at, onRange }: { counts: Counts; range: RangeSearch; at: number; onRange: (range: RangeSearch) => void }) {
  const { from, to } = resolveRange(range, new Date(at));
  const ends = useMemo<[number, number]>(() => [from.getTime() / 1000, to.getTime() / 1000], [from.getTime(), to.getTime()]);
  const { marks } = useMarks(range);
  const points = useMemo(() => {
    const times = counts.histogram.map((bucket) => Date.parse(bucket.time) / 1000);
    return [times, counts.histogram.map((bucket) => bucket.count)] as [number[], number[]];
  }, [counts]);
  return (
    <Chart
      label={`${count(counts.matched)} transactions over time. Select a time range with the button at the top, or drag over the chart.`}
      data={points}
      series={SERIES}
      height={96}
      range={ends}
      format={(value) => (Number.isInteger(value) ? count(value) : "")}
      marks={marks}
      onBrush={(first, last) => onRange(between(first, last))}
    />
  );
}
