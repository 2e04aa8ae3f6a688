// Live metrics and their history.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useState } from "react";
import { api, data, may, type Schemas, type Session } from "../api/client";
import { useMay, useSession } from "../api/session";
import { bytes, count, duration, percent, short, span } from "../format/format";
import { facetTerm } from "../query/fields";
import { between, type RangeSearch, resolveRange, within } from "../time/range";
import { CompareButton } from "../time/compare-button";
import { change, type Earlier, previousRange, shifted, useComparison } from "../time/previous";
import { useRange } from "../time/use-range";
import { byConsumer } from "../monitor/consumers";
import { usageOf } from "../monitor/queries";
import { useMarks } from "../configuration/history";
import { Changes } from "../configuration/history-panel";
import { counts } from "../tracker/queries";
import { Named, TargetCells } from "../traffic/named";
import { Chart, Legend, type Series } from "../ui/chart";
import { Badge, Bar, Failure, Numbers, Panel, Table } from "../ui/parts";
import { useTitle } from "../ui/title";
import { type Pulse, useLive } from "./live";

type History = Schemas["History"];

export function OverviewPage() {
  useTitle("Overview");
  const session = useSession();
  if (session && !may(session, "viewer", "server")) return <Narrowed session={session} />;
  return <Everything />;
}

/** For a scope of some APIs: figures of the whole server are of others, too. */
function Narrowed({ session }: { session: Session }) {
  const apis = session.scope.apis ?? [];
  return (
    <>
      <div className="page-head">
        <h1>Overview</h1>
      </div>
      <Panel title="Your APIs">
        <ul>
          {apis.map((api) => (
            <li key={api}>{may(session, "viewer", "transactions") ? <Named kind="api" name={api} /> : <code>{api}</code>}</li>
          ))}
        </ul>
        <p className="muted">Figures of the whole server are hidden: your scope is for these APIs.</p>
      </Panel>
      {session.recording && <Recorded />}
    </>
  );
}

function Everything() {
  const { pulse } = useLive();
  const session = useSession();
  return (
    <>
      <h1 className="sr-only">Overview</h1>
      <Tiles pulse={pulse} />
      {pulse && pulse.throttled.length > 0 && <ThrottledNotice pulse={pulse} />}
      <Charts pulse={pulse} />
      <div className="two">
        <Apis pulse={pulse} />
        <Upstreams pulse={pulse} />
      </div>
      {session?.counting && <Consumers />}
      {session?.recording && <Recorded />}
      <Health pulse={pulse} />
    </>
  );
}

function Tile({ name, value, unit, note, tone = "" }: { name: string; value: string; unit?: string; note?: ReactNode; tone?: string }) {
  return (
    <div className={`panel tile ${tone}`}>
      <h2>{name}</h2>
      <p className="tile-value">
        {value} {unit && <small>{unit}</small>}
      </p>
      <p className="muted tile-note">{note ?? " "}</p>
    </div>
  );
}

function Tiles({ pulse }: { pulse: Pulse | undefined }) {
  const time = (us: number | null | undefined) => (us == null ? "–" : duration(us));
  const failed = pulse?.server_errors ?? 0;
  return (
    <div className="tiles">
      <Tile name="Requests" value={pulse ? short(pulse.requests) : "–"} unit="/s" note={pulse && `${bytes(pulse.request_bytes)}/s in, ${bytes(pulse.response_bytes)}/s out`} />
      <Tile name="Server errors" value={pulse ? percent(failed, pulse.requests) : "–"} note={pulse && `${short(failed)}/s failed, ${short(pulse.client_errors)}/s with 4xx`} tone={failed > 0 ? "bad" : ""} />
      <Tile name="Rejected by weir" value={pulse ? short(pulse.rejected) : "–"} unit="/s" note={pulse && (pulse.rejected > 0 ? reasons(pulse.rejections) : "no local 401, 403, 429 or 503")} tone={pulse && pulse.rejected > 0 ? "warn" : ""} />
      <Tile name="Latency p99" value={time(pulse?.p99_us)} note={pulse && `p50 ${time(pulse.p50_us)}, p90 ${time(pulse.p90_us)}`} />
      <Tile name="In flight" value={pulse ? short(pulse.in_flight) : "–"} note={pulse && `${count(pulse.connections)} connections`} />
    </div>
  );
}

