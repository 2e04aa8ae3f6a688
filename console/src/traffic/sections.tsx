// What is known of a thing besides its transactions.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { count, percent } from "../format/format";
import { Badge, Panel, Table } from "../ui/parts";
import { KeySection } from "./api-key";
import { ConsumerSections } from "./consumer";
import { HealthChanges } from "./health";
import { type Kind, Named, TargetCells, termOf } from "./named";

type Target = Schemas["UpstreamTarget"];

export function Section({ kind, name }: { kind: Kind; name: string }) {
  switch (kind) {
    case "api":
      return <ApiRoutes name={name} />;
    case "consumer":
      return <ConsumerSections name={name} />;
    case "upstream":
    case "upstream_target":
      return (
        <>
          <Targets kind={kind} name={name} />
          <HealthChanges of={kind === "upstream" ? { upstream: name } : { target: name }} />
        </>
      );
    case "principal":
      return <KeySection id={name} />;
    default:
      return null;
  }
}

function ApiRoutes({ name }: { name: string }) {
  const apis = useQuery({ queryKey: ["apis"], queryFn: () => data<Schemas["ApiInfo"][]>(api.GET("/v1/apis")), staleTime: 10_000 });
  const one = apis.data?.find((each) => each.api === name);
  if (!one) return null;
  return (
    <Panel
      title={
        <>
          Routes below <code>{one.base}</code>
        </>
      }
      inside={false}
      actions={
        <Link to="/apis" className="button small">
          Policies of the routes
        </Link>
      }
    >
      <Table heads={["Route", "Methods", "Path", "Handler"]}>
        {one.routes.map((route) => (
          <tr key={`${route.operation} ${route.path}`}>
            <td>
              <Named kind="operation" name={route.operation} within={termOf("api", name)} />
            </td>
            <td>{route.methods.join(" ")}</td>
            <td className="wrap-any">
              <code>{route.path}</code>
            </td>
            <td className="wrap-any">{route.handler}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

/** The targets of an upstream, or one target: as they are, and what happened since the start. */
function Targets({ kind, name }: { kind: "upstream" | "upstream_target"; name: string }) {
  const all = useQuery({ queryKey: ["upstreams"], queryFn: () => data<Target[]>(api.GET("/v1/upstreams")), refetchInterval: 2000 });
  const own = all.data?.filter((one) => (kind === "upstream" ? one.upstream : one.target) === name) ?? [];
  if (own.length === 0) return null;
  return (
    <Panel title={own.length === 1 ? "Target" : "Targets"} inside={false} actions={<span className="muted">now, and since the start</span>}>
      <Table heads={["Upstream", "Target", "Health", "#Active", "#Idle", "#Attempts", "#Failed", "#Connects", "Retries", "Hedges", "Ejections", "Checks"]}>
        {own.map((one) => (
          <tr key={`${one.upstream} ${one.target}`}>
            <TargetCells upstream={one.upstream} target={one.target} />
            <td>{one.up ? <Badge tone="good">up</Badge> : <Badge tone="bad">ejected: {one.ejected_by}</Badge>}</td>
            <td className="num">{count(one.active)}</td>
            <td className="num">{count(one.idle)}</td>
            <td className="num">{count(one.attempts)}</td>
            <td className="num">{percent(one.failed, one.attempts)}</td>
            <td className="num">{count(one.connects)}</td>
            <td>{reasons([...one.retries, ...one.retries_denied.map((denied) => ({ ...denied, reason: `denied: ${denied.reason}` }))])}</td>
            <td>{reasons(one.hedges)}</td>
            <td>{reasons(one.ejections)}</td>
            <td>{reasons(one.checks)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function reasons(all: Schemas["CountedReason"][]): string {
  return all.map((one) => `${count(one.count)} ${one.reason}`).join(", ") || "–";
}
