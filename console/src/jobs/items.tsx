// Transactions of a job, by state: what was sent, what was not and why, and what is not known.

import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import type { Job } from "../api/client";
import { count } from "../format/format";
import { Failure, Loading, State, Status, Table, Time } from "../ui/parts";
import { inState, itemPages, total } from "./queries";

/** Filters by groups of states. */
const FILTERS: [string, string, string[]][] = [
  ["", "All", []],
  ["succeeded", "Succeeded", ["succeeded"]],
  ["failed", "Failed", ["failed"]],
  ["rejected", "Rejected", ["cannot", "refused"]],
  ["unknown", "Unknown", ["unknown"]],
  ["pending,sending", "Pending", ["pending", "sending"]],
  ["cancelled", "Cancelled", ["cancelled"]],
];

/** Reads the transactions again when the state of the job, or its counts, have changed. */
function useUpdates(job: Job) {
  const queries = useQueryClient();
  const now = JSON.stringify([job.state, job.transactions.map((one) => [one.state, one.reason, one.count])]);
  const before = useRef(now);
  useEffect(() => {
    if (before.current === now) return;
    before.current = now;
    // Pages that are being read are read to the end: a job may change faster than that.
    void queries.invalidateQueries({ queryKey: ["job", job.number, "items"] }, { cancelRefetch: false });
  }, [queries, job.number, now]);
}

export function Items({ job }: { job: Job }) {
  const { state = "", reason = "" } = useSearch({ strict: false }) as { state?: string; reason?: string };
  const found = useInfiniteQuery(itemPages(job, state, reason));
  useUpdates(job);
  const items = found.data?.pages.flatMap((page) => page.transactions) ?? [];
  const matching = found.data?.pages[0]?.matching ?? 0;
  const hasNodes = items.some((item) => item.node);
  const number = String(job.number);
  const numberOf = (states: string[]) => (states.length === 0 ? total(job) : inState(job, ...states));
  return (
    <section className="panel" aria-busy={found.isFetching}>
      <header>
        <h2>Transactions</h2>
        <nav className="row filters" aria-label="Filter by state">
          {FILTERS.filter(([value, , states]) => value === state || states.length === 0 || numberOf(states) > 0).map(([value, label, states]) => (
            <Link key={value} to="/jobs/$number" params={{ number }} search={(value ? { state: value } : {}) as never} className="button small" aria-current={value === state && !reason ? "true" : undefined} preload={false}>
              {label} {count(numberOf(states))}
            </Link>
          ))}
        </nav>
      </header>
      {reason && (
        <p className="notice thin">
          Only with the reason <code>{reason}</code>.{" "}
          <Link to="/jobs/$number" params={{ number }} search={(state ? { state } : {}) as never}>
            All reasons
          </Link>
        </p>
      )}
      {found.isError && <Failure error={found.error} retry={() => void found.refetch()} />}
      {found.isPending && !found.isError && <Loading what="transactions" />}
      {items.length > 0 && (
        <Table heads={["Transaction", "State", "Status", "Reason", "Sent", ...(hasNodes ? ["Node"] : []), "(Actions)"]}>
          {items.map((item) => (
            <tr key={item.transaction}>
              <td>
                <Link to="/transactions/$id" params={{ id: item.transaction }} preload={false} className="mono nowrap">
                  …{item.transaction.slice(-12)}
                </Link>
              </td>
              <td>
                <State state={item.state} />
              </td>
              <td>{item.status > 0 ? <Status status={item.status} /> : "–"}</td>
              <td className="wrap-any">
                {item.words} {item.reason && <code className="muted">{item.reason}</code>}
                {item.to && <p className="muted">to {item.to}</p>}
              </td>
              <td>{item.began ? <Time at={item.began} style="day" /> : "–"}</td>
              {hasNodes && <td>{item.node}</td>}
              <td>
                {item.attempt && item.state !== "refused" && item.state !== "sending" && (
                  <Link to="/compare" search={{ a: item.transaction, b: item.attempt } as never} preload={false} aria-label={`Compare ${item.transaction} with its attempt`}>
                    Compare
                  </Link>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {found.data && items.length === 0 && <p className="inside muted">{job.state === "previewing" ? "Searching…" : "No transaction of the job is in this state."}</p>}
      {found.hasNextPage && (
        <p className="inside row">
          <button type="button" className="button" disabled={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
            Show more
          </button>
          <span className="muted">
            {count(items.length)} of {count(matching)} shown, {count(Math.max(0, matching - items.length))} more
          </span>
        </p>
      )}
    </section>
  );
}
