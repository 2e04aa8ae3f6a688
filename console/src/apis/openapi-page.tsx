// Shows the OpenAPI document of an API.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import { prefill } from "../explain/prefill";
import { visible } from "../transaction/text";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { Badge, EmptyPanel, Panel, QueryState, Table } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { useTitle } from "../ui/title";
import { baseOf, type Content, command, type Json, members, nameOf, object, type Operation, operations, typeText } from "./openapi";

export function OpenapiPage() {
  const { api: name = "" } = useParams({ strict: false }) as { api?: string };
  const result = useQuery({
    queryKey: ["description", name],
    queryFn: () => data<Json>(api.GET("/v1/apis/{api}/openapi", { params: { path: { api: name } } }) as Promise<{ data?: Json }>),
    staleTime: 60_000,
  });
  const apis = useQuery({ queryKey: ["apis"], queryFn: () => data<Schemas["ApiInfo"][]>(api.GET("/v1/apis")) });
  const [filter, setFilter] = useSearchText("filter", "", true);
  useTitle(`${name} OpenAPI`);
  const openapi = result.data;
  const all = useMemo(() => (openapi ? operations(openapi) : []), [openapi]);
  const needle = filter.toLowerCase();
  const shown = all.filter((one) => `${one.method} ${one.path} ${one.name} ${one.summary}`.toLowerCase().includes(needle));
  const info = object(openapi?.info) ?? {};
  const host = apis.data?.find((one) => one.api === name)?.hosts[0]?.replace("*", "any") ?? "localhost";
  const base = openapi ? baseOf(openapi) : "";
  return (
    <>
      <div className="page-head">
        <Link to="/apis" className="button quiet small">
          <Icon name="back" size={15} />
          APIs
        </Link>
        <h1 className="wrap-any">{visible(String(info.title ?? name))}</h1>
        {info.version !== undefined && <Badge>{visible(String(info.version))}</Badge>}
        <code className="muted wrap-any">{base}</code>
        <span className="grow" />
        <input type="search" size={28} data-search aria-label="Filter operations" placeholder="Method, path, operation" value={filter} onChange={(event) => setFilter(event.target.value)} />
        <ApiLink className="button small" target={`/v1/apis/${encodeURIComponent(name)}/openapi`} download={`${name}.openapi.json`}>
          <Icon name="download" size={15} />
          Document
        </ApiLink>
      </div>
      <QueryState query={result} what="the OpenAPI document" />
      {typeof info.description === "string" && <p className="prose wrap-any">{visible(info.description)}</p>}
      {openapi && shown.length === 0 && (
        <EmptyPanel title={filter ? "No operation matches" : "The document has no operations"} />
      )}
      {openapi && shown.map((one) => <OperationView key={`${one.method} ${one.path}`} document={openapi} base={`http://${host}${base}`} one={one} />)}
    </>
  );
}

function OperationView({ document, base, one }: { document: Json; base: string; one: Operation }) {
  const mayExplain = useMay("operator", "records");
  const navigate = useNavigate();
  const open = () => {
    prefill(command(document, base, one));
    void navigate({ to: "/explain" });
  };
  return (
    <Panel
      title={
        <span className="row">
          <Badge tone="info">{one.method}</Badge>
          <code className="wrap-any">{one.path}</code>
          {one.deprecated && <Badge tone="warn">deprecated</Badge>}
        </span>
      }
      actions={
        <>
          <span className="muted wrap-any">{one.name}</span>
          {mayExplain && (
            <button type="button" className="button small" onClick={open} aria-label={`Explain or test ${one.method} ${one.path}`}>
              Explain or test
            </button>
          )}
        </>
      }
    >
      <div className="stack">
        {one.summary && <p className="wrap-any">{visible(one.summary)}</p>}
        {one.description && <p className="prose muted wrap-any">{visible(one.description)}</p>}
        {one.parameters.length > 0 && <Parameters document={document} one={one} />}
        {one.body && (
          <section className="stack">
            <h3>
              Request body {one.body.required && <Badge>required</Badge>} <span className="muted">{visible(one.body.description)}</span>
            </h3>
            <Types document={document} content={one.body} />
          </section>
        )}
        {one.responses.map((response) => (
          <section key={response.status} className="stack">
            <h3>
              <Badge tone={response.status.startsWith("2") ? "good" : /^[45]/.test(response.status) ? "warn" : ""}>{response.status}</Badge> <span className="muted wrap-any">{visible(response.description)}</span>
            </h3>
            <Types document={document} content={response} />
          </section>
        ))}
      </div>
    </Panel>
  );
}

function Parameters({ document, one }: { document: Json; one: Operation }) {
  return (
    <Table heads={["Parameter", "In", "Value", "Description"]}>
      {one.parameters.map((parameter) => (
        <tr key={`${parameter.where} ${parameter.name}`}>
          <td className="mono wrap-any">
            {visible(parameter.name)} {parameter.required && <Badge>required</Badge>}
          </td>
          <td>{parameter.where}</td>
          <td className="wrap-any">{visible(typeText(document, parameter.schema))}</td>
          <td className="muted wrap-any">{visible(parameter.description)}</td>
        </tr>
      ))}
    </Table>
  );
}

function Types({ document, content }: { document: Json; content: Content }) {
  return content.types.map((one) => (
    <details key={one.type} className="schema">
      <summary>
        <code>{visible(one.type)}</code> <span className="muted wrap-any">{visible(typeText(document, one.schema))}</span>
      </summary>
      <Members document={document} schema={one.schema} above={[]} />
      {one.example !== undefined && (
        <pre className="excerpt wrap-any" tabIndex={0} aria-label={`Example of ${one.type}`}>
          {visible(JSON.stringify(one.example, undefined, 2))}
        </pre>
      )}
    </details>
  ));
}

/** Members of an object, as deep as the user expands them; a recursive schema is shown by name. */
function Members({ document, schema, above }: { document: Json; schema: Json; above: string[] }) {
  const all = members(document, schema);
  if (all.length === 0) return null;
  return (
    <ul className="members">
      {all.map((member, at) => {
        const inner = object(member.schema.items) ?? member.schema;
        const name = nameOf(inner);
        const hasMore = !above.includes(name || "-") && above.length < 8 && members(document, member.schema).length > 0;
        const line = (
          <>
            <code>{visible(member.name)}</code> {member.required && <Badge>required</Badge>} <span className="wrap-any">{visible(typeText(document, member.schema))}</span>{" "}
            {typeof member.schema.description === "string" && <span className="muted wrap-any">{visible(member.schema.description)}</span>}
          </>
        );
        return (
          <li key={`${member.name} ${at}`}>
            {hasMore ? (
              <details>
                <summary>{line}</summary>
                <Members document={document} schema={member.schema} above={name ? [...above, name] : above} />
              </details>
            ) : (
              line
            )}
          </li>
        );
      })}
    </ul>
  );
}
