import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas, type Transaction } from "../api/client";
import { idPrefix, transactionId } from "../query/transaction-id";

export function transactionQuery(id: string) {
  return queryOptions({
    queryKey: ["transaction", id],
    queryFn: () => data<Transaction>(api.GET("/v1/transactions/{id}", { params: { path: { id } } })),
    // Refreshes while an attempt is in flight.
    refetchInterval: (query) => (query.state.data?.attempts?.some((attempt) => attempt.state === "sending") ? 1000 : false),
    staleTime: 10_000,
  });
}

/** The id, if the query is the id of a recorded transaction or the beginning of just one, independent of the time range. */
export async function transactionOf(query: string, queries: QueryClient): Promise<string | undefined> {
  try {
    const id = transactionId(query) ?? (await onlyOne(idPrefix(query)));
    if (id) await queries.fetchQuery(transactionQuery(id));
    return id;
  } catch {
    return undefined;
  }
}

/** The id of the only transaction whose id begins so. */
async function onlyOne(prefix: string | undefined): Promise<string | undefined> {
  if (!prefix) return undefined;
  const page = await data<Schemas["Page"]>(api.GET("/v1/transactions", { params: { query: { q: `id:${prefix}`, limit: 2 } } }));
  return page.transactions.length === 1 ? page.transactions[0]?.id : undefined;
}
