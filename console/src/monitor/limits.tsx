// Status of rate limits and quotas.

import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { count, span } from "../format/format";
import { exhausted, Named, termOf } from "../traffic/named";
import { Badge, Bar, EmptyPanel, Failure, Loading, Panel, Table } from "../ui/parts";

type ConsumerLimits = Schemas["PlanStatus"];

export const limitsQuery = queryOptions({ queryKey: ["limits"], queryFn: () => data<Schemas["LimitStatuses"]>(api.GET("/v1/limits")), refetchInterval: 1000 });

export function LimitsView() {
  const limits = useQuery(limitsQuery);
  if (limits.isPending) return <Loading what="limits" />;
  if (limits.isError) return <Failure error={limits.error} retry={() => void limits.refetch()} />;
  const { consumers, limits: routes } = limits.data;
  if (consumers.length === 0 && routes.length === 0) {
    return (
      <EmptyPanel title="No limits">
        <p>Plans limit consumers by rate and quota:</p>
        <pre>{"plans:\n  gold: {rate: 100/s, burst: 200, quota: {calls: 1000000, per: month, zone: UTC}}"}</pre>
      </EmptyPanel>
    );
  }
  const sorted = [...consumers].sort((a, b) => Number(Boolean(b.throttled)) - Number(Boolean(a.throttled)));
  return (
    <>
      {sorted.length > 0 && <Consumers all={sorted} />}
      {routes.length > 0 && (
        <Panel title="Limits of APIs and routes" inside={false}>
          <Table heads={["API", "Limit", "#Rejected since the start"]}>
            {routes.map((one) => (
              <tr key={`${one.api} ${one.limit}`}>
                <td>
                  <Named kind="api" name={one.api} />
                </td>
                <td>
                  <Named kind="detail" name={exhausted(one.limit)} label={one.limit} within={termOf("api", one.api)} />
                </td>
                <td className="num">{count(one.refused)}</td>
              </tr>
            ))}
          </Table>
        </Panel>
      )}
    </>
  );
}

export function Consumers({ all }: { all: ConsumerLimits[] }) {
  return (
    <Panel title="Consumers" inside={false} actions={<span className="muted">current status of their plans</span>}>
      <Table heads={["Consumer", "Plan", "Status", "Remaining rate", "Used quota", "#Rejected by rate", "#Rejected by quota"]}>
        {all.map((one) => (
          <tr key={one.consumer}>
            <td className="wrap-any">
              <Named kind="consumer" name={one.consumer} />
            </td>
            <td>
              <Named kind="plan" name={one.plan} />
            </td>
            <td>{one.throttled ? <Badge tone="bad">throttled by {one.throttled}</Badge> : <Badge tone="good">admitted</Badge>}</td>
            <td>{one.rate ? <RateLeft rate={one.rate} consumer={one.consumer} /> : <span className="muted">no rate</span>}</td>
            <td>{one.quota ? <QuotaUsed quota={one.quota} consumer={one.consumer} /> : <span className="muted">no quota</span>}</td>
            <td className="num">{count(one.refused_by_rate)}</td>
            <td className="num">{count(one.refused_by_quota)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function RateLeft({ rate, consumer }: { rate: Schemas["RateStatus"]; consumer: string }) {
  return (
    <>
      <span className="nowrap">
        {count(rate.remaining)} of {count(rate.burst)}
      </span>
      <Bar part={rate.remaining} whole={rate.burst} tone={rate.remaining === 0 ? "bad" : ""} label={`Remaining rate of ${consumer}`} />
    </>
  );
}

function QuotaUsed({ quota, consumer }: { quota: Schemas["QuotaStatus"]; consumer: string }) {
  const share = quota.used / Math.max(1, quota.calls);
  const tone = share >= 1 ? "bad" : share > 0.8 ? "warn" : "";
  return (
    <>
      <span className="nowrap">
        {count(quota.used)} of {count(quota.calls)}
      </span>
      <Bar part={quota.used} whole={quota.calls} tone={tone} label={`Quota used by ${consumer}`} />
      <small className="muted nowrap">
        {quota.rolling ? "rolling" : "calendar"} {span(quota.window_seconds)}, {quota.free_in_seconds > 0 ? `free in ${span(quota.free_in_seconds)}` : `reset in ${span(quota.reset_seconds)}`}
      </small>
    </>
  );
}
