// What was counted.

import { keepPreviousData } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { type RangeSearch, resolveRange } from "../time/range";

export type UsageReport = Schemas["UsageReport"];
export type UsageRow = Schemas["UsageRow"];

/** Counts are of whole minutes: the one that is not over yet is there only if no end is said. */
export function counted(range: RangeSearch) {
  const { from, to, rolling } = resolveRange(range, new Date());
  return { from: from.toISOString(), ...(rolling ? {} : { to: to.toISOString() }) };
}

/** Rows for each of these, `consumer,api`, in a range. */
export function usageOf(range: RangeSearch, by: string) {
  return {
    queryKey: ["usage", range, by],
    queryFn: () => data<UsageReport>(api.GET("/v1/usage", { params: { query: { ...counted(range), ...(by ? { by } : {}) } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  };
}
