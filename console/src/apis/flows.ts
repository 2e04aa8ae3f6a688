// Traffic of routes: totals since the start, and rates.

import type { Schemas } from "../api/client";

export type Totals = Schemas["Traffic"];
type Total = Schemas["RouteTraffic"];

/** A route with requests per second since the previous sample; absent with a single sample. */
export interface Flow extends Total {
  rate?: number;
}

/** Keys: `api` for the sum of its routes, and `api operation`. */
export function flows(now: Totals, before: Totals | undefined): Map<string, Flow> {
  const seconds = before ? (now.at_ms - before.at_ms) / 1000 : 0;
  const old = new Map(before?.routes.map((one) => [`${one.api} ${one.operation}`, one.requests]));
  const all = new Map<string, Flow>();
  for (const one of now.routes) {
    const key = `${one.api} ${one.operation}`;
    // Counters restart at 0 with weir.
    const rate = seconds > 0 ? Math.max(0, one.requests - (old.get(key) ?? 0)) / seconds : undefined;
    all.set(key, { ...one, ...(rate === undefined ? {} : { rate }) });
    const sum = all.get(one.api);
    all.set(one.api, {
      api: one.api,
      operation: "",
      requests: one.requests + (sum?.requests ?? 0),
      client_errors: one.client_errors + (sum?.client_errors ?? 0),
      server_errors: one.server_errors + (sum?.server_errors ?? 0),
      ...(rate === undefined ? {} : { rate: rate + (sum?.rate ?? 0) }),
    });
  }
  return all;
}