function ThrottledNotice({ pulse }: { pulse: Pulse }) {
  return (
    <p className="notice warn">
      <strong>Throttled now:</strong>
      {pulse.throttled.map((one) => (
        <span key={one.consumer}>
          <Named kind="consumer" name={one.consumer} /> <span className="muted">plan {one.plan}{one.refused > 0 && `, ${short(one.refused)}/s rejected`}</span>
        </span>
      ))}
    </p>
  );
}

const RATES: Series[] = [
  { label: "requests/s", color: "--chart-1", fill: true },
  { label: "4xx/s", color: "--chart-3" },
  { label: "5xx/s", color: "--chart-4" },
];
const TIMES: Series[] = [
  { label: "p50", color: "--chart-2" },
  { label: "p90", color: "--chart-1", dash: [5, 3] },
  { label: "p99", color: "--chart-5" },
];
const RATE_BEFORE: Series[] = [{ label: "requests/s, range before", color: "--chart-1", dash: [5, 4] }];
const TIME_BEFORE: Series[] = [{ label: "p99, range before", color: "--chart-5", dash: [5, 4] }];
const FLIGHT: Series[] = [{ label: "in flight", color: "--chart-1", fill: true }];

/** History from the server, and the seconds received since then. */
function useHistory(range: RangeSearch, pulse: Pulse | undefined): { history: History | undefined; error: unknown; ends: [number, number]; isOther: boolean } {
  const ends = resolveRange(range, new Date(pulse?.at_ms ?? Date.now()));
  const [from, to] = [Math.floor(ends.from.getTime() / 1000), Math.ceil(ends.to.getTime() / 1000)];
  // A range of up to 15 minutes is drawn by the second: what follows its history is received live.
  const every = Math.max(1000, Math.min(30_000, (ends.to.getTime() - ends.from.getTime()) / 900));
  const result = useQuery({
    queryKey: ["history", range],
    queryFn: () => {
      const now = resolveRange(range, new Date());
      const query = { from: Math.floor(now.from.getTime() / 1000), to: Math.ceil(now.to.getTime() / 1000) };
      return data<History>(api.GET("/v1/live/history", { params: { query } }));
    },
    placeholderData: keepPreviousData,
    refetchInterval: ends.rolling && every > 1000 ? every : false,
    staleTime: 1000,
  });
  const [seconds, setSeconds] = useState<Pulse[]>([]);
  useEffect(() => setSeconds([]), [result.dataUpdatedAt, range.range, range.from]);
  useEffect(() => {
    if (pulse && ends.rolling && every === 1000) setSeconds((before) => [...before, pulse].slice(-900));
  }, [pulse, ends.rolling, every]);
  const history = useMemo(() => result.data && joined(result.data, seconds), [result.data, seconds]);
  return { history, error: result.error, ends: [from, to], isOther: result.isPlaceholderData };
}

/** The history of the range before, and how many seconds it is earlier. */
interface HistoryBefore {
  history: History;
  shift: number;
  /** It does not go back to the beginning of the range. */
  isShort: boolean;
}

function useHistoryBefore(range: RangeSearch, compares: boolean): HistoryBefore | undefined {
  const found = useQuery({
    queryKey: ["history-before", range],
    queryFn: async (): Promise<HistoryBefore> => {
      const before = previousRange(range, new Date());
      const { from, to } = resolveRange(before.range, new Date());
      const query = { from: from.getTime() / 1000, to: to.getTime() / 1000 };
      const history = await data<History>(api.GET("/v1/live/history", { params: { query } }));
      const isShort = (history.at[0] ?? query.to) > query.from + 2 * stepOf(history);
      return { history, shift: before.shift / 1000, isShort };
    },
    enabled: compares,
    refetchInterval: 30_000,
  });
  return compares ? found.data : undefined;
}

const stepOf = (history: History | undefined) => Math.max(1, history?.step_seconds ?? 1);

