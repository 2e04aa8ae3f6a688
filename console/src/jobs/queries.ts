// Jobs: bulk resubmission of the result of a query.

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, data, type Job, type Schemas } from "../api/client";
import { count } from "../format/format";

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

/** Number of transactions that were sent and have a response. */
export function sent(job: Job): number {
  return inState(job, "succeeded", "failed");
}

/** Transactions that were to be sent and were not, or perhaps not: `2 refused, 1 unknown`. */
export function notSent(job: Job): string {
  const states = ["refused", "unknown", "cancelled"].filter((state) => inState(job, state) > 0);
  return states.map((state) => `${count(inState(job, state))} ${state}`).join(", ");
}

export type JobTransactions = Schemas["JobTransactions"];
export type ItemState = Schemas["ItemState"];

/** Transactions of a page. */
const PAGE = 100;

/** Pages of the transactions of a job. They are read again while the job changes. */
export function itemPages(job: Job, state: string, reason: string) {
  return infiniteQueryOptions({
    queryKey: ["job", job.number, "items", state, reason],
    queryFn: ({ pageParam, signal }) =>
      data<JobTransactions>(
        api.GET("/v1/jobs/{number}/items", {
          params: { path: { number: job.number }, query: { limit: PAGE, ...(state && { state }), ...(reason && { reason }), ...(pageParam && { after: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (last: JobTransactions) => last.next ?? undefined,
    // Of the same job only.
    placeholderData: (previous, query) => (query?.queryKey[1] === job.number ? previous : undefined),
    // Each page is a request.
    refetchInterval: (query) => (QUIET.includes(job.state) ? 10_000 : 2000) * Math.max(1, query.state.data?.pages.length ?? 1),
  });
}

/** Creates a job for the transactions of another one in these states. */
export function retry(number: number, how: { states: ItemState[]; rate: number; again: boolean }): Promise<Job> {
  return data<Job>(api.POST("/v1/jobs/{number}/retry", { params: { path: { number } }, body: { ...how, run: false } }));
}

/** Whether the job is neither searched nor sent. */
export function isQuiet(job: Job): boolean {
  return QUIET.includes(job.state);
}
