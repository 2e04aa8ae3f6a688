import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data, type Transaction } from "../api/client";
import { transactionId } from "../query/transaction-id";

export function transactionQuery(id: string) {
  return queryOptions({
    queryKey: ["transaction", id],
    queryFn: () => data<Transaction>(api.GET("/v1/transactions/{id}", { params: { path: { id } } })),
    // Refreshes while an attempt is in flight.
    refetchInterval: (query) => (query.state.data?.attempts?.some((attempt) => attempt.state === "sending") ? 1000 : false),
    staleTime: 10_000,
  });
}

/** The id, if the query is the id of a recorded transaction, independent of the time range. */
export async function transactionOf(query: string, queries: QueryClient): Promise<string | undefined> {
  const id = transactionId(query);
  if (!id) return undefined;
  try {
    await queries.fetchQuery(transactionQuery(id));
    return id;
  } catch {
    return undefined;
  }
}
