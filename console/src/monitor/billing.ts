// Months, totals and evidence of invoices.

import type { Schemas } from "../api/client";
import { termOf } from "../traffic/named";

export type Invoice = Schemas["Invoice"];

/** The name of everything beyond the cardinality limit. */
const OTHER = "(other)";

/** The month of a time in a time zone: `2026-11`. */
export function monthOf(time: Date, zone: string): string {
  const parts = new Intl.DateTimeFormat("en", { timeZone: zone, year: "numeric", month: "2-digit" }).formatToParts(time);
  const of = (type: string) => parts.find((part) => part.type === type)?.value ?? "";
  return `${of("year").padStart(4, "0")}-${of("month")}`;
}

/** So many months later, or earlier. */
export function addMonths(month: string, more: number): string {
  const at = Number(month.slice(0, 4)) * 12 + Number(month.slice(5, 7)) - 1 + more;
  return `${String(Math.floor(at / 12)).padStart(4, "0")}-${String((at % 12) + 1).padStart(2, "0")}`;
}

/** Whether the text is a time zone of this browser. */
export function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

/** The exact sum of decimals; it has as many digits after the point as the longest of them. */
export function sum(decimals: string[]): string {
  const digits = Math.max(0, ...decimals.map((text) => text.split(".")[1]?.length ?? 0));
  const total = decimals.reduce((all, text) => {
    const [whole = "0", fraction = ""] = text.replace("-", "").split(".");
    const units = BigInt(whole + fraction.padEnd(digits, "0"));
    return text.startsWith("-") ? all - units : all + units;
  }, 0n);
  const text = (total < 0n ? -total : total).toString().padStart(digits + 1, "0");
  const at = text.length - digits;
  return `${total < 0n ? "-" : ""}${text.slice(0, at)}${digits ? `.${text.slice(at)}` : ""}`;
}

/** Totals of all invoices by currency. Each is paid by itself, so what is due is the sum of their rounded amounts. */
export function totals(invoices: Invoice[]): { currency: string; exact: string; due: string }[] {
  const all = invoices.flatMap((invoice) => invoice.totals);
  const currencies = [...new Set(all.map((total) => total.currency))].sort();
  return currencies.map((currency) => {
    const own = all.filter((total) => total.currency === currency);
    return { currency, exact: sum(own.map((total) => total.exact)), due: sum(own.map((total) => total.due)) };
  });
}

/** A line, billed or not. */
type Counted = { plan: string; api: string; operation: string; status?: number; gateway_errors?: boolean };

/** The query for the transactions of a line; none if it has calls of operations without a name. */
export function evidence(invoice: Invoice, line: Counted): string | undefined {
  const { plan, api, operation, status } = line;
  if ([plan, api, operation].includes(OTHER)) return undefined;
  const terms = [termOf("consumer", invoice.consumer), termOf("plan", plan), termOf("api", api), termOf("operation", operation)];
  if (status) return [...terms, "problem:*", termOf("status", String(status))].join(" ");
  // Also without a line of them: rejected calls may not be metered.
  return [...terms, ...(line.gateway_errors ? [] : ["-(problem:* (status:429 OR status:5xx))"])].join(" ");
}
