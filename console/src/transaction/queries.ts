import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data, type Transaction } from "../api/client";
import { wholeId } from "../query/whole-id";

export function transactionQuery(id: string) {
  return queryOptions({
    queryKey: ["transaction", id],
    queryFn: () => data<Transaction>(api.GET("/v1/transactions/{id}", { params: { path: { id } } })),
    // What is on its way is looked at again.
    refetchInterval: (query) => (query.state.data?.attempts?.some((attempt) => attempt.state === "sending") ? 1000 : false),
    staleTime: 10_000,
  });
}

/** The id that a query is, if there is such a transaction, whatever the time range; other texts may look the same. */
export async function transactionOf(query: string, queries: QueryClient): Promise<string | undefined> {
  const id = wholeId(query);
  if (!id) return undefined;
  try {
    await queries.fetchQuery(transactionQuery(id));
    return id;
  } catch {
    return undefined;
  }
}
