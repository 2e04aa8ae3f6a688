// Figures of the transactions of a query.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { type RangeSearch, within } from "../time/range";

export type Profile = Schemas["Profile"];
export type Interval = Schemas["Interval"];

export function profile(query: string, range: RangeSearch) {
  const terms = within(query, range);
  return queryOptions({
    queryKey: ["profile", query, range],
    queryFn: ({ signal }) => data<Profile>(api.GET("/v1/transactions/profile", { params: { query: { q: terms.query } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });
}
