// The configuration in force, its reloads, and the check of a draft.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useMay } from "../api/session";
import { visible } from "../transaction/text";
import { Badge, Empty, Failure, Panel, QueryState, Table, Time } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";
import { Findings } from "./findings";
import { HistoryPanel } from "./history-panel";

type Reload = Schemas["Reload"];
type State = Schemas["ConfigurationState"];

export function ConfigurationPage() {
  const state = useQuery({ queryKey: ["configuration"], queryFn: () => data<State>(api.GET("/v1/configuration")), refetchInterval: 2000 });
  useTitle("Configuration");
  const last = state.data?.reloads[0];
  return (
    <>
      <div className="page-head">
        <h1>Configuration</h1>
        {state.data && <code className="muted wrap-any">{state.data.path}</code>}
        <ReloadButton />
      </div>
      <QueryState query={state} what="the configuration" />
      {last && <Last reload={last} />}
      {state.data && <Files files={state.data.files} last={last} />}
      <HistoryPanel />
      <Draft />
      {state.data && <Reloads all={state.data.reloads} />}
    </>
  );
}

function ReloadButton() {
  const isAdmin = useMay("admin", "administration");
  const queries = useQueryClient();
  const reload = useMutation({
    mutationFn: () => data<Reload>(api.POST("/v1/configuration/reload")),
    onSuccess: (result) => {
      notify(result.taken ? "The configuration was reloaded." : "The configuration was rejected; the previous one stays in force.", result.taken ? "good" : "bad");
      void queries.invalidateQueries({ queryKey: ["configuration"] });
      void queries.invalidateQueries({ queryKey: ["apis"] });
    },
    onError: (error) => notify(error.message, "bad"),
  });
  if (!isAdmin) return null;
  return (
    <button type="button" className="button" disabled={reload.isPending} onClick={() => reload.mutate()}>
      {reload.isPending ? "Reloading…" : "Reload"}
    </button>
  );
}

function Last({ reload }: { reload: Reload }) {
  if (reload.taken) {
    return (
      <section className="stack">
        <p className="notice good">
          <strong>In force</strong> since <Time at={reload.time} style="full" />
        </p>
        <Findings all={reload.findings} />
      </section>
    );
  }
  return (
    <section className="stack">
      <p className="notice bad" role="alert">
        <strong>The last reload was rejected</strong> <Time at={reload.time} style="full" /> <span>The previous configuration stays in force.</span>
        {reload.error && <span className="wrap-any">{reload.error}</span>}
      </p>
      <Findings all={reload.findings} />
    </section>
  );
}

function Files({ files, last }: { files: State["files"]; last?: Reload }) {
  const [path, setPath] = useSearchText("file");
  const file = files.find((one) => one.path === path) ?? files[0];
  if (!file) return null;
  const marked = new Map((last?.taken ? last.findings : []).filter((one) => one.file === file.path).map((one) => [one.line, one]));
  return (
    <Panel
      title="In force"
      actions={
        <>
          <span className="muted">secrets are redacted</span>
          {files.length > 1 && (
            <select aria-label="File" value={file.path} onChange={(event) => setPath(event.target.value)}>
              {files.map((one) => (
                <option key={one.path} value={one.path}>
                  {one.path}
                </option>
              ))}
            </select>
          )}
        </>
      }
    >
      <pre className="code source" tabIndex={0} aria-label={`Text of ${file.path}`}>
        {file.text.split("\n").map((line, at) => (
          <span key={at} className={marked.has(at + 1) ? "marked" : undefined}>
            <i aria-hidden="true">{at + 1}</i>
            {visible(line)}
            {"\n"}
          </span>
        ))}
      </pre>
    </Panel>
  );
}

function Draft() {
  const [text, setText] = useState("");
  const check = useMutation({
    mutationFn: () => data<Schemas["Checked"]>(api.POST("/v1/configuration/check", { body: text, bodySerializer: (body: unknown) => body as string, headers: { "content-type": "application/yaml" } })),
  });
  return (
    <Panel title="Check a draft">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          check.mutate();
        }}
      >
        <label className="field">
          Configuration
          <textarea rows={8} value={text} spellCheck={false} placeholder={"version: 1\nlisten: [{addr: 127.0.0.1:8080}]"} onChange={(event) => setText(event.target.value)} />
          <small>The check reads no files, environment variables or network: include:, file: and {"${env:NAME}"} are reported as findings.</small>
        </label>
        <div className="row">
          <button type="submit" className="button primary" disabled={text.trim() === "" || check.isPending}>
            Check
          </button>
          {check.data && (check.data.usable ? <Badge tone="good">usable</Badge> : <Badge tone="bad">not usable</Badge>)}
        </div>
        {check.isError && <Failure error={check.error} />}
        {check.data && <Findings all={check.data.findings} />}
      </form>
    </Panel>
  );
}

function Reloads({ all }: { all: Reload[] }) {
  if (all.length === 0) return <Empty title="No reloads" />;
  return (
    <Panel title="Reloads since the start" inside={false}>
      <Table heads={["Time", "Trigger", "Result", "Findings"]}>
        {all.map((one, at) => (
          <tr key={at}>
            <td>
              <Time at={one.time} style="full" />
            </td>
            <td className="wrap-any">{one.by}</td>
            <td className="wrap-any">
              {one.taken ? <Badge tone="good">in force</Badge> : <Badge tone="bad">rejected</Badge>} {one.error}
            </td>
            <td className="wrap-any">{one.findings.length === 0 ? "none" : one.findings.map((finding) => `${finding.code} (line ${finding.line})`).join(", ")}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
