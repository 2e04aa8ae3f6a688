// Formats numbers, sizes, durations and times for display.

import { offset, wallClock, type Zone } from "../time/zone";

const THIN = " ";

/** Digits in groups of three. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** Three significant digits: 0.123, 1.23, 12.3, 123, 1.23 k, 4.56 M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return "–";
  if (size < 1000) return digits(value);
  const units = ["k", "M", "G", "T"];
  let scaled = value / 1000;
  let unit = 0;
  while (Math.abs(scaled) >= 999.5 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${digits(scaled)}${THIN}${units[unit]}`;
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return trim(value.toFixed(1));
  if (size >= 0.9995) return trim(value.toFixed(2));
  return trim(value.toPrecision(size < 0.001 ? 1 : 2));
}

function trim(text: string): string {
  return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}

/** Bytes in binary units. */
export function bytes(value: number): string {
  if (value < 1024) return `${Math.round(value)}${THIN}B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let scaled = value / 1024;
  let unit = 0;
  while (scaled >= 1023.5 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${digits(scaled)}${THIN}${units[unit]}`;
}

/** A duration in microseconds with a suitable unit. */
export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)}${THIN}µs`;
  if (us < 1_000_000) return `${digits(us / 1000)}${THIN}ms`;
  if (us < 60_000_000) return `${digits(us / 1_000_000)}${THIN}s`;
  return span(us / 1_000_000);
}

/** A duration in seconds in its two largest units: 2 d 3 h. */
export function span(seconds: number): string {
  const all = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(all / 86400), "d"],
    [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "min"],
    [all % 60, "s"],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  if (first < 0) return `0${THIN}s`;
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value}${THIN}${unit}`)
    .join(" ");
}

/** A share as a percentage; small shares are not rounded to zero. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const value = (100 * part) / whole;
  if (value > 0 && value < 0.01) return `<${THIN}0.01${THIN}%`;
  return `${value >= 99.995 || value === 0 ? value.toFixed(0) : trim(value.toFixed(value < 1 ? 2 : 1))}${THIN}%`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

/** A time zone as its offset at a time: UTC+01:00. */
export function zone(date: Date, name?: Zone): string {
  const minutes = offset(date, name);
  const sign = minutes < 0 ? "−" : "+";
  const size = Math.abs(minutes);
  return size === 0 ? "UTC" : `UTC${sign}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** The zone of the times between two, with both offsets if the clock is changed in between. */
export function zoneBetween(from: Date, to: Date, name?: Zone): string {
  const [first, last] = [zone(from, name), zone(to, name)];
  return first === last ? first : `${first}, later ${last}`;
}

/** `14:03:07.120`, in the time zone in force. */
export function clock(date: Date, millis = true, name?: Zone): string {
  const [, , , hour, minute, second] = wallClock(date, name);
  const text = `${two(hour)}:${two(minute)}:${two(second)}`;
  return millis ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

/** `2026-11-20`, in the time zone in force. */
export function day(date: Date, name?: Zone): string {
  const [year, month, number] = wallClock(date, name);
  return `${year}-${two(month)}-${two(number)}`;
}

/** Day, time and zone. */
export function full(date: Date): string {
  return `${day(date)} ${clock(date)} ${zone(date)}`;
}

/** Age: `12 s ago`. */
export function ago(date: Date, now: Date): string {
  const seconds = (now.getTime() - date.getTime()) / 1000;
  return seconds < 1 ? "just now" : `${span(seconds)} ago`;
}
