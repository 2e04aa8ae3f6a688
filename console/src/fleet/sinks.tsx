// Sinks of transactions: lag on each node; what they have rejected, and gaps, on this one.

import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { useMay } from "../api/session";
import { count, span } from "../format/format";
import { visible } from "../transaction/text";
import { Badge, Panel, QueryState, Table, Time } from "../ui/parts";
import { gapsQuery, rejectedQuery, sinksQuery } from "./queries";

/** Lags change all the time; each refresh queries all nodes. */
const REFRESH_MS = 5000;

export function Sinks() {
  const sinks = useQuery({ ...sinksQuery, refetchInterval: ({ state }) => (state.data === null ? false : REFRESH_MS) });
  const isOperator = useMay("operator", "administration");
  if (!sinks.data?.nodes.some((node) => node.sinks.length > 0)) return null;
  const { nodes, missing } = sinks.data;
  return (
    <>
      <Panel title="Sinks of transactions" inside={false}>
        <Table label="Sinks" heads={["Node", "Sink", "Kind", "Content", "#Lag", "#Transactions", "#Documents", "#Rejected", "#In gaps", "State"]}>
          {nodes.flatMap((node) => node.sinks.map((sink) => <Row key={`${node.node} ${sink.name}`} node={node.node ?? ""} sink={sink} />))}
        </Table>
        {missing?.map(({ id, name, reason }) => (
          <p key={id} className="notice warn thin wrap-any">
            {name}: {visible(reason)}
          </p>
        ))}
      </Panel>
      {isOperator && <Rejected />}
      {isOperator && <Gaps />}
    </>
  );
}

function Row({ node, sink }: { node: string; sink: Schemas["SinkView"] }) {
  return (
    <tr>
      <td className="wrap-any">{node || "this node"}</td>
      <td>{sink.name}</td>
      <td>{sink.kind === "kafka" ? "Kafka" : "OpenSearch"}</td>
      <td>{sink.content}</td>
      <td className="num nowrap">{sink.lag.records > 0 ? span(sink.lag.seconds) : "none"}</td>
      <td className="num">{count(sink.lag.records)}</td>
      <td className="num">{count(sink.docs)}</td>
      <td className="num">{count(sink.rejected)}</td>
      <td className="num">{count(sink.gap_records)}</td>
      <td className="wrap-any">
        <SinkState sink={sink} />
      </td>
    </tr>
  );
}

function SinkState({ sink }: { sink: Schemas["SinkView"] }) {
  if (sink.paused)
    return (
      <>
        <Badge tone="bad">paused</Badge> {visible(sink.paused)}
      </>
    );
  if (sink.backfill?.state === "running")
    return (
      <Badge tone="info">
        backfill: {count(sink.backfill.done)} of {count(sink.backfill.ranges)}
      </Badge>
    );
  return <>sending</>;
}

function Rejected() {
  const rejected = useQuery({ ...rejectedQuery, refetchInterval: REFRESH_MS });
  if (rejected.data?.length === 0) return null;
  return (
    <Panel title="Rejected documents of this node" inside={false}>
      <QueryState query={rejected} what="rejected documents" />
      <Table label="Rejected documents" heads={["Time", "Sink", "Transaction", "#Status", "Reason"]}>
        {rejected.data?.map((one) => (
          <tr key={`${one.sink} ${one.id}`}>
            <td>
              <Time at={one.at} style="full" />
            </td>
            <td>{one.sink}</td>
            <td>
              <code>{one.id}</code>
            </td>
            <td className="num">{one.status}</td>
            <td className="wrap-any">{visible(one.reason)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Gaps() {
  const gaps = useQuery({ ...gapsQuery, refetchInterval: REFRESH_MS });
  if (gaps.data?.length === 0) return null;
  return (
    <Panel title="Gaps of this node" inside={false}>
      <QueryState query={gaps} what="gaps" />
      <Table label="Gaps" heads={["Time", "Sink", "Missing", "#Transactions", "#Recovered", "#Not in the journal"]}>
        {gaps.data?.map((gap) => (
          <tr key={`${gap.sink} ${gap.lane} ${gap.why} ${gap.from}`}>
            <td>
              <Time at={gap.at} style="full" />
            </td>
            <td>{gap.sink}</td>
            <td>{gap.why === "record" ? "transactions" : "headers and bodies"}</td>
            <td className="num">
              {gap.at_most && "at most "}
              {count(gap.records)}
            </td>
            <td className="num">{gap.filled ? count(gap.filled.recovered) : "–"}</td>
            <td className="num">{typeof gap.filled?.gone === "number" ? count(gap.filled.gone) : "–"}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
