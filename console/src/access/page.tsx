// Who has access: tokens, sessions, and the audit log.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, data, type Role, type Schemas } from "../api/client";
import { useSession } from "../api/session";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Badge, Copy, Failure, Panel, QueryState, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";
import { AuditLog } from "./audit";
import { scopeWords } from "./scope";
import { Sessions } from "./sessions";

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
      <Sessions />
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
        <Table heads={["Name", "Role", "Scope", "Expires", "Last used", "Id", "(Actions)"]}>
          {tokens.data.map((token) => (
            <tr key={token.id}>
              <td className="wrap-any">
                {token.name} {token.id === session?.token && <span className="badge info">yours</span>} {token.person && <span className="badge">weir login</span>}
              </td>
              <td>{token.role}</td>
              <td className="wrap-any">{scopeWords(token.scope ?? {})}</td>
              <td>
                <Expiry at={token.expires} />
              </td>
              <td>{token.last_used ? <Time at={token.last_used} style="ago" /> : <span className="muted">not yet</span>}</td>
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

/** The end of a token's validity. */
function Expiry({ at }: { at: string | null | undefined }) {
  if (!at) return <span className="muted">never</span>;
  if (Date.parse(at) <= Date.now()) return <Badge tone="bad">expired</Badge>;
  return <Time at={at} style="day" />;
}

const DEPTHS: [Schemas["Depth"], string][] = [
  ["payloads", "all that the role permits"],
  ["metadata", "transactions without headers, bodies and keys"],
  ["counts", "usage and live figures, no transactions"],
];

const DAY = 86_400;
const VALIDITY: [string, number | undefined][] = [
  ["never", undefined],
  ["in a day", DAY],
  ["in 30 days", 30 * DAY],
  ["in 90 days", 90 * DAY],
  ["in a year", 365 * DAY],
];

function NewToken({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [apis, setApis] = useState<string[]>([]);
  const [depth, setDepth] = useState<Schemas["Depth"]>("payloads");
  const [resubmit, setResubmit] = useState(true);
  const [expires, setExpires] = useState<number>();
  const known = useQuery({ queryKey: ["apis", "names"], queryFn: () => data<Schemas["ApiInfo"][]>(api.GET("/v1/apis")), staleTime: 60_000 });
  const create = useMutation({
    mutationFn: () => {
      // An empty list is no scope: without one, all APIs are in it.
      const scope = { ...(apis.length > 0 && { apis }), depth, resubmit } as Schemas["TokenScope"];
      const body = { name, role, scope, ...(expires ? { expires_in: expires } : {}) };
      return data<Schemas["CreatedToken"]>(api.POST("/v1/tokens", { body }));
    },
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
          <label className="field">
            APIs
            <select multiple size={Math.min(6, Math.max(2, known.data?.length ?? 2))} value={apis} onChange={(event) => setApis([...event.target.selectedOptions].map((option) => option.value))}>
              {known.data?.map((one) => (
                <option key={one.api} value={one.api}>
                  {one.api}
                </option>
              ))}
            </select>
            <small>{apis.length === 0 ? "All APIs, as none is selected." : `Only ${apis.join(", ")}.`}</small>
          </label>
          <label className="field">
            Depth
            <select value={depth} onChange={(event) => setDepth(event.target.value as Schemas["Depth"])}>
              {DEPTHS.map(([value, what]) => (
                <option key={value} value={value}>
                  {value}: {what}
                </option>
              ))}
            </select>
          </label>
          <label className="row">
            <input type="checkbox" checked={resubmit} onChange={(event) => setResubmit(event.target.checked)} />
            May send transactions again, if the role permits it
          </label>
          <label className="field">
            Expires
            <select value={expires ?? ""} onChange={(event) => setExpires(event.target.value ? Number(event.target.value) : undefined)}>
              {VALIDITY.map(([words, after]) => (
                <option key={words} value={after ?? ""}>
                  {words}
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
