// Charts of a profile; dragging over one selects the time range of the page.

import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { clock, count, duration, short } from "../format/format";
import { shifted } from "../time/previous";
import { between, type RangeSearch, resolveRange } from "../time/range";
import { useZone } from "../time/zone";
import { Chart, Legend, type Mark, type Series } from "../ui/chart";
import { Panel } from "../ui/parts";
import { type Cell, type Heatmap, heatmap, neighbour } from "./heatmap";
import type { Before, Interval, Profile } from "./queries";

interface Props {
  all: Profile;
  /** The range before, drawn dashed. */
  before: Before | undefined;
  range: RangeSearch;
  onSelect: (from: number, to: number) => void;
  marks: Mark[];
}

/** All charts of a page show the same moment. */
const SYNC = "traffic";

/** Stacked: each series is drawn behind the next one. */
const CLASSES: Series[] = [
  { label: "5xx or no response", color: "--chart-4", bars: true },
  { label: "4xx", color: "--chart-3", bars: true },
  { label: "3xx and less", color: "--chart-5", bars: true },
  { label: "2xx", color: "--chart-2", bars: true },
];
const QUANTILES: Series[] = [
  { label: "p99", color: "--chart-4" },
  { label: "p90", color: "--chart-3" },
  { label: "p50", color: "--chart-1" },
];

const BEFORE_RATE: Series[] = [{ label: "all, range before", color: "--text", dash: [5, 4] }];
const BEFORE_P99: Series[] = [
  { label: "p99, range before", color: "--chart-4", dash: [5, 4] },
  { label: "p50, range before", color: "--chart-1", dash: [5, 4] },
];

/** A value of the intervals before, at the times of this range. `missing`: that of one without a transaction. */
function useBefore(before: Before | undefined, times: number[], seconds: number, read: (interval: Interval, step: number) => number, missing: number | null): (number | null)[] {
  return useMemo(() => {
    if (!before) return [];
    const { all, shift } = before;
    const step = Math.max(1, all.bucket_ms) / 1000;
    const at = all.intervals.map((interval) => Date.parse(interval.time) / 1000);
    const values = all.intervals.map((interval) => read(interval, step));
    return shifted(times.map((time) => time / 1000), seconds, { at, values, step, missing }, shift / 1000);
  }, [before, times, seconds, read, missing]);
}

const rateOf = (interval: Interval, seconds: number) => interval.classes.reduce((sum, value) => sum + value, 0) / seconds;
const p99Of = (interval: Interval) => interval.durations.p99_us;
const p50Of = (interval: Interval) => interval.durations.p50_us;

/** Every interval of the range, with an entry for those without a transaction. */
function useIntervals(all: Profile, range: RangeSearch) {
  return useMemo(() => {
    const { from, to } = resolveRange(range, new Date());
    const step = Math.max(1, all.bucket_ms);
    const found = new Map(all.intervals.map((interval) => [Date.parse(interval.time), interval]));
    const first = Math.floor(from.getTime() / step) * step;
    const times: number[] = [];
    for (let at = first; at < to.getTime() && times.length < 2000; at += step) times.push(at);
    return { times, found, ends: [from.getTime() / 1000, to.getTime() / 1000] as [number, number], seconds: step / 1000 };
  }, [all, range]);
}

export function RateChart({ all, before, range, onSelect, marks }: Props) {
  const { times, found, ends, seconds } = useIntervals(all, range);
  const data = useMemo(() => {
    const of = (numbers: number[]) => (time: number) => numbers.reduce((sum, at) => sum + (found.get(time)?.classes[at] ?? 0), 0) / seconds;
    const [bad, client, other, good] = [of([0, 5]), of([4]), of([1, 3]), of([2])];
    // The tallest first, so that what is stacked below covers it.
    const stacked = times.map((time) => {
      const values = [good(time), other(time), client(time), bad(time)];
      return values.map((_, at) => values.slice(0, at + 1).reduce((sum, value) => sum + value, 0));
    });
    return [times.map((time) => time / 1000), ...[3, 2, 1, 0].map((at) => stacked.map((values) => values[at] ?? 0))] as [number[], ...number[][]];
  }, [times, found, seconds]);
  const old = useBefore(before, times, seconds, rateOf, 0);
  const series = before ? [...CLASSES, ...BEFORE_RATE] : CLASSES;
  const drawn = useMemo(() => (before ? [...data, old] : data) as typeof data, [data, old, before]);
  return (
    <Panel title="Requests per second, by status" inside={false} actions={<Legend series={series} />}>
      <Chart label="Requests per second, by class of status, over time. Drag to select a time range." data={drawn} series={series} height={150} range={ends} format={short} onBrush={onSelect} sync={SYNC} marks={marks} />
    </Panel>
  );
}

