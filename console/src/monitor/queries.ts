// Queries of usage.

import { keepPreviousData } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { type RangeSearch, resolveRange } from "../time/range";

export type UsageReport = Schemas["UsageReport"];
export type UsageRow = Schemas["UsageRow"];

/** Usage is metered by minute: the current minute is included only without an end. */
export function periodOf(range: RangeSearch) {
  const { from, to, rolling } = resolveRange(range, new Date());
  return { from: from.toISOString(), ...(rolling ? {} : { to: to.toISOString() }) };
}

/** Usage in a range, grouped by `consumer,api`; `node` is a node of the fleet, all nodes if it is empty. */
export function usageOf(range: RangeSearch, by: string, node = "", consumer = "") {
  return {
    queryKey: ["usage", range, by, node, consumer],
    queryFn: () => data<UsageReport>(api.GET("/v1/usage", { params: { query: { ...periodOf(range), ...(by ? { by } : {}), ...(node ? { node } : {}), ...(consumer ? { consumer } : {}) } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  };
}

/** Invoices of a month, of one consumer or of all. */
export function invoicesOf(query: { period: string; zone: string; consumer?: string; node?: string }) {
  return {
    queryKey: ["invoices", query],
    queryFn: () => data<Schemas["Invoice"][]>(api.GET("/v1/invoices", { params: { query } })),
    retry: false,
  };
}
