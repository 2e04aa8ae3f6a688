// Jobs: bulk resubmission of the result of a query.

import { queryOptions } from "@tanstack/react-query";
import { api, data, type Job } from "../api/client";

const ENDED = ["finished", "cancelled"];
const QUIET = [...ENDED, "previewed", "paused"];

export const jobsQuery = queryOptions({
  queryKey: ["jobs"],
  queryFn: () => data<Job[]>(api.GET("/v1/jobs")),
  refetchInterval: (query) => (query.state.data?.every((job) => QUIET.includes(job.state)) ? 10_000 : 1000),
});

export function jobQuery(number: number) {
  return queryOptions({
    queryKey: ["job", number],
    queryFn: () => data<Job>(api.GET("/v1/jobs/{number}", { params: { path: { number } } })),
    refetchInterval: (query) => (query.state.data && QUIET.includes(query.state.data.state) ? 5000 : 700),
  });
}

export function act(number: number, action: "run" | "pause" | "cancel", how: { rate?: number; again?: boolean } = {}): Promise<Job> {
  const body = { again: how.again ?? false, rate: how.rate ?? null };
  return data<Job>(api.POST("/v1/jobs/{number}/{action}", { params: { path: { number, action } }, body }));
}

export function hasEnded(job: Job): boolean {
  return ENDED.includes(job.state);
}

/** Number of a job's transactions in these states. */
export function inState(job: Job, ...states: string[]): number {
  return job.transactions.filter((one) => states.includes(one.state)).reduce((sum, one) => sum + one.count, 0);
}

export function total(job: Job): number {
  return job.transactions.reduce((sum, one) => sum + one.count, 0);
}
