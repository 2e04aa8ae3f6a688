// One job: preview, progress and control.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import type { Job } from "../api/client";
import { count } from "../format/format";
import { Icon } from "../ui/icons";
import { Bar, Panel, QueryState, State, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";
import { Items } from "./items";
import { act, hasEnded, inState, isQuiet, jobQuery, notSent, sent, total } from "./queries";
import { RetryDialog } from "./retry";

export function JobPage() {
  const number = Number((useParams({ strict: false }) as { number?: string }).number);
  const job = useQuery(jobQuery(number));
  useTitle(`Job ${number}`);
  return (
    <>
      <div className="page-head">
        <Link to="/jobs" className="button quiet icon" aria-label="All jobs">
          <Icon name="back" />
        </Link>
        <h1>Job {number}</h1>
      </div>
      <QueryState query={job} what="the job" />
      {job.data && <JobView key={number} job={job.data} />}
    </>
  );
}

function JobView({ job }: { job: Job }) {
  const all = total(job) - inState(job, "cannot");
  const done = inState(job, "succeeded", "failed", "refused", "unknown", "cancelled");
  const others = notSent(job);
  return (
    <>
      <section className="panel">
        <header>
          <h2 className="row">
            <State state={job.state} />
            <span aria-live="polite">
              {job.state === "previewing" ? `${count(total(job))} found so far` : `${count(sent(job))} of ${count(all)} sent`}
            </span>
            {others && <span className="muted">{others}</span>}
          </h2>
          <Retry job={job} />
          <Controls job={job} />
        </header>
        <div className="inside stack">
          <Bar part={done} whole={all} tone={inState(job, "failed") > 0 ? "warn" : ""} label="Progress" />
          <dl className="facts">
            {job.retry_of == null ? (
              <>
                <dt>Query</dt>
                <dd>
                  <code className="wrap-any">{job.query}</code>
                </dd>
              </>
            ) : (
              <>
                <dt>Retries</dt>
                <dd>
                  <JobLink number={job.retry_of} />: {job.retry_states?.join(", ")}
                </dd>
              </>
            )}
            {(job.retries ?? []).length > 0 && (
              <>
                <dt>Retried by</dt>
                <dd className="row">
                  {job.retries?.map((number) => (
                    <JobLink key={number} number={number} />
                  ))}
                </dd>
              </>
            )}
            <dt>Rate</dt>
            <dd>{job.rate} per second</dd>
            {job.to && (
              <>
                <dt>Route</dt>
                <dd>{job.to}</dd>
              </>
            )}
            {job.node && (
              <>
                <dt>Runs on</dt>
                <dd>{job.node}</dd>
              </>
            )}
            <dt>Created</dt>
            <dd>
              <Time at={job.created} style="full" /> by {job.who}
            </dd>
            {job.ended && (
              <>
                <dt>Ended</dt>
                <dd>
                  <Time at={job.ended} style="full" />
                </dd>
              </>
            )}
          </dl>
          {(job.waits_for ?? []).length > 0 && (
            <p className="notice warn">
              Waits for {job.waits_for?.join(", ")}: these nodes do not respond, and have transactions of the job. If one does not come back, retire it on the page <Link to="/fleet">Fleet</Link>.
            </p>
          )}
          {job.incomplete && <p className="notice warn">Transactions may be missing from the job: the index was not complete, or there are too many.</p>}
        </div>
      </section>
      <Panel title="Totals" inside={false}>
        <Table heads={["State", "#Transactions", "Reason"]}>
          {job.transactions.map((one) => (
            <tr key={`${one.state}${one.reason}`}>
              <td>
                <State state={one.state} />
              </td>
              <td className="num">
                <Link to="/jobs/$number" params={{ number: String(job.number) }} search={{ state: one.state, ...(one.reason && { reason: one.reason }) } as never} preload={false} aria-label={`${count(one.count)} ${one.state} ${one.reason ?? ""}`}>
                  {count(one.count)}
                </Link>
              </td>
              <td className="wrap-any">
                {one.words} {one.reason && <code className="muted">{one.reason}</code>}
              </td>
            </tr>
          ))}
          {job.transactions.length === 0 && (
            <tr>
              <td colSpan={3} className="muted">
                {job.state === "previewing" ? "Searching…" : "The query has no results."}
              </td>
            </tr>
          )}
        </Table>
      </Panel>
      <Items job={job} />
    </>
  );
}

function JobLink({ number }: { number: number }) {
  return (
    <Link to="/jobs/$number" params={{ number: String(number) }}>
      job {number}
    </Link>
  );
}

/** Nothing to retry is left to a job that runs: its transactions still change. */
function Retry({ job }: { job: Job }) {
  const [open, setOpen] = useState(false);
  const failed = inState(job, "failed", "unknown", "cannot", "refused", "cancelled");
  if (!isQuiet(job) || job.state === "previewed" || failed === 0) return null;
  return (
    <>
      <button type="button" className="button" onClick={() => setOpen(true)}>
        Retry…
      </button>
      {open && <RetryDialog job={job} onClose={() => setOpen(false)} />}
    </>
  );
}

function Controls({ job }: { job: Job }) {
  const queries = useQueryClient();
  const [rate, setRate] = useState(String(job.rate));
  const change = useMutation({
    mutationFn: (action: "run" | "pause" | "cancel") => act(job.number, action, action === "run" ? { rate: Number(rate) || job.rate, again: job.again } : {}),
    onSuccess: (next) => queries.setQueryData(["job", job.number], next),
    onError: (error) => notify(String(error.message), "bad"),
  });
  if (hasEnded(job)) return null;
  const canRun = job.state === "previewed" || job.state === "paused";
  const pending = inState(job, "pending");
  return (
    <>
      {canRun && (
        <>
          <label className="row">
            <span className="muted">per second</span>
            <input type="number" className="short" min="0.1" step="any" value={rate} onChange={(event) => setRate(event.target.value)} />
          </label>
          <button type="button" className="button primary" disabled={change.isPending || pending === 0} onClick={() => change.mutate("run")}>
            <Icon name="play" size={14} />
            {job.state === "paused" ? "Resume" : `Send ${count(pending)}`}
          </button>
        </>
      )}
      {job.state === "running" && (
        <button type="button" className="button" disabled={change.isPending} onClick={() => change.mutate("pause")}>
          <Icon name="pause" size={14} />
          Pause
        </button>
      )}
      <button type="button" className="button danger" disabled={change.isPending} onClick={() => change.mutate("cancel")}>
        Cancel
      </button>
    </>
  );
}
