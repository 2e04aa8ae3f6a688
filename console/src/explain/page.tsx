// Explains the handling of a request without sending it, or sends it as a test request.

import { useMutation } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { Badge, Failure, Panel, Status, Table } from "../ui/parts";
import { useTitle } from "../ui/title";
import { prefilled } from "./prefill";
import { Recorded } from "./recorded";
import { requestOf, type Form } from "./request";
import { TestResponse } from "./test-response";

type Explanation = Schemas["Explanation"];

const TONES: Record<string, string> = { passed: "good", answered: "good", granted: "good", room: "good", refused: "bad", exhausted: "bad", invalid: "bad", later: "info" };

export function ExplainPage() {
  const search = useSearch({ strict: false }) as { method?: string; target?: string; transaction?: string };
  const [form, setForm] = useState<Form>(() => ({
    method: search.method ?? "GET",
    target: search.target ?? "",
    headers: "",
    body: "",
    curl: search.target ? "" : prefilled(),
    client: "",
  }));
  const [wrong, setWrong] = useState<string>();
  useTitle("Explain");
  const explain = useMutation({ mutationFn: (body: Schemas["Explain"]) => data<Explanation>(api.POST("/v1/explain", { body })) });
  const attempt = useMutation({ mutationFn: (body: Schemas["Explain"]) => data<Schemas["TestResponse"]>(api.POST("/v1/try", { body })) });
  const field = (name: keyof Form) => ({
    value: form[name],
    onChange: (event: { target: { value: string } }) => setForm({ ...form, [name]: event.target.value }),
  });
  const submit = (what: typeof explain | typeof attempt) => {
    const request = requestOf(form);
    setWrong(typeof request === "string" ? request : undefined);
    if (typeof request === "string") return;
    explain.reset();
    attempt.reset();
    what.mutate(request);
  };
  const isBusy = explain.isPending || attempt.isPending;
  return (
    <>
      <div className="page-head">
        <h1>Explain</h1>
        <span className="muted">Uses the configuration in force. Nothing is sent, counted or recorded, except by “Send test request”.</span>
      </div>
      {search.transaction && <Recorded id={search.transaction} />}
      <Panel title={search.transaction ? "The same request now" : "Request"}>
        {search.transaction && <p className="muted">Uses the current configuration. Redacted values, such as credentials, have to be added.</p>}
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            submit(explain);
          }}
        >
          <div className="row">
            <label className="field">
              <span>Method</span>
              <input type="text" size={9} className="mono" {...field("method")} />
            </label>
            <label className="field grow">
              <span>Path or URL</span>
              <input type="text" className="mono" data-search placeholder="/orders/7?x=1" {...field("target")} />
            </label>
            <label className="field">
              <span>Client address</span>
              <input type="text" size={16} className="mono" placeholder="127.0.0.1" {...field("client")} />
            </label>
          </div>
          <label className="field">
            <span>Headers, one per line</span>
            <textarea rows={3} className="mono" placeholder="content-type: application/json" {...field("headers")} />
          </label>
          <label className="field">
            <span>Body</span>
            <textarea rows={3} className="mono" {...field("body")} />
          </label>
          <label className="field">
            <span>Or a curl command instead</span>
            <textarea rows={3} className="mono" placeholder="curl -H 'x-api-key: …' http://127.0.0.1:8080/orders" {...field("curl")} />
          </label>
          {wrong && (
            <div className="notice bad" role="alert">
              {wrong}
            </div>
          )}
          <div className="row">
            <button type="submit" className="button primary" disabled={isBusy}>
              {explain.isPending ? "Explaining…" : "Explain"}
            </button>
            <button type="button" className="button" disabled={isBusy || form.client.trim() !== ""} onClick={() => submit(attempt)} aria-describedby="try-note">
              {attempt.isPending ? "Waiting for the response…" : "Send test request"}
            </button>
            <span id="try-note" className="muted">
              A test request is sent from this machine with the credentials in its headers. It takes effect, and is counted and recorded.
            </span>
          </div>
        </form>
      </Panel>
      {explain.isError && <Failure error={explain.error} />}
      {attempt.isError && <Failure error={attempt.error} />}
      {attempt.data && <TestResponse response={attempt.data} />}
      {explain.data && <Result explanation={explain.data} />}
    </>
  );
}

