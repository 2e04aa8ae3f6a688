// Sessions of the console on this node, and their end.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Empty, Failure, Panel, QueryState, Table, Time } from "../ui/parts";
import { notify } from "../ui/toast";
import { scopeWords } from "./scope";

type Info = Schemas["SessionInfo"];

export function Sessions() {
  const queries = useQueryClient();
  const [ending, setEnding] = useState<Info>();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: () => data<Info[]>(api.GET("/v1/sessions")), refetchInterval: 30_000 });
  const end = useMutation({
    mutationFn: (id: string) => data(api.DELETE("/v1/sessions/{id}", { params: { path: { id } } })),
    onSuccess: () => {
      setEnding(undefined);
      notify("The session has ended.");
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  return (
    <Panel title="Sessions" inside={false} actions={<span className="muted">of the console, on this node</span>}>
      <QueryState query={sessions} what="sessions" />
      {sessions.data?.length === 0 && <Empty title="Nobody is signed in to the console" />}
      {sessions.data && sessions.data.length > 0 && (
        <Table heads={["Name", "Role", "Scope", "Signed in", "Last request", "Client", "(Actions)"]}>
          {sessions.data.map((one) => (
            <tr key={one.id}>
              <td className="wrap-any" title={one.holder}>
                {one.name} {one.own && <span className="badge info">yours</span>} {one.holder.startsWith("oidc:") && <span className="badge">account</span>}
              </td>
              <td>{one.role}</td>
              <td className="wrap-any">{scopeWords(one.scope)}</td>
              <td>
                <Time at={one.started} style="day" />
              </td>
              <td>
                <Time at={one.used} style="ago" />
              </td>
              <td className="wrap-any" title={one.agent}>
                {one.address ?? "–"} <span className="muted">{browser(one.agent)}</span>
              </td>
              <td className="num">
                <button type="button" className="button quiet small" onClick={() => setEnding(one)}>
                  End…
                </button>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {ending && (
        <Dialog
          title={`End the session of ${ending.name}?`}
          open
          onClose={() => setEnding(undefined)}
          footer={<DialogButtons action="End session" danger disabled={end.isPending} onAction={() => end.mutate(ending.id)} onCancel={() => setEnding(undefined)} />}
        >
          <p>The browser has to sign in again. A token or an account stays valid: revoke the token, or remove the account from its group.</p>
          {end.isError && <Failure error={end.error} />}
        </Dialog>
      )}
    </Panel>
  );
}

/** The last product of a `User-Agent`, such as `Firefox/128.0`. */
function browser(agent: string): string {
  const products = agent.match(/[\w.]+\/[\w.]+/g) ?? [];
  return products.find((one) => /^(Firefox|Edg|Chrome|Chromium)\//.test(one)) ?? products.at(-1) ?? "";
}
