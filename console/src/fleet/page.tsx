// The fleet: nodes, the shared database, configurations and problems.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useMay } from "../api/session";
import { count, span } from "../format/format";
import { Named } from "../traffic/named";
import { visible } from "../transaction/text";
import { Badge, EmptyPanel, Panel, QueryState, Reasons, State, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { type Fleet, fleetQuery } from "./queries";
import { RetireDialog } from "./retire";
import { Sinks } from "./sinks";
import { configurations, type FleetNode, remedy, shortDigest } from "./state";
import { VersionsPanel } from "./versions";

/** The interval of heartbeats: nothing changes more often. */
const HEARTBEAT_MS = 2000;
/** As in the finding `clock-offset`. */
const MAX_OFFSET_MS = 1000;

export function FleetPage() {
  const fleet = useQuery({ ...fleetQuery, staleTime: HEARTBEAT_MS, refetchInterval: ({ state }) => (state.data === null ? false : HEARTBEAT_MS) });
  useTitle("Fleet");
  return (
    <>
      <div className="page-head">
        <h1>Fleet</h1>
        {fleet.data && <span className="muted wrap-any">{fleet.data.fleet}</span>}
      </div>
      <QueryState query={fleet} what="the fleet" />
      {fleet.data === null && (
        <EmptyPanel title="No fleet">
          <p>Several nodes share usage, invoices and rate limits through PostgreSQL:</p>
          <pre>{'fleet:\n  postgres: {url: "postgres://weir@db/weir", password: "file:pg.pass"}'}</pre>
        </EmptyPanel>
      )}
      {fleet.data && <View fleet={fleet.data} />}
      <Sinks />
    </>
  );
}

function View({ fleet }: { fleet: Fleet }) {
  return (
    <>
      <Findings all={fleet.findings} />
      <Nodes fleet={fleet} />
      {fleet.versions && <VersionsPanel versions={fleet.versions} fleet={fleet} />}
      <Configurations nodes={fleet.nodes} />
      <Database fleet={fleet} />
    </>
  );
}

function Findings({ all }: { all: Fleet["findings"] }) {
  if (all.length === 0) return null;
  return (
    <ul className="findings" aria-label="Findings">
      {all.map((finding) => (
        <li key={`${finding.code} ${finding.message}`} className="notice warn">
          <div className="finding">
            <p className="wrap-any">
              <Badge tone="warn">{finding.code}</Badge> {visible(finding.message)}
            </p>
            <p className="muted">{remedy(finding.code)}</p>
          </div>
        </li>
      ))}
    </ul>
  );
}

function Nodes({ fleet }: { fleet: Fleet }) {
  const isAdmin = useMay("admin", "administration");
  const [retiring, setRetiring] = useState<FleetNode>();
  const live = fleet.nodes.filter((node) => node.state === "live").length;
  const isDrifting = configurations(fleet.nodes).length > 1;
  return (
    <Panel title={`${count(live)} of ${count(fleet.nodes.length)} nodes are live`} inside={false} actions={fleet.heartbeat && <AsOf heartbeat={fleet.heartbeat} isUp={fleet.postgres.up} />}>
      <Table label="Nodes" heads={["Node", "State", "#Boot", "Version", "Configuration", "#Clock offset", "#Last heartbeat", ...(isAdmin ? ["(Actions)"] : [])]}>
        {fleet.nodes.map((node) => (
          <tr key={node.id}>
            <td className="wrap-any">
              <span title={node.id}>
                <Named kind="node" name={node.name} />
              </span> {node.id === fleet.node && <Badge tone="info">this node</Badge>}
            </td>
            <td>
              <State state={node.state} />
            </td>
            <td className="num">{count(node.boot)}</td>
            <td>{node.version}</td>
            <td>
              <InForce node={node} isDrifting={isDrifting} />
            </td>
            <td className="num">{node.state === "live" || node.state === "draining" ? <Offset ms={node.offset_ms} /> : <span className="muted">none</span>}</td>
            <td className="num" title={node.seen}>
              <span className="nowrap">{span(node.silent_seconds)} ago</span>
            </td>
            {isAdmin && (
              <td className="num">
                {node.state === "down" && (
                  <button type="button" className="button quiet small" onClick={() => setRetiring(node)} aria-label={`Retire ${node.name}`}>
                    Retire…
                  </button>
                )}
              </td>
            )}
          </tr>
        ))}
      </Table>
      {retiring && <RetireDialog node={retiring} onClose={() => setRetiring(undefined)} />}
    </Panel>
  );
}

/** Without the database, the nodes are as of the last heartbeat. */
function AsOf({ heartbeat, isUp }: { heartbeat: string; isUp: boolean }) {
  if (isUp) return null;
  return (
    <Badge tone="warn">
      as of <Time at={heartbeat} />
    </Badge>
  );
}

function InForce({ node, isDrifting }: { node: FleetNode; isDrifting: boolean }) {
  const { configuration: last, digest } = node;
  const findings = last.findings === 1 ? "1 finding" : `${count(last.findings)} findings`;
  return (
    <>
      <code className={isDrifting && node.state === "live" ? "" : "muted"} title={digest}>
        {shortDigest(digest) || "none"}
      </code>{" "}
      {!last.taken && last.time !== "" && <Badge tone="bad">rejected</Badge>} {last.findings > 0 && <Badge tone={last.taken ? "warn" : "bad"}>{findings}</Badge>}
    </>
  );
}

function Offset({ ms }: { ms: number }) {
  const text = `${ms > 0 ? "+" : ""}${ms} ms`;
  return <span className="nowrap">{Math.abs(ms) > MAX_OFFSET_MS ? <Badge tone="bad">{text}</Badge> : text}</span>;
}

function Configurations({ nodes }: { nodes: FleetNode[] }) {
  const all = configurations(nodes);
  const withFindings = nodes.filter((node) => (node.state === "live" || node.state === "draining") && node.configuration.messages.length > 0);
  return (
    <Panel title="Configurations in force" inside={false} actions={all.length > 1 ? <Badge tone="warn">nodes differ</Badge> : all.length === 1 && <Badge tone="good">the same on all live nodes</Badge>}>
      <Table label="Configurations" heads={["Digest", "#Nodes", "Live nodes"]}>
        {all.map(({ digest, nodes }) => (
          <tr key={digest}>
            <td>
              <code title={digest}>{shortDigest(digest) || "none"}</code>
            </td>
            <td className="num">{count(nodes.length)}</td>
            <td className="wrap-any">{nodes.join(", ")}</td>
          </tr>
        ))}
      </Table>
      {withFindings.map((node) => (
        <section key={node.id} className="inside stack" aria-label={`Findings of the configuration of ${node.name}`}>
          <h3 className="wrap-any">
            {node.name}: {node.configuration.taken ? "loaded with findings" : "rejected"} <Time at={node.configuration.time} style="day" />
          </h3>
          <Reasons all={node.configuration.messages.map(visible)} />
          {node.configuration.findings > node.configuration.messages.length && <p className="muted">The first {count(node.configuration.messages.length)} of {count(node.configuration.findings)} are shown.</p>}
        </section>
      ))}
    </Panel>
  );
}

function Database({ fleet }: { fleet: Fleet }) {
  const { postgres, heartbeat } = fleet;
  return (
    <Panel title={<span className="row">Shared database {postgres.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">down</Badge>}</span>}>
      <div className="stack">
        {postgres.error && <p className="notice bad wrap-any">{visible(postgres.error)}</p>}
        <dl className="facts">
          <dt>Address</dt>
          <dd>
            <code className="wrap-any">{postgres.at}</code>
          </dd>
          {postgres.version && (
            <>
              <dt>Version</dt>
              <dd className="wrap-any">PostgreSQL {postgres.version}</dd>
            </>
          )}
          <dt>Last heartbeat</dt>
          <dd>{heartbeat ? <Time at={heartbeat} style="day" /> : "none"}</dd>
        </dl>
      </div>
    </Panel>
  );
}
