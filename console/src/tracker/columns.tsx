// Columns of the transaction list: those of the URL, or the usual ones.

import type { ReactNode } from "react";
import type { Hit } from "../api/client";
import { duration } from "../format/format";
import { visible } from "../transaction/text";
import { Status, Time } from "../ui/parts";

export interface Column {
  name: string;
  label: string;
  /** Width as a track of a grid. */
  width: string;
  /** Class of the cell. */
  kind: string;
  cell: (hit: Hit) => ReactNode;
}

const text = (name: string, label: string, read: (hit: Hit) => string | undefined, width = "minmax(90px, 1fr)"): Column => ({
  name,
  label,
  width,
  kind: "cut muted",
  cell: (hit) => visible(read(hit) || "–"),
});

/** All columns but those of business keys. The path leads to the transaction, so it is always there. */
export const COLUMNS: Column[] = [
  { name: "time", label: "Time", width: "112px", kind: "time", cell: (hit) => <Time at={hit.time} /> },
  { name: "status", label: "Status", width: "58px", kind: "", cell: (hit) => <Status status={hit.status} /> },
  { name: "method", label: "Method", width: "62px", kind: "mono method", cell: (hit) => hit.method },
  { name: "path", label: "Path", width: "minmax(160px, 3fr)", kind: "path", cell: (hit) => visible(hit.path) },
  text("api", "API", (hit) => hit.api),
  text("operation", "Operation", (hit) => hit.operation || hit.api, "minmax(90px, 1.2fr)"),
  text("consumer", "Consumer", (hit) => hit.consumer, "minmax(70px, 0.8fr)"),
  text("plan", "Plan", (hit) => hit.plan),
  text("principal", "Principal", (hit) => hit.principal),
  text("client", "Client", (hit) => hit.sender, "minmax(110px, 0.8fr)"),
  text("upstream", "Upstream", (hit) => hit.receiver),
  text("target", "Target", (hit) => hit.upstream_target, "minmax(130px, 1fr)"),
  text("problem", "Problem", (hit) => hit.problem),
  text("detail", "Limit or rule", (hit) => hit.detail),
  text("resolution", "Resolution", (hit) => hit.resolution),
  text("node", "Node", (hit) => (hit.sink ? `${hit.node} (${hit.sink})` : hit.node)),
  { name: "duration", label: "Duration", width: "76px", kind: "num took", cell: (hit) => duration(hit.took_us) },
];

const KEY = "key.";
/** Most columns, which bounds the cost of a row. */
const MAX_COLUMNS = 16;

function keyColumn(name: string): Column {
  const key = name.slice(KEY.length);
  const values = (hit: Hit) => (hit.keys ?? []).filter((field) => field.name === key).map((field) => field.value);
  return text(name, key, (hit) => values(hit).join(", "), "minmax(90px, 1fr)");
}

/** The columns with these names, separated by commas; the path is always one. Undefined: the usual ones. */
export function columnsOf(names: string): Column[] | undefined {
  const chosen = [...new Set(names.split(",").filter(Boolean))];
  if (chosen.length === 0) return undefined;
  const found = chosen.flatMap((name) => {
    if (name.startsWith(KEY) && name.length > KEY.length) return [keyColumn(name)];
    return COLUMNS.filter((column) => column.name === name);
  });
  if (!found.some((column) => column.name === "path")) found.push(...COLUMNS.filter((column) => column.name === "path"));
  return found.slice(0, MAX_COLUMNS);
}

const USUAL = ["time", "status", "method", "path", "operation", "consumer", "duration"];

/** The usual columns, with the node in a query over nodes. */
export function usualColumns(hasNodes: boolean): Column[] {
  const names = hasNodes ? [...USUAL.slice(0, -1), "node", "duration"] : USUAL;
  return names.flatMap((name) => COLUMNS.filter((column) => column.name === name));
}

/** Whether a column shows business keys, which only some may see. */
export function hasKeys(columns: Column[] | undefined): boolean {
  return columns?.some((column) => column.name.startsWith(KEY)) ?? false;
}

/** Names of columns after one was added or removed, in the order of all columns; empty if they are the usual ones. */
export function toggled(columns: Column[], name: string): string {
  const names = columns.map((column) => column.name);
  const next = names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
  const order = (one: string) => {
    const at = COLUMNS.findIndex((column) => column.name === one);
    // Keys come before the duration.
    return at < 0 ? COLUMNS.length - 1.5 : at;
  };
  const sorted = next.sort((a, b) => order(a) - order(b));
  return sorted.join(",") === USUAL.join(",") ? "" : sorted.join(",");
}
