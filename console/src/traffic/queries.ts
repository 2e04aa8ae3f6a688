// Figures of the transactions of a query.

import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { previousRange } from "../time/previous";
import { type RangeSearch, within } from "../time/range";

export type Profile = Schemas["Profile"];
export type Interval = Schemas["Interval"];

/** `node`: only transactions of this node of the fleet. */
export function profile(query: string, range: RangeSearch, node = "") {
  const terms = within(query, range);
  return queryOptions({
    queryKey: ["profile", query, range, node],
    queryFn: ({ signal }) => data<Profile>(api.GET("/v1/transactions/profile", { params: { query: { q: terms.query, ...(node && { node }) } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });
}

/** The figures of the range before, and how many milliseconds it is earlier. */
export interface Before {
  all: Profile;
  shift: number;
}

export function profileBefore(query: string, range: RangeSearch, node = "") {
  return queryOptions({
    queryKey: ["profile-before", query, range, node],
    queryFn: async ({ signal }): Promise<Before> => {
      const before = previousRange(range, new Date());
      const terms = within(query, before.range);
      return { all: await data<Profile>(api.GET("/v1/transactions/profile", { params: { query: { q: terms.query, ...(node && { node }) } }, signal })), shift: before.shift };
    },
    // Without placeholder data: figures of another range would be compared.
    staleTime: 30_000,
  });
}
