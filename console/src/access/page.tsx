// Admin tokens and the audit log.

import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, data, type Role, type Schemas } from "../api/client";
import { useSession } from "../api/session";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Copy, Empty, Failure, Panel, QueryState, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";

const ROLES: [Role, string][] = [
  ["viewer", "reads metadata, no payloads"],
  ["payload-viewer", "reads headers, bodies and keys, too"],
  ["operator", "resubmits transactions, too"],
  ["admin", "creates tokens and reads the audit log, too"],
];

export function AccessPage() {
  useTitle("Access");
  return (
    <>
      <div className="page-head">
        <h1>Access</h1>
      </div>
      <Tokens />
      <AuditLog />
    </>
  );
}

function Tokens() {
  const queries = useQueryClient();
  const session = useSession();
  const tokens = useQuery({ queryKey: ["tokens"], queryFn: () => data<Schemas["TokenInfo"][]>(api.GET("/v1/tokens")) });
  const [adding, setAdding] = useState(false);
  const [revoking, setRevoking] = useState<Schemas["TokenInfo"]>();
  const revoke = useMutation({
    mutationFn: (id: string) => data(api.DELETE("/v1/tokens/{id}", { params: { path: { id } } })),
    onSuccess: () => {
      setRevoking(undefined);
      notify("The token was revoked, and its sessions were ended.");
      void queries.invalidateQueries({ queryKey: ["tokens"] });
    },
  });
  return (
    <Panel
      title="Tokens"
      inside={false}
      actions={
        <button type="button" className="button small" onClick={() => setAdding(true)}>
          New token…
        </button>
      }
    >
      <QueryState query={tokens} what="tokens" />
      {tokens.data && (
        <Table heads={["Name", "Role", "Id", "(Actions)"]}>
          {tokens.data.map((token) => (
            <tr key={token.id}>
              <td className="wrap-any">
                {token.name} {token.id === session?.token && <span className="badge info">yours</span>}
              </td>
              <td>{token.role}</td>
              <td>
                <code>{token.id}</code>
              </td>
              <td className="num">
                <button type="button" className="button quiet small" onClick={() => setRevoking(token)}>
                  Revoke…
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {adding && <NewToken onClose={() => setAdding(false)} />}
      {revoking && (
        <Dialog
          title={`Revoke the token of ${revoking.name}?`}
          open
          onClose={() => setRevoking(undefined)}
          footer={<DialogButtons action="Revoke" danger disabled={revoke.isPending} onAction={() => revoke.mutate(revoking.id)} onCancel={() => setRevoking(undefined)} />}
        >
          <p>Requests with this token will be rejected, and its sessions of the console end.</p>
          {revoke.isError && <Failure error={revoke.error} />}
        </Dialog>
      )}
    </Panel>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const create = useMutation({
    mutationFn: () => data<Schemas["CreatedToken"]>(api.POST("/v1/tokens", { body: { name, role } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Dialog title="New token" open onClose={onClose}>
      {create.data ? (
        <div className="stack">
          <p>The token is shown only once:</p>
          <p className="row">
            <code className="wrap-any">{create.data.token}</code>
            <Copy text={create.data.token} label="Copy" />
          </p>
        </div>
      ) : (
        <form className="stack" onSubmit={submit}>
          <label className="field">
            Name
            <input value={name} maxLength={128} required onChange={(event) => setName(event.target.value)} />
          </label>
          <label className="field">
            Role
            <select value={role} onChange={(event) => setRole(event.target.value as Role)}>
              {ROLES.map(([value, what]) => (
                <option key={value} value={value}>
                  {value}: {what}
                </option>
              ))}
            </select>
          </label>
          {create.isError && <Failure error={create.error} />}
          <button type="submit" className="button primary" disabled={create.isPending}>
            Create
          </button>
        </form>
      )}
    </Dialog>
  );
}

const LINES = 100;

/** Filters of the audit log: parameter, label, example. */
const FILTERS = [
  ["who", "Actor", "name or token id"],
  ["action", "Action", "resubmit"],
  ["subject", "Object", "transaction id"],
] as const;
type Filter = Partial<Record<(typeof FILTERS)[number][0], string>>;

function AuditLog() {
  const search = useSearch({ strict: false }) as Filter;
  const navigate = useNavigate();
  const filter: Filter = Object.fromEntries(FILTERS.flatMap(([key]) => (search[key] ? [[key, search[key]]] : [])));
  const setFilter = (next: Filter) => {
    const none = Object.fromEntries(FILTERS.map(([key]) => [key, undefined]));
    void navigate({ to: ".", search: ((before: object) => ({ ...before, ...none, ...next })) as never, resetScroll: false });
  };
  const audit = useInfiniteQuery({
    queryKey: ["audit", filter],
    queryFn: ({ pageParam }) => data<Schemas["AuditEvent"][]>(api.GET("/v1/audit", { params: { query: { limit: LINES, ...filter, ...(pageParam ? { before: pageParam } : {}) } } })),
    placeholderData: keepPreviousData,
    initialPageParam: 0,
    getNextPageParam: (last) => (last.length === LINES ? last.at(-1)?.number : undefined),
  });
  const entries = audit.data?.pages.flat() ?? [];
  return (
    <Panel title="Audit log" inside={false} actions={<span className="muted">payload access and changes</span>}>
      <QueryState query={audit} what="the audit log" />
      <Filters key={JSON.stringify(filter)} filter={filter} onChange={setFilter} />
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

function Filters({ filter, onChange }: { filter: Filter; onChange: (filter: Filter) => void }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const values = FILTERS.map(([key]) => [key, String(form.get(key) ?? "").trim()] as const);
    onChange(Object.fromEntries(values.filter(([, value]) => value)));
  };
  return (
    <form className="row inside no-print" onSubmit={submit} onReset={() => onChange({})} aria-label="Filter the audit log">
      {FILTERS.map(([key, name, example]) => (
        <label key={key} className="row">
          {name}
          <input name={key} size={16} placeholder={example} defaultValue={filter[key] ?? ""} />
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
