// One transaction: request, response, durations, history and actions.

import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { ApiProblem, type Schemas, type Transaction } from "../api/client";
import { useMay } from "../api/session";
import { duration } from "../format/format";
import { wordsOf } from "../query/fields";
import { useKeys } from "../shell/keys";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { Badge, Copy, Empty, EmptyPanel, Failure, Loading, Panel, State, Status, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { BodyView } from "./body-view";
import { prefill } from "../explain/prefill";
import { curl } from "./curl";
import { type Kind, Named, termOf } from "../traffic/named";
import { transactionQuery } from "./queries";
import { EditDialog, ResolveDialog, useResubmit } from "./resubmit";
import { hitPattern, spans, visible } from "./text";
import { Attempts, History, UpstreamAttempts, Waterfall } from "./timeline";

export function TransactionPage() {
  const { id = "" } = useParams({ strict: false }) as { id?: string };
  const { q = "" } = useSearch({ strict: false }) as { q?: string };
  const result = useQuery(transactionQuery(id));
  useTitle(result.data ? `${result.data.method} ${result.data.path}` : "Transaction");
  const isGone = result.error instanceof ApiProblem && result.error.status === 404;
  return (
    <>
      {result.isPending && <Loading what="the transaction" />}
      {isGone ? (
        <Empty title="Unknown transaction">
          <p>It was never recorded, has not ended yet, or its retention has ended.</p>
          <Link to="/tracker" className="button">
            Search in the Tracker
          </Link>
        </Empty>
      ) : (
        result.isError && <Failure error={result.error} retry={() => void result.refetch()} />
      )}
      {result.data && <View transaction={result.data} query={q} />}
    </>
  );
}

function View({ transaction, query }: { transaction: Transaction; query: string }) {
  const words = useMemo(() => wordsOf(query), [query]);
  const hits = useMemo(() => hitPattern(words), [words]);
  const { payload } = transaction;
  return (
    <>
      <Head transaction={transaction} query={query} />
      <Notes transaction={transaction} />
      <Facts transaction={transaction} />
      <div className="two">
        <Waterfall transaction={transaction} />
        <History transaction={transaction} />
      </div>
      <UpstreamAttempts transaction={transaction} />
      <Attempts transaction={transaction} />
      {payload ? (
        <>
          <Extras payload={payload} hits={hits} />
          <div className="two halves">
            <Half title="Request" headers={payload.request_headers} hits={hits} first={<Target method={transaction.method} target={payload.target} hits={hits} />}>
              <BodyView title="Request body" id={transaction.id} side="request-body" body={payload.request_body} facts={transaction.request} hits={words} />
            </Half>
            <Half title="Response" headers={payload.response_headers} hits={hits} first={<Status status={transaction.status} />}>
              <BodyView title="Response body" id={transaction.id} side="response-body" body={payload.response_body} facts={transaction.response} hits={words} />
            </Half>
          </div>
        </>
      ) : (
        <EmptyPanel title="Headers and bodies are hidden">
          <p>
            They require the role <code>payload-viewer</code>, and a scope with the depth <code>payloads</code>.
          </p>
        </EmptyPanel>
      )}
    </>
  );
}

function Head({ transaction, query }: { transaction: Transaction; query: string }) {
  const canSend = useMay("operator", "resubmission");
  const canResolve = useMay("operator", "resolution");
  const canExplain = useMay("operator", "records");
  const canAudit = useMay("admin", "administration");
  const [open, setOpen] = useState<"edit" | "resolve" | "curl">();
  const resubmit = useResubmit(transaction.id);
  const failed = transaction.state !== "completed";
  const isAttempt = transaction.resubmission_of !== undefined && transaction.resubmission_of !== "";
  useKeys({
    u: () => history.back(),
    ...(canSend && !isAttempt ? { e: () => setOpen("edit") } : {}),
    ...(canResolve && !isAttempt ? { r: () => failed && setOpen("resolve") } : {}),
  });
  return (
    <div className="page-head transaction-head">
      <Link to="/tracker" search={(query ? { q: query } : {}) as never} className="button quiet icon" aria-label="Back to the Tracker">
        <Icon name="back" />
      </Link>
      <h1 className="row">
        <Status status={transaction.status} />
        <span className="mono wrap-any">
          {transaction.method} {visible(transaction.path)}
        </span>
        {failed && <State state={transaction.state} />}
        {transaction.resolution && <State state={transaction.resolution} />}
      </h1>
      {transaction.payload && (
        <button type="button" className="button" onClick={() => setOpen("curl")}>
          curl
        </button>
      )}
      <Link to="/compare" search={{ a: transaction.id } as never} className="button" preload={false}>
        Compare…
      </Link>
      {canAudit && (
        <Link to="/access" search={{ action: "show", subject: transaction.id } as never} className="button">
          Who viewed this payload
        </Link>
      )}
      {canExplain && (
        <Link to="/explain" search={{ transaction: transaction.id } as never} className="button" onClick={() => prefill(curl(transaction)?.command ?? "")}>
          Explain
        </Link>
      )}
      {canResolve && !isAttempt && failed && (
        <button type="button" className="button" onClick={() => setOpen("resolve")}>
          Resolve…
        </button>
      )}
      {canSend && !isAttempt && (
        <>
          <button type="button" className="button" onClick={() => setOpen("edit")}>
            Edit and resubmit…
          </button>
          <button type="button" className="button primary" disabled={resubmit.isPending} onClick={() => resubmit.mutate({})}>
            {resubmit.isPending ? "Sending…" : "Resubmit"}
          </button>
        </>
      )}
      {resubmit.isError && (
        <div className="all-wide">
          <Failure error={resubmit.error} />
        </div>
      )}
      {open === "edit" && <EditDialog transaction={transaction} onClose={() => setOpen(undefined)} />}
      {open === "resolve" && <ResolveDialog transaction={transaction} onClose={() => setOpen(undefined)} />}
      {open === "curl" && <CurlDialog transaction={transaction} onClose={() => setOpen(undefined)} />}
    </div>
  );
}

function CurlDialog({ transaction, onClose }: { transaction: Transaction; onClose: () => void }) {
  const converted = useMemo(() => curl(transaction), [transaction]);
  return (
    <Dialog title="The request as a curl command" open wide onClose={onClose} footer={converted && <Copy text={converted.command} label="Copy" small={false} />}>
      {converted && converted.missing.length > 0 && <p className="notice warn">The command differs from the request: {converted.missing.join("; ")}.</p>}
      <pre className="code" tabIndex={0} aria-label="Command">
        {converted ? visible(converted.command) : ""}
      </pre>
    </Dialog>
  );
}

function Notes({ transaction }: { transaction: Transaction }) {
  const notes: string[] = [];
  if (transaction.shortened) notes.push("The journal was full: only the outcome was recorded.");
  if (transaction.damaged) notes.push("Some records of the transaction were lost.");
  if (transaction.missing) notes.push("Journal files with the transaction, or with its headers and bodies, are missing, and weir did not delete them.");
  if (transaction.expired) notes.push("Headers and bodies were deleted because of their age.");
  if (transaction.discarded) notes.push("Headers and bodies are recorded for failures only, and the transaction succeeded.");
  return (
    <>
      {notes.map((note) => (
        <p key={note} className="notice warn">
          {note}
        </p>
      ))}
      {transaction.resubmission_of && (
        <p className="notice">
          This is a resubmission of{" "}
          <Link to="/transactions/$id" params={{ id: transaction.resubmission_of }} preload={false} className="mono">
            {transaction.resubmission_of}
          </Link>
          . <Link to="/compare" search={{ a: transaction.resubmission_of, b: transaction.id } as never} preload={false}>Compare both</Link>
        </p>
      )}
    </>
  );
}

function Facts({ transaction }: { transaction: Transaction }) {
  const named = (kind: Kind, name: string | undefined) => name && <Named key={kind} kind={kind} name={name} />;
  const facts: [string, ReactNode][] = [
    ["Received", <Time key="t" at={transaction.time} style="full" />],
    ["Duration", duration(transaction.took_us)],
    ["API", named("api", transaction.api)],
    ["Operation", transaction.operation && <Named key="operation" kind="operation" name={transaction.operation} within={transaction.api && termOf("api", transaction.api)} />],
    ["Consumer", named("consumer", transaction.consumer)],
    ["Plan", named("plan", transaction.plan)],
    ["Principal", named("principal", transaction.principal)],
    ["Client", named("client", transaction.sender)],
    ["Upstream", named("upstream", transaction.receiver)],
    ["Target", named("upstream_target", transaction.upstream_target)],
    ["Node", transaction.node],
    ["Problem", named("problem", transaction.problem)],
    ["Limit or rule", named("detail", transaction.detail)],
  ];
  return (
    <section className="panel facts-line">
      <dl className="fact-grid">
        {facts.map(
          ([name, value]) =>
            value && (
              <div key={name}>
                <dt>{name}</dt>
                <dd className="wrap-any">{value}</dd>
              </div>
            ),
        )}
        <div>
          <dt>Id</dt>
          <dd className="row">
            <code className="wrap-any">{transaction.id}</code>
            <Copy text={transaction.id} label="Copy" />
          </dd>
        </div>
      </dl>
    </section>
  );
}

function Target({ method, target, hits }: { method: string; target: string; hits: RegExp | undefined }) {
  return (
    <code className="wrap-any">
      {method} <Marked text={target} hits={hits} />
    </code>
  );
}

function Marked({ text, hits }: { text: string; hits: RegExp | undefined }) {
  return (
    <bdo dir="ltr">
      {spans(visible(text), "text", hits).map((span, index) => (span.isHit ? <mark key={index}>{span.text}</mark> : <span key={index}>{span.text}</span>))}
    </bdo>
  );
}

function Half({ title, headers, first, hits, children }: { title: string; headers: Schemas["Field"][]; first: ReactNode; hits: RegExp | undefined; children: ReactNode }) {
  return (
    <Panel title={title} actions={<span className="muted">{headers.length} {headers.length === 1 ? "header" : "headers"}</span>}>
      <div className="stack">
        <div>{first}</div>
        {headers.length > 0 && <Fields fields={headers} hits={hits} />}
        {children}
      </div>
    </Panel>
  );
}

function Fields({ fields, hits }: { fields: Schemas["Field"][]; hits: RegExp | undefined }) {
  return (
    <dl className="headers">
      {fields.map((field, at) => (
        <div key={at}>
          <dt>
            <bdo dir="ltr">{visible(field.name)}</bdo>
          </dt>
          <dd className="wrap-any">
            {field.value === "***" ? <Badge tone="info">redacted</Badge> : <Marked text={field.value} hits={hits} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Extras({ payload, hits }: { payload: Schemas["Payload"]; hits: RegExp | undefined }) {
  const fields = [...payload.keys.map((field) => ({ ...field, name: `key ${field.name}` })), ...payload.properties.map((field) => ({ ...field, name: `property ${field.name}` }))];
  if (fields.length === 0 && payload.logs.length === 0) return null;
  return (
    <Panel title="Keys, properties and logs">
      <div className="stack">
        {fields.length > 0 && <Fields fields={fields} hits={hits} />}
        {payload.logs.length > 0 && (
          <pre className="code" tabIndex={0} aria-label="Log lines">
            {payload.logs.map(visible).join("\n")}
          </pre>
        )}
      </div>
    </Panel>
  );
}
