// What weir would do with a request, and why; nothing is sent.

import { useMutation } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { Badge, Failure, Panel, Status } from "../ui/parts";
import { taken } from "./handed";
import { Recorded } from "./recorded";
import { asked, type Form } from "./request";
import { Tried } from "./tried";

type Explanation = Schemas["Explanation"];

const TONES: Record<string, string> = { passed: "good", answered: "good", granted: "good", room: "good", refused: "bad", exhausted: "bad", invalid: "bad", later: "info" };

export function ExplainPage() {
  const search = useSearch({ strict: false }) as { method?: string; target?: string; transaction?: string };
  const [form, setForm] = useState<Form>(() => ({
    method: search.method ?? "GET",
    target: search.target ?? "",
    headers: "",
    body: "",
    curl: search.target ? "" : taken(),
    client: "",
  }));
  const [wrong, setWrong] = useState<string>();
  useEffect(() => {
    document.title = "Explain · weir";
  }, []);
  const explain = useMutation({ mutationFn: (body: Schemas["Explain"]) => data<Explanation>(api.POST("/v1/explain", { body })) });
  const attempt = useMutation({ mutationFn: (body: Schemas["Explain"]) => data<Schemas["TriedAnswer"]>(api.POST("/v1/try", { body })) });
  const field = (name: keyof Form) => ({
    value: form[name],
    onChange: (event: { target: { value: string } }) => setForm({ ...form, [name]: event.target.value }),
  });
  const submit = (what: typeof explain | typeof attempt) => {
    const request = asked(form);
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
        <span className="muted">By the configuration in force. Nothing is sent, counted or recorded, unless you try it.</span>
      </div>
      {search.transaction && <Recorded id={search.transaction} />}
      <Panel title={search.transaction ? "A request like it, now" : "Request"}>
        {search.transaction && <p className="muted">By the configuration of now, without what was masked in the record: credentials have to be added.</p>}
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
            <span>Headers, one a line</span>
            <textarea rows={3} className="mono" placeholder="content-type: application/json" {...field("headers")} />
          </label>
          <label className="field">
            <span>Body</span>
            <textarea rows={3} className="mono" {...field("body")} />
          </label>
          <label className="field">
            <span>Or a curl command, in place of all of that</span>
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
              {attempt.isPending ? "Waiting for the answer…" : "Try it"}
            </button>
            <span id="try-note" className="muted">
              Trying sends it: whatever it changes is changed, it is counted and recorded. It comes from this machine, with the credentials in its headers.
            </span>
          </div>
        </form>
      </Panel>
      {explain.isError && <Failure error={explain.error} />}
      {attempt.isError && <Failure error={attempt.error} />}
      {attempt.data && <Tried answer={attempt.data} />}
      {explain.data && <Told told={explain.data} />}
    </>
  );
}

function Told({ told }: { told: Explanation }) {
  const { decision } = told;
  const tone = decision.kind === "refused" ? "bad" : "good";
  return (
    <>
      <div className={`notice ${tone}`} role="status">
        <div>
          <strong>
            {decision.kind === "refused" && "Refused"}
            {decision.kind === "answered" && "Answered by weir"}
            {decision.kind === "handed-on" && `Handed on to the ${told.sent?.to ?? ""} ${told.sent?.name ?? ""}`}
          </strong>{" "}
          {decision.status != null && <Status status={decision.status} />} {decision.problem && <code>{decision.problem}</code>}
          <br />
          {decision.why}
        </div>
      </div>
      <Way told={told} />
      <Panel title="Policies, in their order" inside={false}>
        <Steps steps={told.steps} />
      </Panel>
      {told.sent && <Sent sent={told.sent} />}
      {told.answer && (
        <Panel title="Answer">
          <Headers line={`status ${told.answer.status}`} headers={told.answer.headers} body={told.answer.body} />
        </Panel>
      )}
      <Panel title="Recorded">
        <p>
          <Badge tone={told.capture.recorded ? "info" : ""}>{told.capture.level}</Badge> {told.capture.why}
        </p>
        {told.capture.headers.length > 0 && <Headers line={told.capture.target} headers={told.capture.headers} />}
      </Panel>
      {told.others.length > 0 && <Others others={told.others} />}
    </>
  );
}

function Way({ told }: { told: Explanation }) {
  const who = told.principal;
  return (
    <Panel title="Where it goes, and whose it is">
      <dl className="facts">
        <dt>Listener</dt>
        <dd>
          <code>{told.listener.address}</code> <span className="muted">{told.listener.why}</span>
        </dd>
        <dt>Asked for</dt>
        <dd className="mono wrap-any">
          {told.method} {told.path} of {told.host}, from {told.client}
        </dd>
        <dt>Route</dt>
        <dd className="wrap-any">
          {told.operation ? (
            <>
              {told.operation} <code>{told.route}</code> of {told.api} <code className="muted">{told.location}</code>
            </>
          ) : (
            `none${told.api ? ` of ${told.api}` : ", and no API"}`
          )}
        </dd>
        {told.parameters.map((parameter) => (
          <Fact key={parameter.name} name={parameter.name} value={parameter.value} />
        ))}
        <dt>Caller</dt>
        <dd>{who ? [who.consumer ?? "no consumer", who.plan && `plan ${who.plan}`, who.auth && `by ${who.auth}`, who.subject, who.scopes.join(" ")].filter(Boolean).join(" · ") : "nobody in particular"}</dd>
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
    <div className="table-box">
      <table className="data">
        <thead>
          <tr>
            <th>Policy</th>
            <th>Outcome</th>
            <th>Setting</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
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
        </tbody>
      </table>
    </div>
  );
}

function Sent({ sent }: { sent: Schemas["Sent"] }) {
  return (
    <Panel title={`What the ${sent.to} ${sent.name} would get`}>
      {sent.targets.length > 0 && <p className="muted">Target: {sent.targets.join(", then ")}</p>}
      <Headers line={sent.line} headers={sent.headers} body={sent.body} />
    </Panel>
  );
}

function Headers({ line, headers, body }: { line: string; headers: Schemas["Pair"][]; body?: Schemas["Text"] | null }) {
  const lines = [line, ...headers.map((header) => `${header.name}: ${header.value}`)];
  if (body?.text != null) lines.push("", body.text + (body.cut ? " …" : ""));
  else if (body) lines.push("", `(${body.bytes} bytes that are no text)`);
  return <pre className="wrap-any">{lines.join("\n")}</pre>;
}

function Others({ others }: { others: Schemas["Other"][] }) {
  return (
    <Panel title="The nearest others, and why not">
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
