// The cells of a heatmap of durations: intervals of time by half powers of two.

import type { Interval } from "./queries";

export interface Cell {
  /** Number of the interval, and of the row, the shortest durations first. */
  column: number;
  row: number;
  count: number;
}

export interface Heatmap {
  /** Least duration of each row in microseconds; the last entry is the end of the last row. */
  bounds: number[];
  cells: Cell[];
  /** Most transactions of a cell. */
  most: number;
}

/** The row of a duration: two for each power of two. */
const rowOf = (us: number) => (us < 1 ? 0 : Math.floor(2 * Math.log2(us) + 1e-9) + 1);
const least = (row: number) => (row === 0 ? 0 : 2 ** ((row - 1) / 2));

export function heatmap(intervals: Interval[]): Heatmap {
  const counts = intervals.map((interval) => {
    const rows = new Map<number, number>();
    for (const [us = 0, count = 0] of interval.durations.bins) rows.set(rowOf(us), (rows.get(rowOf(us)) ?? 0) + count);
    return rows;
  });
  const rows = counts.flatMap((one) => [...one.keys()]);
  if (rows.length === 0) return { bounds: [], cells: [], most: 0 };
  const [first, last] = [Math.min(...rows), Math.max(...rows)];
  const cells = counts.flatMap((one, column) => [...one].map(([row, count]) => ({ column, row: row - first, count })));
  const bounds = Array.from({ length: last - first + 2 }, (_, at) => least(first + at));
  return { bounds, cells, most: Math.max(...cells.map((cell) => cell.count)) };
}

const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

/** The cell that a key leads to from another one: the nearest in its direction. Undefined for other keys. */
export function neighbour(cells: Cell[], from: Cell, key: string): Cell | undefined {
  if (!KEYS.includes(key)) return undefined;
  const nearest = (found: Cell[], far: (cell: Cell) => number, near: (cell: Cell) => number) =>
    found.reduce<Cell | undefined>((best, cell) => (!best || far(cell) < far(best) || (far(cell) === far(best) && near(cell) < near(best)) ? cell : best), undefined);
  const rows = (cell: Cell) => Math.abs(cell.row - from.row);
  const columns = (cell: Cell) => Math.abs(cell.column - from.column);
  switch (key) {
    case "ArrowLeft":
      return nearest(cells.filter((cell) => cell.column < from.column), columns, rows) ?? from;
    case "ArrowRight":
      return nearest(cells.filter((cell) => cell.column > from.column), columns, rows) ?? from;
    case "ArrowUp":
      return nearest(cells.filter((cell) => cell.row > from.row && cell.column === from.column), rows, columns) ?? from;
    case "ArrowDown":
      return nearest(cells.filter((cell) => cell.row < from.row && cell.column === from.column), rows, columns) ?? from;
    case "Home":
      return nearest(cells, (cell) => cell.column, rows);
    default:
      return nearest(cells, (cell) => -cell.column, rows);
  }
}
