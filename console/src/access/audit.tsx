// The audit log: filters in the URL, and exports.

import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { FormEvent } from "react";
import { api, data, type Schemas } from "../api/client";
import { ApiLink } from "../ui/api-link";
import { Empty, Panel, QueryState, Table, Time } from "../ui/parts";

const LINES = 100;

/** Filters of the audit log: parameter of the URL and of the API, label, example. */
const FILTERS = [
  ["who", "who", "Actor", "name or token id"],
  ["action", "action", "Action", "resubmit"],
  ["subject", "subject", "Object", "transaction id"],
  ["text", "text", "Text", "in any column"],
  ["since", "from", "From", "30d or 2026-11-01"],
  ["until", "to", "To", "now"],
] as const;
type Written = Partial<Record<(typeof FILTERS)[number][0], string>>;
type Filter = Partial<Record<(typeof FILTERS)[number][1], string>>;

export function AuditLog() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const written: Written = Object.fromEntries(FILTERS.flatMap(([key]) => (typeof search[key] === "string" ? [[key, search[key]]] : [])));
  const filter: Filter = Object.fromEntries(FILTERS.flatMap(([key, name]) => (written[key] ? [[name, written[key]]] : [])));
  const setFilter = (next: Written) => {
    const none = Object.fromEntries(FILTERS.map(([key]) => [key, undefined]));
    void navigate({ to: "/access", search: ((before: object) => ({ ...before, ...none, ...next })) as never });
  };
  const query = new URLSearchParams(filter as Record<string, string>).toString();
  const exported = (format: string) => `/v1/audit/export/${format}${query ? `?${query}` : ""}`;
  const audit = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam }) => data<Schemas["AuditEvent"][]>(api.GET("/v1/audit", { params: { query: { limit: LINES, ...filter, ...(pageParam ? { before: pageParam } : {}) } } })),
    placeholderData: keepPreviousData,
    initialPageParam: 0,
    getNextPageParam: (last) => (last.length === LINES ? last.at(-1)?.number : undefined),
  });
  const entries = audit.data?.pages.flat() ?? [];
  return (
    <Panel title="Audit log" inside={false} actions={
        <>
          <span className="muted">payload access and changes</span>
          <ApiLink target={exported("csv")} download="audit.csv" className="button small">
            CSV
          </ApiLink>
          <ApiLink target={exported("json")} download="audit.json" className="button small">
            JSON
          </ApiLink>
        </>
      }>
      <QueryState query={audit} what="the audit log" />
      <Filters key={query} written={written} onChange={setFilter} />
      {audit.data && entries.length === 0 && <Empty title="No entries">{Object.keys(filter).length > 0 && <p>Actors, actions and objects must match completely.</p>}</Empty>}
      {entries.length > 0 && (
        <Table heads={["Time", "Actor", "Role", "Action", "Object", "Details"]}>
          {entries.map((entry) => (
            <tr key={entry.number}>
              <td>
                <Time at={entry.time} style="day" />
              </td>
              <td className="wrap-any" title={`token ${entry.token}`}>
                {entry.name}
              </td>
              <td>{entry.role}</td>
              <td className="nowrap">{entry.action}</td>
              <td className="wrap-any">
                <Subject entry={entry} />
              </td>
              <td>
                <code className="wrap-any">{entry.details}</code>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {audit.hasNextPage && (
        <div className="inside">
          <button type="button" className="button" disabled={audit.isFetching} onClick={() => void audit.fetchNextPage()}>
            Show older entries
          </button>
        </div>
      )}
    </Panel>
  );
}

function Filters({ written, onChange }: { written: Written; onChange: (filter: Written) => void }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const values = FILTERS.map(([key]) => [key, String(form.get(key) ?? "").trim()] as const);
    onChange(Object.fromEntries(values.filter(([, value]) => value)));
  };
  return (
    <form className="row inside no-print" onSubmit={submit} onReset={() => onChange({})} aria-label="Filter the audit log">
      {FILTERS.map(([key, , name, example]) => (
        <label key={key} className="row">
          {name}
          <input name={key} size={16} placeholder={example} defaultValue={written[key] ?? ""} />
        </label>
      ))}
      <button type="submit" className="button small">
        Show
      </button>
      <button type="reset" className="button quiet small">
        All
      </button>
    </form>
  );
}

function Subject({ entry }: { entry: Schemas["AuditEvent"] }) {
  if (entry.about === "transaction") {
    return (
      <Link to="/transactions/$id" params={{ id: entry.subject }} preload={false} className="mono">
        {entry.subject}
      </Link>
    );
  }
  if (entry.about === "job") {
    return (
      <Link to="/jobs/$number" params={{ number: entry.subject }} preload={false}>
        job {entry.subject}
      </Link>
    );
  }
  return <code>{entry.subject}</code>;
}