/** Figures of the range before. Where there are none, weir did not run. */
function earlier({ history }: HistoryBefore, read: (history: History) => (number | null)[]): Earlier {
  return { at: history.at, values: read(history), step: stepOf(history), missing: null };
}

function joined(history: History, seconds: Pulse[]): History {
  const last = history.at.at(-1) ?? 0;
  const fresh = history.step_seconds <= 1 ? seconds.filter((one) => Math.floor(one.at_ms / 1000) > last) : [];
  if (fresh.length === 0) return history;
  const more = <T,>(old: T[], read: (pulse: Pulse) => T) => [...old, ...fresh.map(read)];
  return {
    step_seconds: history.step_seconds,
    at: more(history.at, (one) => Math.floor(one.at_ms / 1000)),
    requests: more(history.requests, (one) => one.requests),
    client_errors: more(history.client_errors, (one) => one.client_errors),
    server_errors: more(history.server_errors, (one) => one.server_errors),
    in_flight: more(history.in_flight, (one) => one.in_flight),
    p50_us: more(history.p50_us, (one) => one.p50_us ?? null),
    p90_us: more(history.p90_us, (one) => one.p90_us ?? null),
    p99_us: more(history.p99_us, (one) => one.p99_us ?? null),
  };
}

function Charts({ pulse }: { pulse: Pulse | undefined }) {
  const [range, setRange] = useRange();
  const { history, error, ends, isOther } = useHistory(range, pulse);
  const { marks, changes } = useMarks(range);
  const brush = (from: number, to: number) => setRange(between(from, to));
  const [compares] = useComparison();
  const earlierHistory = useHistoryBefore(range, compares);
  // Not beside figures of another range, which are shown until those of this one are there.
  const before = isOther ? undefined : earlierHistory;
  const rates = useMemo(() => {
    const step = stepOf(history);
    const rate = (all: number[] = []) => all.map((value) => value / step);
    const at = history?.at ?? [];
    const old = before && shifted(at, step, earlier(before, (all) => all.requests.map((value) => value / stepOf(all))), before.shift);
    return [at, rate(history?.requests), rate(history?.client_errors), rate(history?.server_errors), ...(old ? [old] : [])] as never;
  }, [history, before]);
  const times = useMemo(() => {
    const at = history?.at ?? [];
    const old = before && shifted(at, stepOf(history), earlier(before, (all) => all.p99_us), before.shift);
    return [at, history?.p50_us ?? [], history?.p90_us ?? [], history?.p99_us ?? [], ...(old ? [old] : [])] as never;
  }, [history, before]);
  const [rateSeries, timeSeries] = before ? [[...RATES, ...RATE_BEFORE], [...TIMES, ...TIME_BEFORE]] : [RATES, TIMES];
  const flight = useMemo(() => [history?.at ?? [], history?.in_flight ?? []] as never, [history]);
  if (error && !history) return <Failure error={error} />;
  const isShort = history && (history.at[0] ?? ends[1]) > ends[0] + 90 && ends[1] - ends[0] > 3600;
  return (
    <>
      <Panel
        title="Requests per second"
        actions={
          <>
            <Legend series={rateSeries} />
            <CompareButton />
          </>
        }
      >
        <Chart label="Requests per second over time" data={rates} series={rateSeries} height={210} range={ends} format={short} onBrush={brush} sync="overview" marks={marks} />
        <Changes all={changes} />
        {before?.isShort && <p className="muted">Figures of the range before are incomplete: they are kept in memory, from the start of weir and for at most a week.</p>}
        {isShort && <p className="muted">Figures are kept in memory for at most a week: there are none from before the start of weir.</p>}
      </Panel>
      <div className="two">
        <Panel title="Latency" actions={<Legend series={timeSeries} />}>
          <Chart label="Latency over time" data={times} series={timeSeries} height={170} range={ends} format={(us) => (us === 0 ? "0" : duration(us))} onBrush={brush} sync="overview" marks={marks} />
        </Panel>
        <Panel title="In flight">
          <Chart label="Requests in flight over time" data={flight} series={FLIGHT} height={170} range={ends} format={short} onBrush={brush} sync="overview" marks={marks} />
        </Panel>
      </div>
    </>
  );
}

