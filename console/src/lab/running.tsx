// The current or last load test by second.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { api } from "../api/client";
import { useMay } from "../api/session";
import { short, span } from "../format/format";
import { Chart, Legend, type Series } from "../ui/chart";
import { Badge, Bar, Panel, Time } from "../ui/parts";
import { notify } from "../ui/toast";
import { type LabProgress, progressQuery, TONES } from "./queries";

const RATES: Series[] = [
  { label: "requests/s", color: "--chart-1", fill: true },
  { label: "errors/s", color: "--chart-4" },
];
const TIMES: Series[] = [
  { label: "p50", color: "--chart-2" },
  { label: "p99", color: "--chart-5" },
];

export function Running({ progress }: { progress: LabProgress }) {
  const mayStop = useMay("operator", "administration");
  const queries = useQueryClient();
  const stop = useMutation({
    mutationFn: () => api.DELETE("/v1/lab/run"),
    onSuccess: () => void queries.invalidateQueries({ queryKey: progressQuery.queryKey }),
    onError: (error) => notify(error.message, "bad"),
  });
  const { start } = progress;
  const passed = Math.max(0, (Date.now() - Date.parse(progress.since)) / 1000);
  const ends = useMemo<[number, number]>(() => {
    const [first, last] = [progress.seconds[0]?.at ?? Date.now() / 1000, progress.seconds.at(-1)?.at ?? 0];
    return [first, Math.max(last, first + 30)];
  }, [progress.seconds]);
  const at = progress.seconds.map((one) => one.at);
  const rates = useMemo(() => [at, progress.seconds.map((one) => one.samples), progress.seconds.map((one) => one.errors)] as never, [progress.seconds]);
  const times = useMemo(() => [at, progress.seconds.map((one) => one.p50_ms), progress.seconds.map((one) => one.p99_ms)] as never, [progress.seconds]);
  return (
    <Panel
      title={
        <span className="row">
          {progress.running ? "Running" : "Last load test"}: {start.suite}
          {progress.verdict && <Badge tone={TONES[progress.verdict] ?? ""}>{progress.verdict}</Badge>}
        </span>
      }
      actions={
        <>
          <span className="muted wrap-any">
            {start.level}, at most {start.rate}/s for {span(start.seconds)} at {start.target}, by {progress.by}
          </span>
          {progress.running && mayStop && (
            <button type="button" className="button danger small" disabled={stop.isPending} onClick={() => stop.mutate()}>
              Stop
            </button>
          )}
          {progress.verdict && (
            <Link to="/lab/$run" params={{ run: progress.run }} className="button small">
              Result
            </Link>
          )}
        </>
      }
    >
      <div className="stack">
        {progress.error && (
          <p className="notice bad wrap-any" role="alert">
            {progress.error}
          </p>
        )}
        {progress.running && (
          <div className="row" role="status">
            <span className="spinner" aria-hidden="true" />
            <span className="wrap-any">{progress.doing}</span>
            <span className="muted">
              since <Time at={progress.since} />, at most {span(Math.max(0, start.seconds - passed))} left
            </span>
            <span className="grow">
              <Bar part={Math.min(passed, start.seconds)} whole={start.seconds} label="Time used" />
            </span>
          </div>
        )}
        {progress.seconds.length > 0 && (
          <div className="two">
            <section>
              <Legend series={RATES} />
              <Chart label="Requests and errors per second" data={rates} series={RATES} height={140} range={ends} format={short} />
            </section>
            <section>
              <Legend series={TIMES} />
              <Chart label="Response times in milliseconds" data={times} series={TIMES} height={140} range={ends} format={(ms) => `${short(ms)} ms`} />
            </section>
          </div>
        )}
      </div>
    </Panel>
  );
}
