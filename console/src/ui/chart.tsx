// A time series with uPlot: redrawn when its size or the theme changes; dragging selects a time range.

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { clock, day } from "../format/format";
import { color, useTheme } from "../shell/theme";
import { asLocal, useZone } from "../time/zone";

export interface Series {
  label: string;
  /** Name of a colour: `--chart-1`. */
  color: string;
  bars?: boolean;
  fill?: boolean;
  dash?: number[];
}

/** A moment that is marked. */
export interface Mark {
  /** Seconds since 1970. */
  at: number;
  label: string;
}

interface Props {
  /** Label for screen readers. */
  label: string;
  /** Seconds since 1970, then the values of each series. */
  data: uPlot.AlignedData;
  series: Series[];
  height: number;
  /** Ends of the time axis in seconds. */
  range: [number, number];
  format: (value: number) => string;
  /** Called with a selected range in milliseconds. */
  onBrush?: (from: number, to: number) => void;
  sync?: string;
  marks?: Mark[];
}

const NO_MARKS: Mark[] = [];

export function Chart({ label, data, series, height, range, format, onBrush, sync, marks = NO_MARKS }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const theme = useTheme();
  const zone = useZone();
  const now = useRef({ onBrush, format, range, marks });
  now.current = { onBrush, format, range, marks };
  const names = series.map((one) => `${one.label} ${one.color}`).join();

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const drawn = new uPlot(options(element.clientWidth, height, series, now, sync), data, element);
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
    };
  }, [theme, zone, height, names, sync]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data, marks]);

  return <div ref={box} className="chart" role="img" aria-label={label} style={{ height }} />;
}

/** The properties of the last rendering. */
type Now = { current: Pick<Props, "onBrush" | "format" | "range"> & { marks: Mark[] } };

function options(width: number, height: number, series: Series[], now: Now, sync?: string): uPlot.Options {
  const [grid, text] = [color("--line"), color("--muted")];
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height,
    padding: [8, 8, 0, 0],
    // Ticks are at full hours and days of the zone in force.
    tzDate: (seconds) => asLocal(new Date(seconds * 1000)),
    legend: { show: false },
    cursor: {
      drag: { x: now.current.onBrush !== undefined, y: false, setScale: false },
      points: { size: 6 },
      ...(sync ? { sync: { key: sync } } : {}),
    },
    scales: {
      x: { range: () => now.current.range },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
    },
    axes: [
      { ...axis, space: 70, size: 26, ...clockAxis() },
      { ...axis, size: 56, space: 32, values: (_, all) => all.map((value) => now.current.format(value)) },
    ],
    series: [{}, ...series.map(line)],
    hooks: {
      draw: [(drawn) => drawMarks(drawn, now.current.marks)],
      setSelect: [
        (drawn) => {
          const { left, width: wide } = drawn.select;
          if (wide < 3) return;
          const from = drawn.posToVal(left, "x") * 1000;
          const to = drawn.posToVal(left + wide, "x") * 1000;
          drawn.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          now.current.onBrush?.(from, to);
        },
      ],
    },
    plugins: [tip(series, now)],
  };
}

function clockAxis(): Partial<uPlot.Axis> {
  return {
    values: (_, all, __, ___, step) =>
      all.map((value) => {
        const at = new Date(value * 1000);
        const text = clock(at, false);
        if (step >= 86400 || text === "00:00:00") return day(at).slice(5);
        return step < 60 ? text : text.slice(0, 5);
      }),
  };
}

/** Vertical lines at the marked moments. */
function drawMarks(plot: uPlot, marks: Mark[]) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = color("--accent");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at } of marks) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Pixels from the cursor within which a mark is named. */
const NEAR = 6;

function line(one: Series): uPlot.Series {
  const stroke = color(one.color);
  return {
    label: one.label,
    stroke,
    width: one.bars ? 0 : 1.5,
    ...(one.dash ? { dash: one.dash } : {}),
    ...(one.bars || one.fill ? { fill: one.bars ? stroke : `${stroke}26` } : {}),
    ...(one.bars ? { paths: uPlot.paths.bars?.({ size: [0.86, 40], align: 1 }) } : {}),
    points: { show: false },
    spanGaps: false,
  };
}

/** Tooltip with the values at the cursor. */
function tip(series: Series[], now: Now): uPlot.Plugin {
  const element = document.createElement("div");
  element.className = "chart-tip";
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(element);
      },
      setCursor: (plot) => {
        const at = plot.cursor.idx;
        const seconds = at == null ? undefined : plot.data[0][at];
        const isThere = seconds !== undefined && (plot.cursor.left ?? -1) >= 0;
        element.hidden = !isThere;
        if (!isThere || at == null) return;
        const lines = series.map((one, index) => {
          const value = plot.data[index + 1]?.[at];
          return `${one.label}  ${value == null ? "–" : now.current.format(value)}`;
        });
        const left = plot.cursor.left ?? 0;
        const near = now.current.marks.filter((mark) => Math.abs(plot.valToPos(mark.at, "x") - left) <= NEAR).map((mark) => mark.label);
        element.textContent = [clock(new Date(seconds * 1000), false), ...lines, ...near].join("\n");
        const isRight = left > plot.over.clientWidth / 2;
        element.style.left = isRight ? "" : `${left + 12}px`;
        element.style.right = isRight ? `${plot.over.clientWidth - left + 12}px` : "";
      },
    },
  };
}

export function Legend({ series }: { series: Series[] }) {
  return (
    <span className="legend">
      {series.map((one) => (
        <span key={one.label}>
          <i className={one.dash ? "dashed" : undefined} style={{ background: one.dash ? `repeating-linear-gradient(90deg, var(${one.color}) 0 4px, transparent 4px 7px)` : `var(${one.color})` }} aria-hidden="true" />
          {one.label}
        </span>
      ))}
    </span>
  );
}
