// Pools: agents and their states, the queue, how long requests wait and take.

import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import { count, duration } from "../format/format";
import { Badge, Bar, Empty, Failure, Loading, Panel } from "../ui/parts";
import { say } from "../ui/toast";

type Pool = Schemas["PoolStatus"];

export function PoolsPage() {
  const pools = useQuery({ queryKey: ["pools"], queryFn: () => data<Schemas["Pools"]>(api.GET("/v1/pools")), refetchInterval: 1000 });
  useEffect(() => {
    document.title = "Pools · weir";
  }, []);
  return (
    <>
      <div className="page-head">
        <h1>Pools</h1>
      </div>
      {pools.isError && <Failure error={pools.error} retry={() => void pools.refetch()} />}
      {pools.isPending && <Loading what="pools" />}
      {pools.data?.pools.length === 0 && (
        <section className="panel">
          <Empty title="There is no pool">
            <p>A pool keeps worker processes, its agents, and hands requests to them:</p>
            <pre>{"pools:\n  app: {command: [./agent], protocol: fastcgi, agents: {min: 2, max: 10}}"}</pre>
          </Empty>
        </section>
      )}
      {pools.data?.pools.map((pool) => (
        <One key={pool.pool} pool={pool} />
      ))}
    </>
  );
}

const seconds = (value: number) => duration(value * 1e6);

function One({ pool }: { pool: Pool }) {
  const { agents, queue } = pool;
  const canAct = useMay("operator");
  const numbers: [string, string, boolean][] = [
    ["Busy", count(agents.busy), false],
    ["Available", count(agents.available), false],
    ["Starting", count(agents.starting), false],
    ["Locked", count(agents.locked), false],
    ["Waiting", `${count(queue.current)} of ${count(queue.max)}`, queue.current >= queue.max],
    ["Most waiting", count(queue.peak), false],
    ["Served", count(pool.served), false],
    ["Refused, queue full", count(pool.rejected_full), pool.rejected_full > 0],
    ["Refused, waited too long", count(pool.rejected_wait), pool.rejected_wait > 0],
    ["Refused, no agent", count(pool.rejected_unavailable), pool.rejected_unavailable > 0],
    ["Started", count(pool.started), false],
    ["Replaced", count(pool.restarted), false],
    ["Crashed", count(pool.crashed), pool.crashed > 0],
    ["Killed", count(pool.killed), pool.killed > 0],
    ["Never answered", count(pool.failed_starts), pool.failed_starts > 0],
  ];
  return (
    <Panel
      title={
        <span className="row">
          {pool.pool} {pool.ready ? <Badge tone="good">ready</Badge> : <Badge tone="bad">not ready</Badge>} <span className="muted">{pool.protocol}</span>
        </span>
      }
      actions={canAct && <Actions pool={pool.pool} />}
    >
      <div className="stack">
        {pool.trouble && <p className="notice bad wrap-any">{pool.trouble}</p>}
        <Bar part={agents.busy} whole={agents.max} tone={agents.busy >= agents.max ? "warn" : ""} label={`Busy agents of ${pool.pool}`} />
        <dl className="numbers">
          {numbers.map(([name, value, isBad]) => (
            <div key={name} className={isBad ? "bad" : ""}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
        <div className="table-box">
          <table className="data">
            <thead>
              <tr>
                <th>Since the start</th>
                <th className="num">Mean</th>
                <th className="num">p50</th>
                <th className="num">p95</th>
                <th className="num">p99</th>
                <th className="num">Longest</th>
              </tr>
            </thead>
            <tbody>
              {(
                [
                  ["Requests waited", pool.request_wait],
                  ["Agents took", pool.request_duration],
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
            </tbody>
          </table>
        </div>
      </div>
    </Panel>
  );
}

function Actions({ pool }: { pool: string }) {
  const act = useMutation({
    mutationFn: (action: "recycle" | "trim") => data(api.POST("/v1/pools/{pool}/{action}", { params: { path: { pool, action } } })),
    onSuccess: (_, action) => say(action === "recycle" ? "Agents are replaced, each as soon as it has nothing to do." : "Agents that are not needed are stopped."),
    onError: (error) => say(error.message, "bad"),
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
