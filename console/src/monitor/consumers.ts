// Calls of each consumer by result.

import type { Schemas } from "../api/client";

type UsageRow = Schemas["UsageRow"];

interface ConsumerCalls {
  consumer: string;
  calls: number;
  /** Responses with 4xx. */
  clientErrors: number;
  /** Responses with 5xx. */
  failed: number;
}

/** Merges rows by consumer and status to one row per consumer, most calls first. */
export function byConsumer(rows: Pick<UsageRow, "consumer" | "status" | "calls">[]): ConsumerCalls[] {
  const all = new Map<string, ConsumerCalls>();
  for (const row of rows) {
    const consumer = row.consumer ?? "";
    const one = all.get(consumer) ?? { consumer, calls: 0, clientErrors: 0, failed: 0 };
    one.calls += row.calls;
    if (row.status === "4xx") one.clientErrors += row.calls;
    if (row.status === "5xx") one.failed += row.calls;
    all.set(consumer, one);
  }
  return [...all.values()].sort((a, b) => b.calls - a.calls);
}
