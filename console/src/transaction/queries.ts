import { queryOptions } from "@tanstack/react-query";
import { api, data, type Transaction } from "../api/client";

export function transactionQuery(id: string) {
  return queryOptions({
    queryKey: ["transaction", id],
    queryFn: () => data<Transaction>(api.GET("/v1/transactions/{id}", { params: { path: { id } } })),
    // What is on its way is looked at again.
    refetchInterval: (query) => (query.state.data?.attempts?.some((attempt) => attempt.state === "sending") ? 1000 : false),
    staleTime: 10_000,
  });
}
