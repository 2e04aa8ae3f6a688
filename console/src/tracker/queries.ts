// Queries of the Tracker.

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { ApiProblem, api, data, type Schemas } from "../api/client";
import { fromBytes } from "../query/complete";
import { type RangeSearch, within } from "../time/range";

/** Transactions of the first page, which must be fast, and of the following ones. */
const FIRST = 100;
const PAGE = 500;

export type Page = Schemas["Page"];
export type Counts = Schemas["Counts"];
export type Difference = Schemas["Difference"];
export type Attribute = Schemas["Attribute"];

/** With `keys`, hits have their business keys, which is audited. `node`: only those of this node of the fleet. */
export function pages(query: string, range: RangeSearch, keys = false, node = "") {
  const terms = within(query, range);
  return infiniteQueryOptions({
    queryKey: ["transactions", query, range, keys, node],
    queryFn: ({ pageParam, signal }) =>
      data<Page>(api.GET("/v1/transactions", { params: { query: { q: terms.query, limit: pageParam ? PAGE : FIRST, ...(keys && { keys }), ...(node && { node }), ...(pageParam ? { cursor: pageParam } : {}) } }, signal })),
    initialPageParam: "",
    getNextPageParam: (last: Page) => last.next ?? undefined,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    // Avoids comparing a hundred thousand rows for each page.
    structuralSharing: false,
  });
}

export function counts(query: string, range: RangeSearch, keys: boolean, node = "") {
  const terms = within(query, range);
  return queryOptions({
    queryKey: ["summary", query, range, keys, node],
    queryFn: ({ signal }) => data<Counts>(api.GET("/v1/transactions/summary", { params: { query: { q: terms.query, ...(keys ? { keys } : {}), ...(node && { node }) } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Compares the transactions of a query with the others of the time range. */
export function difference(query: string, range: RangeSearch, keys: boolean, node = "") {
  const [group, among] = [within(query, range).query, within("", range).query];
  return queryOptions({
    queryKey: ["difference", query, range, keys, node],
    queryFn: ({ signal }) => data<Difference>(api.GET("/v1/transactions/difference", { params: { query: { q: group, among, ...(keys ? { keys } : {}), ...(node && { node }) } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The error of a query, and its position in the typed text. */
export function queryError(error: unknown, query: string, range: RangeSearch): { error?: ApiProblem; position?: [number, number] } {
  if (!(error instanceof ApiProblem) || error.kind !== "bad-query") return {};
  if (!error.place) return { error };
  const terms = within(query, range);
  const at = (offset: number) => Math.min(query.length, Math.max(0, fromBytes(terms.query, offset) - terms.before));
  return { error, position: [at(error.place[0]), at(error.place[1])] };
}
