// APIs and routes in force, with the policies before and after each handler.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import { Named, termOf } from "../traffic/named";
import { count, duration, percent, short } from "../format/format";
import { Badge, EmptyPanel, Panel, QueryState } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { useTitle } from "../ui/title";
import type { Flow } from "./flows";
import { useTraffic } from "./traffic";

const STAGES: Record<string, string> = {
  auth: "Authentication",
  limit: "Limit",
  "request-map": "Request map",
  handler: "Handler",
  "response-map": "Response map",
  record: "Recording",
};

export function ApisPage() {
  const apis = useQuery({ queryKey: ["apis"], queryFn: () => data<Schemas["ApiInfo"][]>(api.GET("/v1/apis")), refetchInterval: 10_000 });
  const traffic = useTraffic();
  const [filter, setFilter] = useSearchText("filter", "", true);
  useTitle("APIs");
  const needle = filter.toLowerCase();
  const shown = (apis.data ?? [])
    .map((one) => ({ ...one, routes: one.routes.filter((route) => `${one.api} ${route.operation} ${route.methods.join(" ")} ${route.path} ${route.handler}`.toLowerCase().includes(needle)) }))
    .filter((one) => one.routes.length > 0);
  return (
    <>
      <div className="page-head">
        <h1>APIs and routes</h1>
        <input type="search" size={34} data-search aria-label="Filter routes" placeholder="Method, path, operation, handler" value={filter} onChange={(event) => setFilter(event.target.value)} />
      </div>
      <QueryState query={apis} what="APIs" />
      {apis.data && shown.length === 0 && (
        <EmptyPanel title={filter ? "No route matches" : "No APIs are configured"}>{!filter && <pre>{"apis:\n  hello:\n    base: /hello\n    routes: [{get: /, reply: {text: hello}}]"}</pre>}</EmptyPanel>
      )}
      {shown.map((one) => (
        <Api key={one.api} one={one} traffic={traffic} />
      ))}
    </>
  );
}

/** An initial URL; with a host only if the API requires one. */
function example(hosts: string[], path: string): string {
  const host = hosts[0]?.replace("*", "any");
  const below = path.replace(/\*$/, "");
  return host ? `http://${host}${below}` : below;
}

/** Rate, totals and latency. */
function Busy({ flow }: { flow: Flow | undefined }) {
  if (!flow) return <span className="muted">no requests yet</span>;
  const failed = flow.server_errors > 0;
  return (
    <span className="busy">
      <strong>{flow.rate === undefined ? "–" : short(flow.rate)}</strong>
      <span className="muted">/s</span> <span>{count(flow.requests)}</span> <span className="muted">since the start,</span>{" "}
      <span className={failed ? "failed" : "muted"}>{percent(flow.server_errors, flow.requests)} failed</span>
      {flow.p99_us != null && <span className="muted">, p99 {duration(flow.p99_us)}</span>}
    </span>
  );
}

function Api({ one, traffic }: { one: Schemas["ApiInfo"]; traffic: Map<string, Flow> }) {
  const mayExplain = useMay("operator", "records");
  return (
    <Panel
      title={
        <>
          <Named kind="api" name={one.api} /> <code className="muted">{one.base}</code>
        </>
      }
      inside={false}
      actions={
        <>
          <Busy flow={traffic.get(one.api)} />
          {one.hosts.length > 0 && <span className="muted">{one.hosts.join(", ")}</span>}
          <code className="muted wrap-any">
            {one.file}:{one.line}
          </code>
          {one.described && (
            <Link to="/apis/$api" params={{ api: one.api }} className="button small">
              OpenAPI
            </Link>
          )}
        </>
      }
    >
      <ul className="routes">
        {one.routes.map((route) => (
          <li key={`${route.operation} ${route.path}`}>
            <details>
              <summary>
                <Badge tone="info">{route.methods.length > 0 ? route.methods.join(" ") : "any"}</Badge>
                <span className="mono wrap-any">{route.path}</span>
                <span className="muted wrap-any">{route.operation}</span>
                <span className="grow" />
                <Busy flow={traffic.get(`${one.api} ${route.operation}`)} />
                <Badge>{route.handler}</Badge>
              </summary>
              <ol className="policies">
                {route.policies.map((policy, at) => (
                  <li key={at}>
                    <span className="muted">{STAGES[policy.stage] ?? policy.stage}</span>
                    <span className="wrap-any">{policy.words}</span>
                  </li>
                ))}
              </ol>
              <p className="row route-foot">
                <code className="muted wrap-any">
                  {route.file}:{route.line}
                </code>
                {mayExplain && (
                  <Link to="/explain" search={{ method: route.methods[0] ?? "GET", target: example(one.hosts, route.path) } as never}>
                    Explain or test a request
                  </Link>
                )}
                <span>
                  Traffic of <Named kind="operation" name={route.operation} within={termOf("api", one.api)} />
                </span>
              </p>
            </details>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