function Result({ explanation }: { explanation: Explanation }) {
  const { decision } = explanation;
  const tone = decision.kind === "refused" ? "bad" : "good";
  return (
    <>
      <div className={`notice ${tone}`} role="status">
        <div>
          <strong>
            {decision.kind === "refused" && "Rejected"}
            {decision.kind === "answered" && "Response of weir"}
            {decision.kind === "handed-on" && `Forwarded to ${explanation.sent?.to ?? ""} ${explanation.sent?.name ?? ""}`}
          </strong>{" "}
          {decision.status != null && <Status status={decision.status} />} {decision.problem && <code>{decision.problem}</code>}
          <br />
          {decision.why}
        </div>
      </div>
      <Destination explanation={explanation} />
      <Panel title="Policies in the order of processing" inside={false}>
        <Steps steps={explanation.steps} />
      </Panel>
      {explanation.sent && <Sent sent={explanation.sent} />}
      {explanation.answer && (
        <Panel title="Response">
          <Headers line={`status ${explanation.answer.status}`} headers={explanation.answer.headers} body={explanation.answer.body} />
        </Panel>
      )}
      <Panel title="Recording">
        <p>
          <Badge tone={explanation.capture.recorded ? "info" : ""}>{explanation.capture.level}</Badge> {explanation.capture.why}
        </p>
        {explanation.capture.headers.length > 0 && <Headers line={explanation.capture.target} headers={explanation.capture.headers} />}
      </Panel>
      {explanation.others.length > 0 && <Others others={explanation.others} />}
    </>
  );
}

function Destination({ explanation }: { explanation: Explanation }) {
  const principal = explanation.principal;
  return (
    <Panel title="Destination and identity">
      <dl className="facts">
        <dt>Listener</dt>
        <dd>
          <code>{explanation.listener.address}</code> <span className="muted">{explanation.listener.why}</span>
        </dd>
        <dt>Request</dt>
        <dd className="mono wrap-any">
          {explanation.method} {explanation.path}, host {explanation.host}, client {explanation.client}
        </dd>
        <dt>Route</dt>
        <dd className="wrap-any">
          {explanation.operation ? (
            <>
              {explanation.operation} <code>{explanation.route}</code> of {explanation.api} <code className="muted">{explanation.location}</code>
            </>
          ) : (
            `none${explanation.api ? ` of ${explanation.api}` : ", and no API"}`
          )}
        </dd>
        {explanation.parameters.map((parameter) => (
          <Fact key={parameter.name} name={parameter.name} value={parameter.value} />
        ))}
        <dt>Caller</dt>
        <dd>{principal ? [principal.consumer ?? "no consumer", principal.plan && `plan ${principal.plan}`, principal.auth && `by ${principal.auth}`, principal.subject, principal.scopes.join(" ")].filter(Boolean).join(" · ") : "anonymous"}</dd>
      </dl>
    </Panel>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt className="mono">{name}</dt>
      <dd className="mono wrap-any">{value}</dd>
    </>
  );
}

function Steps({ steps }: { steps: Schemas["Step"][] }) {
  return (
    <Table heads={["Policy", "Outcome", "Setting", "Reason"]}>
      {steps.map((step, at) => (
        <tr key={`${step.name} ${at}`} className={step.outcome === "off" || step.outcome === "not-reached" ? "muted" : undefined}>
          <td>{step.name}</td>
          <td>
            <Badge tone={TONES[step.outcome] ?? ""}>{step.outcome}</Badge>
          </td>
          <td className="wrap-any">{step.setting}</td>
          <td className="wrap-any">
            {step.why}
            {step.parts.length > 0 && (
              <ul>
                {step.parts.map((part, index) => (
                  <li key={index}>
                    <span className="mono">{part.name}</span> <Badge tone={TONES[part.outcome] ?? ""}>{part.outcome}</Badge> {part.why}
                  </li>
                ))}
              </ul>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Sent({ sent }: { sent: Schemas["Sent"] }) {
  return (
    <Panel title={`Request to ${sent.to} ${sent.name}`}>
      {sent.targets.length > 0 && <p className="muted">Target: {sent.targets.join(", then ")}</p>}
      <Headers line={sent.line} headers={sent.headers} body={sent.body} />
    </Panel>
  );
}

function Headers({ line, headers, body }: { line: string; headers: Schemas["Pair"][]; body?: Schemas["Text"] | null }) {
  const lines = [line, ...headers.map((header) => `${header.name}: ${header.value}`)];
  if (body?.text != null) lines.push("", body.text + (body.cut ? " …" : ""));
  else if (body) lines.push("", `(${body.bytes} bytes of binary data)`);
  return <pre className="wrap-any">{lines.join("\n")}</pre>;
}

function Others({ others }: { others: Schemas["Other"][] }) {
  return (
    <Panel title="Similar routes that do not match">
      <ul className="routes">
        {others.map((other) => (
          <li key={`${other.api} ${other.operation}`} className="row">
            <Badge tone="info">{other.methods.length > 0 ? other.methods.join(" ") : "any"}</Badge>
            <span className="mono wrap-any">{other.path}</span>
            <span className="muted wrap-any">{other.why}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
