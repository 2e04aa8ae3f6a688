// An API key of a consumer: its end, who has revoked it, and what revokes and restores it.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { ApiProblem, api, data, type Schemas } from "../api/client";
import { useMay, useSession } from "../api/session";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Badge, Failure, Panel, Time } from "../ui/parts";
import { notify } from "../ui/toast";
import { Named, termOf } from "./named";
import { newestOf } from "./newest";

export type ApiKey = Schemas["ApiKeyInfo"];

/** Longest reason. */
const MAX_REASON = 500;

/** The term for everything that was tried with a key: what was rejected has no consumer. */
export const termOfKey = (id: string) => termOf("principal", id);

/** When a key ends, or who has ended it. */
export function KeyState({ of }: { of: ApiKey }) {
  if (of.revoked) {
    return (
      <span className="wrap-any">
        <Badge tone="bad">revoked</Badge> by {of.revoked.who} <Time at={of.revoked.at} style="ago" />: {of.revoked.reason}
      </span>
    );
  }
  if (!of.expires) return <span className="muted">never</span>;
  return (
    <>
      {of.expired && <Badge tone="bad">expired</Badge>} <Time at={of.expires} style="full" />
    </>
  );
}

/** Revokes a key, or restores it; nothing for those who may not. */
export function KeyAction({ of, quiet = false }: { of: ApiKey; quiet?: boolean }) {
  const [open, setOpen] = useState(false);
  const may = useMay("admin", "administration");
  if (!may) return null;
  return (
    <>
      <button type="button" className={`button small ${quiet ? "quiet" : ""}`} onClick={() => setOpen(true)} aria-label={`${of.revoked ? "Restore" : "Revoke"} ${of.id}`}>
        {of.revoked ? "Restore…" : "Revoke…"}
      </button>
      {open && <KeyDialog of={of} onClose={() => setOpen(false)} />}
    </>
  );
}

function KeyDialog({ of, onClose }: { of: ApiKey; onClose: () => void }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const action = of.revoked ? "restore" : "revoke";
  const isReady = action === "restore" || reason.trim() !== "";
  const run = useMutation({
    mutationFn: () => data<ApiKey>(api.POST("/v1/api-keys/{id}/{action}", { params: { path: { id: of.id, action } }, body: { reason: reason.trim() } })),
    onSuccess: () => {
      notify(action === "revoke" ? "The key is revoked: requests with it are rejected from now on." : "The key is accepted again.");
      void queries.invalidateQueries({ queryKey: ["consumer"] });
      void queries.invalidateQueries({ queryKey: ["api-key"] });
      onClose();
    },
  });
  const submit = () => isReady && !run.isPending && run.mutate();
  return (
    <Dialog
      title={`${action === "revoke" ? "Revoke" : "Restore"} ${of.id}${of.consumer && ` of ${of.consumer}`}?`}
      open
      onClose={onClose}
      footer={<DialogButtons action={action === "revoke" ? "Revoke" : "Restore"} danger={action === "revoke"} disabled={!isReady || run.isPending} onAction={submit} onCancel={onClose} />}
    >
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <p>
          {action === "revoke"
            ? "Requests with this key get 401 at once, on open connections, on all nodes and after a restart, too. Requests in progress are not aborted."
            : "Requests with this key are accepted again, unless it has expired."}
        </p>
        <label className="field">
          <span>{action === "revoke" ? "Reason" : "Reason (optional)"}</span>
          <input type="text" value={reason} maxLength={MAX_REASON} onChange={(event) => setReason(event.target.value)} autoComplete="off" />
        </label>
        {run.isError && <Failure error={run.error} />}
      </form>
    </Dialog>
  );
}

/** What is known of the API key with this id; nothing if it is the name of something else. */
export function KeySection({ id }: { id: string }) {
  const isId = /^sha256:[0-9a-f]{8}$/.test(id);
  const session = useSession();
  const found = useQuery({
    queryKey: ["api-key", id],
    queryFn: async () => {
      try {
        return await data<ApiKey>(api.GET("/v1/api-keys/{id}", { params: { path: { id } } }));
      } catch (error) {
        if (error instanceof ApiProblem && error.status === 404) return null;
        throw error;
      }
    },
    enabled: isId,
    retry: false,
  });
  if (!isId) return null;
  if (found.isError) return <Failure error={found.error} />;
  const key = found.data;
  if (!key) return null;
  return (
    <Panel title="API key" actions={<KeyAction of={key} />}>
      <dl className="facts">
        <dt>Consumer</dt>
        <dd>
          <Named kind="consumer" name={key.consumer} />
          {!key.configured && <span className="muted"> (the configuration does not have the key any more)</span>}
        </dd>
        {key.name && (
          <>
            <dt>Name</dt>
            <dd className="wrap-any">{key.name}</dd>
          </>
        )}
        <dt>{key.revoked ? "State" : "Expiry"}</dt>
        <dd>
          <KeyState of={key} />
        </dd>
        {key.revoked && session?.recording && (
          <>
            <dt>Used since</dt>
            <dd>
              <RejectedUse id={id} />
            </dd>
          </>
        )}
      </dl>
    </Panel>
  );
}

/** Whether somebody still uses a revoked key. */
function RejectedUse({ id }: { id: string }) {
  const q = `${termOfKey(id)} ${termOf("problem", "api-key-revoked")}`;
  const newest = useQuery({ ...newestOf(q, 1), refetchInterval: 10_000 });
  const [last] = newest.data?.transactions ?? [];
  if (!last) return <span className="muted">{newest.isPending ? "…" : "no request was rejected"}</span>;
  return (
    <>
      <Link to="/tracker" search={{ q }} preload={false}>
        Rejected requests
      </Link>
      , the last one <Time at={last.time} style="ago" />
    </>
  );
}
