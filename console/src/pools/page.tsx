// Pools: agents by state, queue, wait and duration of requests.

import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import { count, duration } from "../format/format";
import { between, type RangeSearch, resolveRange } from "../time/range";
import { useRange } from "../time/use-range";
import { Named } from "../traffic/named";
import { Chart, Legend, type Series } from "../ui/chart";
import { Badge, Bar, EmptyPanel, Numbers, Panel, QueryState, Table } from "../ui/parts";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";

type Pool = Schemas["PoolSnapshot"];
type History = Schemas["PoolHistory"];

export function PoolsPage() {
  const pools = useQuery({ queryKey: ["pools"], queryFn: () => data<Schemas["Pools"]>(api.GET("/v1/pools")), refetchInterval: 1000 });
  const [range] = useRange();
  const history = useQuery({
    queryKey: ["pool-history", range],
    queryFn: () => {
      const ends = resolveRange(range, new Date());
      const query = { from: Math.floor(ends.from.getTime() / 1000), to: Math.ceil(ends.to.getTime() / 1000) };
      return data<History[]>(api.GET("/v1/pools/history", { params: { query } }));
    },
    refetchInterval: 2000,
    enabled: (pools.data?.pools.length ?? 0) > 0,
  });
  useTitle("Pools");
  return (
    <>
      <div className="page-head">
        <h1>Pools</h1>
      </div>
      <QueryState query={pools} what="pools" />
      {pools.data?.pools.length === 0 && (
        <EmptyPanel title="No pools">
          <p>A pool runs agents, which are worker processes, and sends requests to them:</p>
          <pre>{"pools:\n  app: {command: [./agent], protocol: fastcgi, agents: {min: 2, max: 10}}"}</pre>
        </EmptyPanel>
      )}
      {pools.data?.pools.map((pool) => (
        <One key={pool.pool} pool={pool} history={history.data?.find((one) => one.pool === pool.pool)} at={history.dataUpdatedAt} />
      ))}
    </>
  );
}

const seconds = (value: number) => duration(value * 1e6);

const WORK: Series[] = [
  { label: "busy agents", color: "--chart-1", fill: true },
  { label: "requests waiting", color: "--chart-3" },
];
const TIMES: Series[] = [
  { label: "mean wait", color: "--chart-3" },
  { label: "mean duration", color: "--chart-2" },
];

function OverTime({ history, range, at }: { history: History; range: RangeSearch; at: number }) {
  const [, setRange] = useRange();
  const ends = resolveRange(range, new Date(at));
  const span = useMemo<[number, number]>(() => [ends.from.getTime() / 1000, ends.to.getTime() / 1000], [ends.from.getTime(), ends.to.getTime()]);
  const work = useMemo(() => [history.at, history.busy, history.waiting] as never, [history]);
  const times = useMemo(() => [history.at, history.wait_us, history.took_us] as never, [history]);
  const brush = (from: number, to: number) => setRange(between(from, to));
  return (
    <div className="two">
      <section>
        <Legend series={WORK} />
        <Chart label={`Busy agents and waiting requests of ${history.pool} over time`} data={work} series={WORK} height={140} range={span} format={(value) => (Number.isInteger(value) ? count(value) : "")} onBrush={brush} sync="pools" />
      </section>
      <section>
        <Legend series={TIMES} />
        <Chart label={`Wait and duration of requests of ${history.pool} over time`} data={times} series={TIMES} height={140} range={span} format={(us) => (us === 0 ? "0" : duration(us))} onBrush={brush} sync="pools" />
      </section>
    </div>
  );
}

function One({ pool, history, at }: { pool: Pool; history: History | undefined; at: number }) {
  const [range] = useRange();
  const { agents, queue } = pool;
  const canAct = useMay("operator", "administration");
  const numbers: [string, string, boolean][] = [
    ["Busy", count(agents.busy), false],
    ["Available", count(agents.available), false],
    ["Starting", count(agents.starting), false],
    ["Draining", count(agents.locked), false],
    ["Waiting", `${count(queue.current)} of ${count(queue.max)}`, queue.current >= queue.max],
    ["Peak waiting", count(queue.peak), false],
    ["Served", count(pool.served), false],
    ["Rejected, queue full", count(pool.rejected_full), pool.rejected_full > 0],
    ["Rejected, wait timed out", count(pool.rejected_wait), pool.rejected_wait > 0],
    ["Rejected, no agent", count(pool.rejected_unavailable), pool.rejected_unavailable > 0],
    ["Started", count(pool.started), false],
    ["Recycled", count(pool.restarted), false],
    ["Crashed", count(pool.crashed), pool.crashed > 0],
    ["Killed", count(pool.killed), pool.killed > 0],
    ["Failed starts", count(pool.failed_starts), pool.failed_starts > 0],
  ];
  return (
    <Panel
      title={
        <span className="row">
          <Named kind="pool" name={pool.pool} /> {pool.ready ? <Badge tone="good">ready</Badge> : <Badge tone="bad">not ready</Badge>} <span className="muted">{pool.protocol}</span>
        </span>
      }
      actions={canAct && <Actions pool={pool.pool} />}
    >
      <div className="stack">
        {pool.trouble && <p className="notice bad wrap-any">{pool.trouble}</p>}
        <Bar part={agents.busy} whole={agents.max} tone={agents.busy >= agents.max ? "warn" : ""} label={`Busy agents of ${pool.pool}`} />
        {history && <OverTime history={history} range={range} at={at} />}
        <Numbers all={numbers} />
        <Table heads={["Since the start", "#Mean", "#p50", "#p95", "#p99", "#Max"]}>
          {(
            [
              ["Wait of requests", pool.request_wait],
              ["Duration in agents", pool.request_duration],
            ] as const
          ).map(([name, times]) => (
            <tr key={name}>
              <td>{name}</td>
              {[times.mean, times.p50, times.p95, times.p99, times.max].map((value, at) => (
                <td key={at} className="num">
                  {times.count > 0 ? seconds(value) : "–"}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </div>
    </Panel>
  );
}

function Actions({ pool }: { pool: string }) {
  const act = useMutation({
    mutationFn: (action: "recycle" | "trim") => data(api.POST("/v1/pools/{pool}/{action}", { params: { path: { pool, action } } })),
    onSuccess: (_, action) => notify(action === "recycle" ? "Each agent is replaced as soon as it is idle." : "Idle agents are stopped."),
    onError: (error) => notify(error.message, "bad"),
  });
  return (
    <>
      <button type="button" className="button small" disabled={act.isPending} onClick={() => act.mutate("recycle")}>
        Recycle
      </button>
      <button type="button" className="button small" disabled={act.isPending} onClick={() => act.mutate("trim")}>
        Trim
      </button>
    </>
  );
}