/** Shown until the first event. */
const WAITING = "Waiting for the first second…";

function Apis({ pulse }: { pulse: Pulse | undefined }) {
  const all = pulse?.apis ?? [];
  const most = Math.max(1, ...all.map((api) => api.requests));
  return (
    <Panel title="APIs, last second" inside={false}>
      {all.length === 0 ? (
        <p className="inside muted">{pulse ? "No requests ended in the last second." : WAITING}</p>
      ) : (
        <Table heads={["API", "#Requests/s", "(Share)", "#Failed", "#p99"]}>
          {all.map((one) => (
            <tr key={one.api}>
              <td>{one.api ? <Named kind="api" name={one.api} /> : <span className="muted">no API</span>}</td>
              <td className="num">{short(one.requests)}</td>
              <td>
                <Bar part={one.requests} whole={most} label={`Share of ${one.api}`} />
              </td>
              <td className="num">{percent(one.server_errors, one.requests)}</td>
              <td className="num">{one.p99_us == null ? "–" : duration(one.p99_us)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Upstreams({ pulse }: { pulse: Pulse | undefined }) {
  const all = pulse?.targets ?? [];
  return (
    <Panel title="Upstreams" inside={false}>
      {all.length === 0 ? (
        <p className="inside muted">{pulse ? "No upstream has been called since the start of weir." : WAITING}</p>
      ) : (
        <Table heads={["Upstream", "Target", "Health", "#Active", "#Idle"]}>
          {all.map((one) => (
            <tr key={`${one.upstream} ${one.target}`}>
              <TargetCells upstream={one.upstream} target={one.target} />
              <td>{one.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">ejected</Badge>}</td>
              <td className="num">{count(one.active)}</td>
              <td className="num">{count(one.idle)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

const MAX_CONSUMERS = 8;

/** The most frequent reasons. */
function reasons(rejections: Schemas["Rejected"][]): string {
  return rejections
    .slice(0, 3)
    .map((one) => `${short(one.requests)} ${one.reason}`)
    .join(", ");
}

/** Metered calls of consumers in the range, and rejections since the start. */
function Consumers() {
  const [range] = useRange();
  const rejections = useQuery({ queryKey: ["rejections"], queryFn: () => data<Schemas["Rejections"]>(api.GET("/v1/rejections")), refetchInterval: 5000 });
  const rejected = new Map(rejections.data?.consumers.map((one) => [one.consumer, one]));
  const usage = useQuery(usageOf(range, "consumer,status"));
  const all = usage.data ? byConsumer(usage.data.rows) : [];
  if (all.length === 0) return null;
  const { from, to } = resolveRange(range, new Date());
  const seconds = Math.max(1, (to.getTime() - from.getTime()) / 1000);
  const most = Math.max(1, all[0]?.calls ?? 1);
  return (
    <Panel title="Consumers, in the time range" inside={false} actions={<Link to="/monitor" className="button small">Usage</Link>}>
      <Table heads={["Consumer", "#Calls", "(Share)", "#Calls/s", "#4xx", "#Failed", "#Rejected since the start"]}>
        {all.slice(0, MAX_CONSUMERS).map((one) => (
          <tr key={one.consumer}>
            <td className="wrap-any">{one.consumer ? <Named kind="consumer" name={one.consumer} /> : <span className="muted">none</span>}</td>
            <td className="num">{count(one.calls)}</td>
            <td>
              <Bar part={one.calls} whole={most} label={`Share of ${one.consumer || "none"}`} />
            </td>
            <td className="num">{short(one.calls / seconds)}</td>
            <td className="num">{percent(one.clientErrors, one.calls)}</td>
            <td className="num">{percent(one.failed, one.calls)}</td>
            <td className="num" title={reasons(rejected.get(one.consumer)?.reasons ?? [])}>
              {rejections.data ? count(rejected.get(one.consumer)?.requests ?? 0) : "–"}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

const FACETS: [string, string][] = [
  ["api", "APIs"],
  ["consumer", "Consumers"],
  ["status", "Status"],
];

/** Facets of the transactions recorded in the range. */
function Recorded() {
  const [range] = useRange();
  const canSee = useMay("viewer", "transactions");
  const summary = useQuery({ ...counts("", range, false), enabled: canSee, refetchInterval: 15_000, staleTime: 5000 });
  const failed = useQuery({ ...counts("resolution:open", range, false), enabled: canSee, refetchInterval: 15_000, staleTime: 5000 });
  const [compares] = useComparison();
  const earlier = useQuery({
    queryKey: ["summary-before", range],
    queryFn: ({ signal }) => data<Schemas["Counts"]>(api.GET("/v1/transactions/summary", { params: { query: { q: within("", previousRange(range, new Date()).range).query } }, signal })),
    enabled: canSee && compares,
    refetchInterval: 30_000,
  });
  if (!summary.data || summary.data.matched === 0) return null;
  const all = summary.data;
  const than = compares && !summary.isPlaceholderData ? earlier.data : undefined;
  const words = than ? change(all.matched, than.matched) : "";
  const isPartial = than && (than.cut || than.incomplete);
  const open = failed.data?.matched ?? 0;
  return (
    <Panel
      title={`${count(all.matched)} transactions recorded in the time range${words && ` (${words} against the range before${isPartial ? ", of which some may be missing" : ""})`}`}
      actions={
        open > 0 ? (
          <Link to="/tracker" search={{ q: "resolution:open" } as never} className="button small">
            {count(open)} open {open === 1 ? "failure" : "failures"}
          </Link>
        ) : (
          <Badge tone="good">no open failures</Badge>
        )
      }
    >
      <div className="spread">
        {FACETS.map(([field, name]) => {
          const facet = all.facets.find((one) => one.field === field);
          if (!facet || facet.values.length === 0) return null;
          return (
            <section key={field}>
              <h3>{name}</h3>
              <ul>
                {facet.values.slice(0, 6).map((one) => (
                  <li key={one.value}>
                    {field !== "status" && one.value ? (
                      <Named kind={field as "api" | "consumer"} name={one.value} />
                    ) : (
                      <Link to="/tracker" search={{ q: facetTerm(field, one.value) } as never} className="cut">
                        {one.value || "(none)"}
                      </Link>
                    )}
                    <Bar part={one.count} whole={all.matched} label={`Share of ${one.value || "none"}`} />
                    <span className="num">{percent(one.count, all.matched)}</span>
                  </li>
                ))}
              </ul>
            </section>
          );
        })}
      </div>
    </Panel>
  );
}

function Health({ pulse }: { pulse: Pulse | undefined }) {
  if (!pulse) return null;
  const { journal, lost } = pulse;
  const numbers: [string, string, boolean][] = [
    ...(journal
      ? ([
          ["Journal on disk", bytes(journal.disk_bytes), false],
          ["Transactions indexed", count(journal.indexed), false],
          ["Index lag", journal.index_lag_records === 0 ? "none" : `${count(journal.index_lag_records)}, ${span(journal.index_lag_seconds)}`, journal.index_lag_seconds > 60],
          ["Records not appended", count(journal.refused), journal.refused > 0],
          ["Recorded with outcome only", count(journal.shortened), journal.shortened > 0],
          ["Files deleted by retention", count(journal.dropped), false],
        ] as [string, string, boolean][])
      : []),
    ["Requests not recorded", count(lost.unrecorded), lost.unrecorded > 0],
    ["Bodies withheld", count(lost.withheld), lost.withheld > 0],
    ["Calls not metered", count(lost.uncounted), lost.uncounted > 0],
    ["Connections rejected", count(lost.connections), lost.connections > 0],
    ["Requests aborted", count(lost.aborted), false],
    ["Log lines dropped", count(lost.log_lines), lost.log_lines > 0],
  ];
  return (
    <Panel title={journal ? "Journal, and losses since the start" : "Losses since the start"}>
      <Numbers all={numbers} />
    </Panel>
  );
}
