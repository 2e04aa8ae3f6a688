// The newest transactions of a query.

import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";

export function newestOf(q: string, limit: number) {
  return queryOptions({
    queryKey: ["newest", q, limit],
    queryFn: ({ signal }) => data<Schemas["Page"]>(api.GET("/v1/transactions", { params: { query: { q, limit } }, signal })),
    staleTime: 10_000,
  });
}
