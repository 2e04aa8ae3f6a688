// Named views of the Tracker, for all users.

import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";

export type SavedView = Schemas["SavedView"];

export const viewsQuery = queryOptions({
  queryKey: ["views"],
  queryFn: () => data<SavedView[]>(api.GET("/v1/views")),
  staleTime: 10_000,
});

/** What a view keeps of the address. */
const KEPT = ["q", "range", "from", "to", "tz", "columns", "differs"];

/** The address of a view as search parameters: those that it does not have are removed. */
export function searchOf(view: SavedView): Record<string, string | undefined> {
  const kept = new URLSearchParams(view.search);
  return Object.fromEntries(KEPT.map((name) => [name, kept.get(name) ?? undefined]));
}

/** The current address as that of a view. */
export function addressOf(search: Record<string, unknown>): string {
  const kept = new URLSearchParams();
  for (const name of KEPT) {
    const value = search[name];
    if (typeof value === "string" && value !== "") kept.set(name, value);
  }
  return kept.toString();
}

export function saveView(name: string, search: string): Promise<unknown> {
  return data(api.PUT("/v1/views/{name}", { params: { path: { name } }, body: { search } }));
}

export function deleteView(name: string): Promise<unknown> {
  return data(api.DELETE("/v1/views/{name}", { params: { path: { name } } }));
}
