// List of the last jobs.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { count } from "../format/format";
import { Bar, EmptyPanel, QueryState, State, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { inState, jobsQuery, notSent, sent, total } from "./queries";

export function JobsPage() {
  const jobs = useQuery(jobsQuery);
  useTitle("Jobs");
  return (
    <>
      <div className="page-head">
        <h1>Resubmission jobs</h1>
      </div>
      <QueryState query={jobs} what="jobs" />
      {jobs.data?.length === 0 && (
        <EmptyPanel title="No jobs">
          <p>
            Search in the <Link to="/tracker">Tracker</Link>, for example <code>resolution:open</code>, and choose “Resubmit all…”.
          </p>
        </EmptyPanel>
      )}
      {jobs.data && jobs.data.length > 0 && (
        <section className="panel">
          <Table heads={["Job", "State", "Query", "#Transactions", "Sent", "Created by", "Created"]}>
            {jobs.data.map((job) => (
              <tr key={job.number}>
                <td>
                  <Link to="/jobs/$number" params={{ number: String(job.number) }}>
                    {job.number}
                  </Link>
                </td>
                <td>
                  <State state={job.state} />
                </td>
                <td>
                  {job.retry_of == null ? <code className="wrap-any">{job.query}</code> : `retry of job ${job.retry_of}`}
                </td>
                <td className="num">{count(total(job))}</td>
                <td>
                  <Bar part={sent(job)} whole={total(job) - inState(job, "cannot")} label={`Sent by job ${job.number}`} />
                  {count(sent(job))} {notSent(job) && <span className="muted">{notSent(job)}</span>}
                </td>
                <td>{job.who}</td>
                <td>
                  <Time at={job.created} style="day" />
                </td>
              </tr>
            ))}
          </Table>
        </section>
      )}
    </>
  );
}
