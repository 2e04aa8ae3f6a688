// Queries of the Lab.

import { queryOptions } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";

export type LabState = Schemas["LabState"];
export type LabResult = Schemas["LabResult"];
export type LabProgress = Schemas["LabProgress"];

export const labQuery = queryOptions({
  queryKey: ["lab"],
  queryFn: () => data<LabState>(api.GET("/v1/lab")),
  refetchInterval: 15_000,
});

/** The current or last load test; null if there was none. */
export const progressQuery = queryOptions({
  queryKey: ["lab-run"],
  queryFn: async () => (await data<LabProgress | undefined>(api.GET("/v1/lab/run"))) || null,
  refetchInterval: (query) => (query.state.data?.running ? 1000 : 5000),
});

export function runQuery(name: string) {
  return queryOptions({
    queryKey: ["lab-result", name],
    queryFn: () => data<Schemas["LabRun"]>(api.GET("/v1/lab/results/{run}", { params: { path: { run: name } } })),
  });
}

export function compareQuery(before: string, after: string) {
  return queryOptions({
    queryKey: ["lab-compare", before, after],
    queryFn: () => data<Schemas["LabComparison"]>(api.GET("/v1/lab/compare", { params: { query: { before, after } } })),
  });
}

export const TONES: Record<string, string> = {
  PASS: "good",
  QUICK: "info",
  FAIL: "bad",
  REGRESSION: "bad",
  UNSTABLE: "warn",
  INVALID: "warn",
  better: "good",
  same: "",
  worse: "bad",
  unclear: "warn",
  incomparable: "warn",
};
