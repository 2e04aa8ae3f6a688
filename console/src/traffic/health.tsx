// When targets of an upstream left the rotation, and returned.

import { useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { Badge, Panel, Table, Time } from "../ui/parts";
import { TargetCells } from "./named";

/** Changes of an upstream, or of one target; nothing without any. */
export function HealthChanges({ of }: { of: { upstream: string } | { target: string } }) {
  const query = { ...of, limit: 20 };
  const found = useQuery({
    queryKey: ["upstreams", "health", query],
    queryFn: () => data<Schemas["HealthHistory"]>(api.GET("/v1/upstreams/health", { params: { query } })),
    refetchInterval: 5000,
  });
  if (!found.data?.changes.length) return null;
  return (
    <Panel title="Health over time" inside={false} actions={<span className="muted">of this node, since its start</span>}>
      <Table heads={["Time", "Upstream", "Target", "Change"]}>
        {found.data.changes.map((one, at) => (
          <tr key={at}>
            <td>
              <Time at={one.time} style="full" />
            </td>
            <TargetCells upstream={one.upstream} target={one.target} />
            <td>{one.up ? <Badge tone="good">in rotation again</Badge> : <Badge tone="bad">ejected: {one.reason}</Badge>}</td>
          </tr>
        ))}
      </Table>
      {found.data.more && <p className="muted facet-more">and earlier ones</p>}
    </Panel>
  );
}
