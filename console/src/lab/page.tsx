// The Lab: results of runs, and load tests on this server.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useMay } from "../api/session";
import { count, short } from "../format/format";
import { Badge, EmptyPanel, Panel, QueryState, Table, Time } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { useTitle } from "../ui/title";
import { type LabResult, labQuery, progressQuery, TONES } from "./queries";
import { Running } from "./running";
import { StartDialog } from "./start";

export function LabPage() {
  const lab = useQuery(labQuery);
  const progress = useQuery(progressQuery);
  const queries = useQueryClient();
  const isAdmin = useMay("admin", "administration");
  const [start, setStart] = useState(false);
  useTitle("Lab");
  const isRunning = progress.data?.running ?? false;
  useEffect(() => {
    // A completed run has left results.
    if (!isRunning) void queries.invalidateQueries({ queryKey: ["lab"] });
  }, [isRunning, queries]);
  return (
    <>
      <div className="page-head">
        <h1>Lab</h1>
        <span className="muted">Results, and load tests on this server.</span>
        <span className="grow" />
        {isAdmin && (
          <button type="button" className="button primary" disabled={!lab.data || isRunning} onClick={() => setStart(true)}>
            Start a suite…
          </button>
        )}
      </div>
      <QueryState query={lab} what="results" />
      {progress.data && <Running progress={progress.data} />}
      {lab.data && <Results all={lab.data.runs} folder={lab.data.folder} />}
      {start && lab.data && <StartDialog lab={lab.data} onClose={() => setStart(false)} />}
    </>
  );
}

function Results({ all, folder }: { all: LabResult[]; folder: string }) {
  const [selected, setSelected] = useSearchText("chosen", "", true);
  const chosen = selected.split(",").filter(Boolean);
  const navigate = useNavigate();
  if (all.length === 0) {
    return (
      <EmptyPanel title="No results yet">
        <p>Suites started here store their results in this folder. Results of `weir lab run` can be stored there as well:</p>
        <pre>{`weir lab run scenario.yaml --out ${folder}/today`}</pre>
      </EmptyPanel>
    );
  }
  // The older run is the baseline.
  const pair = all.filter((one) => chosen.includes(one.run)).map((one) => one.run);
  const toggle = (run: string) => setSelected((chosen.includes(run) ? chosen.filter((one) => one !== run) : [...chosen, run].slice(-2)).join(","));
  return (
    <Panel
      title="Results"
      inside={false}
      actions={
        <>
          <span className="muted">{pair.length === 2 ? "" : "Select two runs to compare them."}</span>
          <button type="button" className="button small" disabled={pair.length !== 2} onClick={() => void navigate({ to: "/lab/compare", search: { before: pair[1], after: pair[0] } as never })}>
            Compare
          </button>
        </>
      }
    >
      <Table heads={["(Compare)", "Run", "Verdict", "Started", "Target", "#Cases", "#Samples", "#Highest requests/s"]}>
        {all.map((one) => (
          <tr key={one.run}>
            <td>
              <input type="checkbox" checked={chosen.includes(one.run)} disabled={!one.verdict} onChange={() => toggle(one.run)} aria-label={`Compare ${one.run}`} />
            </td>
            <td>
              <Link to="/lab/$run" params={{ run: one.run }} className="wrap-any">
                {one.run}
              </Link>
            </td>
            <td>{one.verdict ? <Badge tone={TONES[one.verdict] ?? ""}>{one.verdict}</Badge> : <span className="muted">{one.ended ? "none" : "no result"}</span>}</td>
            <td>
              <Time at={one.started} style="day" />
            </td>
            <td className="mono wrap-any">{one.target}</td>
            <td className="num">{count(one.cases)}</td>
            <td className="num">{count(one.samples)}</td>
            <td className="num">{one.throughput == null ? "–" : short(one.throughput)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