export function LatencyChart({ all, before, range, onSelect, marks }: Props) {
  const { times, found, ends, seconds } = useIntervals(all, range);
  const data = useMemo(() => {
    const of = (quantile: "p50_us" | "p90_us" | "p99_us") => times.map((time) => found.get(time)?.durations[quantile] ?? null);
    return [times.map((time) => time / 1000), of("p99_us"), of("p90_us"), of("p50_us")] as [number[], ...(number | null)[][]];
  }, [times, found]);
  const [p99, p50] = [useBefore(before, times, seconds, p99Of, null), useBefore(before, times, seconds, p50Of, null)];
  const series = before ? [...QUANTILES, ...BEFORE_P99] : QUANTILES;
  const drawn = useMemo(() => (before ? [...data, p99, p50] : data) as typeof data, [data, p99, p50, before]);
  return (
    <Panel title="Durations" inside={false} actions={<Legend series={series} />}>
      <Chart label="Quantiles of durations over time. Drag to select a time range." data={drawn} series={series} height={150} range={ends} format={duration} onBrush={onSelect} sync={SYNC} marks={marks} />
    </Panel>
  );
}

/** Left edge of the cells, as that of the charts above, and height of a row. */
const LEFT = 56;
const ROW = 9;

const nameOf = (cell: Cell) => `${cell.column} ${cell.row}`;

export function DurationHeatmap({ all, term, node, range }: { all: Profile; term: string; node: string; range: RangeSearch }) {
  const { times, found, seconds } = useIntervals(all, range);
  const map: Heatmap = useMemo(() => {
    const empty = { time: "", classes: [], failed: 0, durations: { p50_us: 0, p90_us: 0, p99_us: 0, max_us: 0, bins: [] } };
    return heatmap(times.map((time) => found.get(time) ?? empty));
  }, [times, found]);
  const navigate = useNavigate();
  const [at, setAt] = useState("");
  const drawing = useRef<SVGSVGElement>(null);
  useZone();
  const rows = map.bounds.length - 1;
  if (rows < 1) return null;
  const height = rows * ROW;
  /** The transactions of a cell. */
  const open = (column: number, row: number) => {
    const [from, to] = [Math.floor(map.bounds[row] ?? 0), Math.ceil(map.bounds[row + 1] ?? 0)];
    const start = times[column] ?? 0;
    void navigate({ to: "/tracker", search: { q: `${term} took:[${from}us TO ${to}us]`.trim(), ...(node && { node }), range: undefined, ...between(start, start + seconds * 1000) } as never });
  };
  // One cell is in the order of Tab; arrow keys move on from there.
  const current = map.cells.find((cell) => nameOf(cell) === at) ?? map.cells[0];
  const pressed = (event: KeyboardEvent, cell: Cell) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return open(cell.column, cell.row);
    }
    const next = neighbour(map.cells, cell, event.key);
    if (!next) return;
    event.preventDefault();
    setAt(nameOf(next));
    drawing.current?.querySelector<SVGRectElement>(`[data-cell="${nameOf(next)}"]`)?.focus();
  };
  const labels = [0, Math.floor(rows / 2), rows - 1].filter((row, at, list) => list.indexOf(row) === at);
  return (
    <Panel title="Durations over time" inside={false} actions={<span className="muted">a cell opens its transactions</span>}>
      <div className="heatmap" style={{ height: height + 12, paddingLeft: LEFT }}>
        {labels.map((row) => (
          <span key={row} className="muted" style={{ bottom: row * ROW }}>
            {duration(map.bounds[row] ?? 0)}
          </span>
        ))}
        <svg
          ref={drawing}
          viewBox={`0 0 ${times.length} ${rows}`}
          preserveAspectRatio="none"
          height={height}
          width="100%"
          role="group"
          aria-label={`Durations over time: most took ${duration(all.durations.p50_us)}, the longest ${duration(all.durations.max_us)}. Arrow keys move between cells, Enter opens the transactions of one.`}
        >
          {map.cells.map((cell) => {
            const { column, row, count: number } = cell;
            const text = `${count(number)} took ${duration(map.bounds[row] ?? 0)} to ${duration(map.bounds[row + 1] ?? 0)} at ${clock(new Date(times[column] ?? 0), false)}`;
            return (
              <rect
                key={nameOf(cell)}
                data-cell={nameOf(cell)}
                x={column}
                y={rows - 1 - row}
                width={1.02}
                height={1.02}
                fill="var(--chart-1)"
                fillOpacity={0.12 + 0.88 * Math.sqrt(number / map.most)}
                role="link"
                aria-label={text}
                tabIndex={cell === current ? 0 : -1}
                onClick={() => open(column, row)}
                onFocus={() => setAt(nameOf(cell))}
                onKeyDown={(event) => pressed(event, cell)}
              >
                <title>{text}</title>
              </rect>
            );
          })}
        </svg>
      </div>
    </Panel>
  );
}
