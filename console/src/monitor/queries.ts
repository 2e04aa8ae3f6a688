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

/** Usage in a range, grouped by `consumer,api`. */
export function usageOf(range: RangeSearch, by: string) {
  return {
    queryKey: ["usage", range, by],
    queryFn: () => data<UsageReport>(api.GET("/v1/usage", { params: { query: { ...periodOf(range), ...(by ? { by } : {}) } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  };
}
