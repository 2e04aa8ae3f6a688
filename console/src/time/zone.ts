// The time zone of all displayed times: that of the browser, UTC, or a named one. `tz` in the URL precedes the
// user's choice, so that a shared link shows the same times.

import { useSyncExternalStore } from "react";

/** `local`, `UTC`, or a name of the IANA database. */
export type Zone = string;

export const LOCAL = "local";
const KEY = "weir-zone";
const listeners = new Set<() => void>();
const formats = new Map<string, Intl.DateTimeFormat>();

/** The zone with this name, if the browser knows it. */
export function zoneOf(value: unknown): Zone | undefined {
  if (typeof value !== "string" || value.length > 64) return undefined;
  if (value === LOCAL || value === "UTC") return value;
  try {
    return format(value) && value;
  } catch {
    return undefined;
  }
}

let current: Zone = LOCAL;

/** Applies the zone of the URL, or else the user's choice. */
export function applyZone(ofUrl: Zone | undefined): void {
  const next = ofUrl ?? zoneOf(localStorage.getItem(KEY)) ?? LOCAL;
  if (next === current) return;
  current = next;
  for (const listener of listeners) listener();
}

/** Keeps the user's choice in this browser. */
export function keepZone(zone: Zone): void {
  localStorage.setItem(KEY, zone);
}

/** The zone in force; whoever displays times renders again when it changes. */
export function useZone(): Zone {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}

/** Year, month, day, hour, minute and second of a time in a zone. */
export type Wall = [number, number, number, number, number, number];

export function wallClock(date: Date, zone: Zone = current): Wall {
  if (zone === LOCAL) return [date.getFullYear(), date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  if (zone === "UTC") return [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()];
  const found: Record<string, number> = {};
  for (const part of format(zone).formatToParts(date)) found[part.type] = Number(part.value);
  return [found.year ?? 0, found.month ?? 1, found.day ?? 1, found.hour ?? 0, found.minute ?? 0, found.second ?? 0];
}

/** Minutes that the clock of a zone is ahead of UTC at a time. */
export function offset(date: Date, zone: Zone = current): number {
  const [year, month, day, hour, minute, second] = wallClock(date, zone);
  const there = Date.UTC(year, month - 1, day, hour, minute, second);
  return Math.round((there - Math.floor(date.getTime() / 1000) * 1000) / 60_000);
}

/** The time at which the clock of the zone shows `2026-11-20T14:03:00`; NaN for any other text. */
export function parseWall(text: string, zone: Zone = current): number {
  const there = Date.parse(`${text}Z`);
  if (Number.isNaN(there)) return there;
  const first = there - offset(new Date(there), zone) * 60_000;
  // The offset may have changed in between.
  return there - offset(new Date(first), zone) * 60_000;
}

/** What the clock of the zone shows, in the format of `datetime-local`. */
export function wallText(date: Date, zone: Zone = current): string {
  const [year, ...rest] = wallClock(date, zone).map((part) => String(part).padStart(2, "0"));
  const [month, day, hour, minute, second] = rest;
  return `${year?.padStart(4, "0")}-${month}-${day}T${hour}:${minute}:${second}`;
}

/**
 * The time of an edited text that showed `original` first. While it is unchanged it is that time: where a clock
 * is set back, a text stands for two times.
 */
export function editedTime(text: string, original: Date, zone: Zone = current): number {
  return text === wallText(original, zone) ? original.getTime() : parseWall(text, zone);
}

/** A time whose parts in the zone of the browser are those of the given time in this zone. */
export function asLocal(date: Date, zone: Zone = current): Date {
  if (zone === LOCAL) return date;
  const [year, month, day, hour, minute, second] = wallClock(date, zone);
  return new Date(year, month - 1, day, hour, minute, second, date.getMilliseconds());
}

function format(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-u-ca-iso8601-nu-latn", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" });
  formats.set(zone, made);
  return made;
}
