// Metered calls by group and over time.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, data } from "../api/client";
import { useSession } from "../api/session";
import { NodeChoice, UnreportedNodes } from "../fleet/choice";
import { useMarks } from "../configuration/history";
import { bytes, count, duration, short } from "../format/format";
import { between, type RangeSearch, resolveRange } from "../time/range";
import { useRange } from "../time/use-range";
import { Chart, type Series } from "../ui/chart";
import { Amounts } from "../ui/money";
import { Empty, Panel, QueryState, Table } from "../ui/parts";
import { Named } from "../traffic/named";
import { useSearchText } from "../url/use-search-text";
import { MeteringOff } from "./metering-off";
import { periodOf, type UsageReport, type UsageRow, usageOf } from "./queries";

const GROUPS = ["consumer", "api", "operation", "plan", "status"] as const;
type Group = (typeof GROUPS)[number];
const NAMES: Record<Group, string> = { consumer: "Consumer", api: "API", operation: "Operation", plan: "Plan", status: "Status" };
const SERIES: Series[] = [{ label: "calls", color: "--chart-1", bars: true }];

function stepOf(range: RangeSearch): { step: "minute" | "hour" | "day"; seconds: number } {
  const { from, to } = resolveRange(range, new Date());
  const hours = (to.getTime() - from.getTime()) / 3_600_000;
  if (hours <= 12) return { step: "minute", seconds: 60 };
  return hours <= 24 * 14 ? { step: "hour", seconds: 3600 } : { step: "day", seconds: 86400 };
}

export function Usage() {
  const [range] = useRange();
  const session = useSession();
  const [grouped, setGrouped] = useSearchText("groups", "consumer,api");
  const groups = GROUPS.filter((group) => grouped.split(",").includes(group));
  const [node, setNode] = useSearchText("node");
  const by = groups.join(",");
  const usage = useQuery({ ...usageOf(range, by, node), enabled: session?.counting ?? false });
  if (session && !session.counting) return <MeteringOff />;
  const rows = [...(usage.data?.rows ?? [])].sort((a, b) => b.calls - a.calls);
  const toggle = (group: Group) => setGrouped(GROUPS.filter((one) => (one === group) !== groups.includes(one)).join(",") || "none");
  return (
    <>
      <OverTime range={range} node={node} />
      <Panel
        title="Calls"
        inside={false}
        actions={
          <>
            <NodeChoice node={node} onChange={setNode} />
            <div className="row" role="group" aria-label="Group by">
              <span className="muted">group by</span>
              {GROUPS.map((group) => (
                <button key={group} type="button" className="button small" aria-pressed={groups.includes(group)} onClick={() => toggle(group)}>
                  {NAMES[group]}
                </button>
              ))}
            </div>
          </>
        }
      >
        <QueryState query={usage} what="usage" />
        {usage.data && rows.length === 0 && (
          <Empty title="No calls in this time range">
            <p>Select a longer time range at the top. Calls are metered about a second after they end.</p>
          </Empty>
        )}
        {(usage.data?.missing?.uncounted ?? 0) > 0 && <p className="notice warn thin">{count(usage.data?.missing?.uncounted ?? 0)} calls of this period are not included: the journal was full.</p>}
        <UnreportedNodes all={usage.data?.unreported} />
        {usage.data && rows.length > 0 && <UsageTable all={usage.data} rows={rows} groups={groups} />}
      </Panel>
    </>
  );
}

function OverTime({ range, node }: { range: RangeSearch; node: string }) {
  const [, setRange] = useRange();
  const { marks } = useMarks(range);
  const { step, seconds } = stepOf(range);
  const usage = useQuery({
    queryKey: ["usage", range, "time", step, node],
    queryFn: () => data<UsageReport>(api.GET("/v1/usage", { params: { query: { ...periodOf(range), step, ...(node ? { node } : {}) } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const ends = resolveRange(range, new Date(usage.dataUpdatedAt || Date.now()));
  const span = useMemo<[number, number]>(() => [ends.from.getTime() / 1000, ends.to.getTime() / 1000], [ends.from.getTime(), ends.to.getTime()]);
  const points = useMemo(() => {
    const rows = usage.data?.rows ?? [];
    return [rows.map((row) => Date.parse(row.time ?? "") / 1000), rows.map((row) => row.calls)] as [number[], number[]];
  }, [usage.data]);
  const total = points[1].reduce((sum, calls) => sum + calls, 0);
  if (!usage.data || total === 0) return null;
  return (
    <Panel title={`${count(total)} calls`} actions={<span className="muted">by {step}</span>}>
      <Chart label={`Calls over time, by ${step}`} data={points} series={SERIES} height={150} range={[span[0] - seconds / 2, span[1]]} format={short} onBrush={(from, to) => setRange(between(from, to))} marks={marks} />
    </Panel>
  );
}

function UsageTable({ all, rows, groups }: { all: UsageReport; rows: UsageRow[]; groups: Group[] }) {
  const isPriced = (all.costs ?? []).length > 0;
  const isExcluded = rows.some((row) => (row.unbilled_calls ?? 0) > 0);
  const sum = (of: (row: UsageRow) => number) => rows.reduce((total, row) => total + of(row), 0);
  return (
    <>
      <Table heads={[...groups.map((group) => NAMES[group]), "#Calls", "#In", "#Out", "#p50", "#p90", "#p99", ...(isPriced ? ["#Amount"] : []), ...(isExcluded ? ["#Not billed", "#Would have cost"] : [])]}>
        {rows.slice(0, 500).map((row) => (
          <tr key={groups.map((group) => row[group]).join(" ")}>
            {groups.map((group) => (
              <td key={group} className="wrap-any">
                {row[group] ? <Named kind={group} name={String(row[group])} /> : <span className="muted">none</span>}
              </td>
            ))}
            <td className="num">{count(row.calls)}</td>
            <td className="num">{bytes(row.request_bytes)}</td>
            <td className="num">{bytes(row.response_bytes)}</td>
            <td className="num">{duration(row.p50_us)}</td>
            <td className="num">{duration(row.p90_us)}</td>
            <td className="num">{duration(row.p99_us)}</td>
            {isPriced && (
              <td className="num">
                <Amounts all={row.costs} />
              </td>
            )}
            {isExcluded && (
              <>
                <td className="num">{count(row.unbilled_calls ?? 0)}</td>
                <td className="num">
                  <Amounts all={row.unbilled_costs} />
                </td>
              </>
            )}
          </tr>
        ))}
        <tr className="sum">
          {groups.length > 0 && <td colSpan={groups.length}>In all</td>}
          <td className="num">{count(sum((row) => row.calls))}</td>
          <td className="num">{bytes(sum((row) => row.request_bytes))}</td>
          <td className="num">{bytes(sum((row) => row.response_bytes))}</td>
          <td colSpan={3} />
          {isPriced && (
            <td className="num">
              <Amounts all={all.costs} />
            </td>
          )}
          {isExcluded && (
            <>
              <td className="num">{count(sum((row) => row.unbilled_calls ?? 0))}</td>
              <td className="num">
                <Amounts all={all.unbilled_costs} />
              </td>
            </>
          )}
        </tr>
      </Table>
      {isPriced && <p className="inside muted">Amounts are without tiers. Each is rounded by itself, the sum from exact amounts; the title of an amount is its exact value.</p>}
      {rows.length > 500 && <p className="inside muted">The 500 rows with most calls of {count(rows.length)} are shown; `weir usage` shows all.</p>}
    </>
  );
}
