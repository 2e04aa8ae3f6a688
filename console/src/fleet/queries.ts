// The state of the fleet, and the retirement of nodes.

import { queryOptions } from "@tanstack/react-query";
import { ApiProblem, api, data, type Schemas } from "../api/client";

export type Fleet = Schemas["FleetStatus"];

/** The state of the fleet; null for a single node. `fleet` is set at the start, so null does not change. */
export const fleetQuery = queryOptions({
  queryKey: ["fleet"],
  queryFn: async (): Promise<Fleet | null> => {
    try {
      return await data(api.GET("/v1/fleet"));
    } catch (error) {
      if (error instanceof ApiProblem && (error.status === 404 || error.status === 403)) return null;
      throw error;
    }
  },
  // For the menu and lists of nodes; the page of the fleet itself polls.
  staleTime: 60_000,
});

/** The versions of the configuration, the latest first; again after each rollout. */
export function versionsQuery(version: number, rollout: number) {
  return queryOptions({
    queryKey: ["fleet", "versions", version, rollout],
    queryFn: () => data(api.GET("/v1/fleet/versions")),
    staleTime: 60_000,
  });
}

/** Pauses, resumes or aborts the rollout. */
export function changeRollout(action: "pause" | "resume" | "abort"): Promise<unknown> {
  return data(api.POST("/v1/fleet/rollout/{action}", { params: { path: { action } } }));
}

/** Rolls all nodes back to a version; null: to the one before, or out of the rollout. */
export function rollBack(version: number | null): Promise<Schemas["FleetVersions"]> {
  return data(api.POST("/v1/fleet/rollback", { body: { version } }));
}

export type SinkLists = Schemas["SinkLists"];

/** Sinks of transactions of all nodes; null where nothing is recorded. */
export const sinksQuery = queryOptions({
  queryKey: ["sinks"],
  queryFn: async (): Promise<SinkLists | null> => {
    try {
      return await data(api.GET("/v1/sinks"));
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 409) return null;
      throw error;
    }
  },
});

/** Documents that sinks have rejected on this node, newest first. */
export const rejectedQuery = queryOptions({
  queryKey: ["sinks", "rejected"],
  queryFn: () => data(api.GET("/v1/sinks/rejected", { params: { query: { limit: 20 } } })),
});

/** What was not sent to sinks by this node. */
export const gapsQuery = queryOptions({
  queryKey: ["sinks", "gaps"],
  queryFn: () => data(api.GET("/v1/sinks/gaps", { params: { query: { limit: 20 } } })),
});

/** Retires a node; `lost` if its data is gone. */
export function retire(id: string, lost: boolean): Promise<unknown> {
  return data(api.POST("/v1/fleet/nodes/{id}/retire", { params: { path: { id }, query: { lost } } }));
}
