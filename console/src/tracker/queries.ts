// What the Tracker asks the server.

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { ApiProblem, api, data, type Schemas } from "../api/client";
import { fromBytes } from "../query/complete";
import { type RangeSearch, within } from "../time/range";

/** Transactions of the first page, which is to be there at once, and of those behind it. */
const FIRST = 100;
const PAGE = 500;

export type Page = Schemas["Page"];
export type Counts = Schemas["Counts"];

export function pages(query: string, range: RangeSearch) {
  const asked = within(query, range);
  return infiniteQueryOptions({
    queryKey: ["transactions", query, range],
    queryFn: ({ pageParam, signal }) =>
      data<Page>(api.GET("/v1/transactions", { params: { query: { q: asked.query, limit: pageParam ? PAGE : FIRST, ...(pageParam ? { cursor: pageParam } : {}) } }, signal })),
    initialPageParam: "",
    getNextPageParam: (last: Page) => last.next ?? undefined,
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    // A hundred thousand rows are not compared with each other for each page.
    structuralSharing: false,
  });
}

export function counts(query: string, range: RangeSearch, keys: boolean) {
  const asked = within(query, range);
  return queryOptions({
    queryKey: ["summary", query, range, keys],
    queryFn: ({ signal }) => data<Counts>(api.GET("/v1/transactions/summary", { params: { query: { q: asked.query, ...(keys ? { keys } : {}) } }, signal })),
    placeholderData: keepPreviousData,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** The error of a query, and where in what was typed it stands. */
export function queryError(error: unknown, query: string, range: RangeSearch): { error?: ApiProblem; place?: [number, number] } {
  if (!(error instanceof ApiProblem) || error.kind !== "bad-query") return {};
  if (!error.place) return { error };
  const asked = within(query, range);
  const at = (place: number) => Math.min(query.length, Math.max(0, fromBytes(asked.query, place) - asked.before));
  return { error, place: [at(error.place[0]), at(error.place[1])] };
}
