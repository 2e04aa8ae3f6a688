// Configurations that were in force: which, since when, and what each changed.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import type { RangeSearch } from "../time/range";
import type { Mark } from "../ui/chart";
import { type Past, within } from "./past";

export type Details = Schemas["PastConfigurationDetails"];

const historyQuery = queryOptions({
  queryKey: ["configuration", "history"],
  queryFn: () => data<Schemas["ConfigurationHistory"]>(api.GET("/v1/configuration/history", { params: { query: { limit: 200 } } })),
  refetchInterval: 10_000,
  staleTime: 5_000,
});

/** The history; not requested by callers whose scope does not include it. */
export function useHistory() {
  return useQuery({ ...historyQuery, enabled: useMay("viewer", "server"), retry: false });
}

/** A configuration, and what it changed in another one; without `against` in the one before. */
export function detailsQuery(number: number, node: string, against?: number) {
  const query = { ...(node && { node }), ...(against !== undefined && { against }) };
  return queryOptions({
    queryKey: ["configuration", "history", number, node, against],
    queryFn: () => data<Details>(api.GET("/v1/configuration/history/{number}", { params: { path: { number }, query } })),
    staleTime: 60_000,
  });
}

/** What a chart marks: when another configuration was put in force. */
export function useMarks(range: RangeSearch): { marks: Mark[]; changes: Past[] } {
  const { data: history } = useHistory();
  return useMemo(() => {
    const changes = within(history?.configurations ?? [], range, new Date());
    const label = (one: Past) => `configuration ${one.version != null ? `version ${one.version}` : one.configuration}${one.node ? ` on ${one.node}` : ""}`;
    return { changes, marks: changes.map((one) => ({ at: Date.parse(one.time) / 1000, label: label(one) })) };
  }, [history, range]);
}
