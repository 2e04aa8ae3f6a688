// Result of a run by case.

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { count, percent, short } from "../format/format";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { Badge, Copy, Panel, QueryState, Reasons, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { runQuery, TONES } from "./queries";

export function LabRunPage() {
  const { run: name = "" } = useParams({ strict: false }) as { run?: string };
  const result = useQuery(runQuery(name));
  useTitle(name);
  return (
    <>
      <div className="page-head">
        <Link to="/lab" className="button quiet small">
          <Icon name="back" size={15} />
          Lab
        </Link>
        <h1 className="wrap-any">{name}</h1>
        {result.data?.result.verdict && <Badge tone={TONES[result.data.result.verdict] ?? ""}>{result.data.result.verdict}</Badge>}
        <span className="grow" />
        {result.data?.report && (
          <ApiLink className="button" target={`/v1/lab/results/${encodeURIComponent(name)}/report`}>
            Open report
          </ApiLink>
        )}
      </div>
      <QueryState query={result} what="the result" />
      {result.data && <Result run={result.data} />}
    </>
  );
}

function Result({ run }: { run: Schemas["LabRun"] }) {
  const { result } = run;
  return (
    <>
      <Reasons all={run.reasons} />
      <Panel title={result.name}>
        <dl className="facts">
          <dt>Started</dt>
          <dd>
            <Time at={result.started} style="full" />
          </dd>
          <dt>Ended</dt>
          <dd>{result.ended ? <Time at={result.ended} style="full" /> : "still running, or aborted"}</dd>
          <dt>Target</dt>
          <dd className="mono wrap-any">{result.target}</dd>
          <dt>Machine</dt>
          <dd className="wrap-any">{run.host}</dd>
          <dt>Command</dt>
          <dd>
            <code className="wrap-any">{run.command}</code> <Copy text={run.command} label="Copy" />
          </dd>
        </dl>
      </Panel>
      <Panel title={run.cases.length === 1 ? "Case" : `${count(run.cases.length)} cases`} inside={false}>
        <Table heads={["Case", "Verdict", "#Requests/s", "#Samples", "#Errors", "#Mean", "#p50", "#p90", "#p99"]}>
          {run.cases.map((one) => (
            <tr key={one.name}>
              <td className="wrap-any">
                {one.name || "all requests"}
                {one.reasons.map((reason) => (
                  <p key={reason} className="muted">
                    {reason}
                  </p>
                ))}
              </td>
              <td>
                <Badge tone={TONES[one.verdict] ?? ""}>{one.verdict}</Badge>
              </td>
              <td className="num">{one.throughput == null ? "–" : short(one.throughput)}</td>
              <td className="num">{count(one.samples)}</td>
              <td className="num">{percent(one.errors, 1)}</td>
              {one.times_ms.map((ms, at) => (
                <td key={at} className="num">
                  {short(ms)} ms
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </Panel>
    </>
  );
}
