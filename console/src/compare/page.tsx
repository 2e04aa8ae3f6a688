// Two transactions side by side, such as an original and its resubmission.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, type ReactNode, useState } from "react";
import type { Schemas, Transaction } from "../api/client";
import { duration } from "../format/format";
import { transactionId } from "../query/transaction-id";
import { Part } from "../transaction/diff-view";
import { transactionQuery } from "../transaction/queries";
import { visible } from "../transaction/text";
import { Badge, Empty, Panel, QueryState, State, Status, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { useSearchText } from "../url/use-search-text";
import { CompareBodies } from "./bodies";
import { compareHeaders, type HeaderChange } from "./headers";

export function ComparePage() {
  const { a = "", b = "" } = useSearch({ strict: false }) as { a?: string; b?: string };
  useTitle("Compare transactions");
  return (
    <>
      <div className="page-head">
        <h1>Compare transactions</h1>
      </div>
      <Choice key={`${a} ${b}`} a={a} b={b} />
      {transactionId(a) && transactionId(b) ? (
        <Both a={a} b={b} />
      ) : (
        <section className="panel">
          <Empty title="Two transactions side by side">
            <p>Enter two transaction ids, or follow “Compare” from a resubmission.</p>
          </Empty>
        </section>
      )}
    </>
  );
}

function Choice({ a, b }: { a: string; b: string }) {
  const [ids, setIds] = useState([a, b] as const);
  const navigate = useNavigate();
  const isRight = ids.every((id) => transactionId(id));
  const compare = (event: FormEvent) => {
    event.preventDefault();
    const [first, second] = ids.map((id) => transactionId(id));
    if (first && second) void navigate({ to: "/compare", search: { a: first, b: second } as never });
  };
  return (
    <form className="panel compare-ids" onSubmit={compare}>
      <label className="field">
        First transaction
        <input className="mono" value={ids[0]} spellCheck={false} maxLength={64} onChange={(event) => setIds([event.target.value, ids[1]])} />
      </label>
      <label className="field">
        Second transaction
        <input className="mono" value={ids[1]} spellCheck={false} maxLength={64} onChange={(event) => setIds([ids[0], event.target.value])} />
      </label>
      <button type="submit" className="button" disabled={!isRight}>
        Compare
      </button>
    </form>
  );
}

function Both({ a, b }: { a: string; b: string }) {
  const [first, second] = [useQuery(transactionQuery(a)), useQuery(transactionQuery(b))];
  if (!first.data || !second.data) {
    return (
      <>
        <QueryState query={first} what="the first transaction" />
        <QueryState query={second} what="the second transaction" />
      </>
    );
  }
  return <Comparison a={first.data} b={second.data} />;
}

function Comparison({ a, b }: { a: Transaction; b: Transaction }) {
  const hidden = !a.payload || !b.payload;
  return (
    <>
      {b.resubmission_of === a.id && <p className="notice">The second transaction is a resubmission of the first one.</p>}
      <Summary a={a} b={b} />
      {hidden ? (
        <section className="panel">
          <Empty title="Headers and bodies are hidden">
            <p>
              They require a token with the role <code>payload-viewer</code>.
            </p>
          </Empty>
        </section>
      ) : (
        <Payloads a={a} b={b} before={a.payload as Schemas["Payload"]} after={b.payload as Schemas["Payload"]} />
      )}
    </>
  );
}

function Summary({ a, b }: { a: Transaction; b: Transaction }) {
  const stage = (one: Transaction, name: string) => one.stages.find((found) => found.name === name)?.took_us;
  const names = [...new Set([...a.stages, ...b.stages].map((one) => one.name))].filter((name) => name !== "total");
  const text = (of: (one: Transaction) => string | undefined): [ReactNode, ReactNode, boolean] => {
    const [first, second] = [of(a) ?? "", of(b) ?? ""];
    return [visible(first) || "–", visible(second) || "–", first !== second];
  };
  const rows: [string, [ReactNode, ReactNode, boolean]][] = [
    ["Transaction", [<Id key="a" id={a.id} />, <Id key="b" id={b.id} />, false]],
    ["Received", [<Time key="a" at={a.time} style="full" />, <Time key="b" at={b.time} style="full" />, false]],
    ["Status", [<Status key="a" status={a.status} />, <Status key="b" status={b.status} />, a.status !== b.status]],
    ["State", [<State key="a" state={a.state} />, <State key="b" state={b.state} />, a.state !== b.state]],
    ["Duration", durations(a.took_us, b.took_us)],
    ...names.map((name): [string, [ReactNode, ReactNode, boolean]] => [`· ${name}`, durations(stage(a, name), stage(b, name))]),
    ["Request", text((one) => `${one.method} ${one.payload?.target ?? one.path}`)],
    ["Operation", text((one) => one.operation)],
    ["Upstream", text((one) => one.receiver)],
    ["Target", text((one) => one.upstream_target)],
    ["Node", text((one) => one.node)],
    ["Problem", text((one) => one.problem)],
  ];
  return (
    <Panel title="Summary" inside={false}>
      <Table heads={["(Property)", "First", "Second", "(Difference)"]}>
        {rows
          .filter(([, [first, second]]) => first !== "–" || second !== "–")
          .map(([name, [first, second, differs]]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="wrap-any">{first}</td>
              <td className="wrap-any">{second}</td>
              <td>{differs && <Badge tone="warn">differs</Badge>}</td>
            </tr>
          ))}
      </Table>
    </Panel>
  );
}

/** Durations are hardly ever equal, so they do not count as differences. */
function durations(first: number | undefined, second: number | undefined): [ReactNode, ReactNode, boolean] {
  const change = first && second !== undefined ? ` (${second >= first ? "+" : "−"}${Math.round(Math.abs(100 * (second / first - 1)))} %)` : "";
  return [first === undefined ? "–" : duration(first), second === undefined ? "–" : duration(second) + change, false];
}

function Id({ id }: { id: string }) {
  return (
    <Link to="/transactions/$id" params={{ id }} preload={false} className="mono">
      {id}
    </Link>
  );
}

function Payloads({ a, b, before, after }: { a: Transaction; b: Transaction; before: Schemas["Payload"]; after: Schemas["Payload"] }) {
  const gone = ([["first", a], ["second", b]] as const).filter(([, one]) => one.expired || one.discarded || one.missing || one.damaged);
  return (
    <>
      {gone.map(([name, one]) => (
        <p key={name} className="notice warn">
          Headers and bodies of the {name} transaction {one.expired ? "were deleted because of their age" : one.discarded ? "are recorded for failures only" : "are missing, or some of them"}.
        </p>
      ))}
      <Headers title="Request headers" name="request" changes={compareHeaders(before.request_headers, after.request_headers)} />
      <CompareBodies title="Request body" a={{ body: before.request_body, facts: a.request }} b={{ body: after.request_body, facts: b.request }} />
      <Headers title="Response headers" name="response" changes={compareHeaders(before.response_headers, after.response_headers)} />
      <CompareBodies title="Response body" a={{ body: before.response_body, facts: a.response }} b={{ body: after.response_body, facts: b.response }} />
    </>
  );
}

const TONES = { same: "", added: "good", removed: "bad", changed: "warn" };

/** `name`: in the address, of the headers of which those that are equal are shown, too. */
function Headers({ title, name, changes }: { title: string; name: string; changes: HeaderChange[] }) {
  const [text, setText] = useSearchText("equal");
  const open = text.split(",").filter(Boolean);
  const all = open.includes(name);
  const toggle = () => setText((all ? open.filter((one) => one !== name) : [...open, name]).join(","));
  const equal = changes.filter((one) => one.kind === "same").length;
  const shown = all ? changes : changes.filter((one) => one.kind !== "same");
  return (
    <Panel
      title={title}
      inside={false}
      actions={
        equal > 0 && (
          <button type="button" className="button small" aria-pressed={all} onClick={toggle}>
            {equal} equal
          </button>
        )
      }
    >
      {shown.length === 0 ? (
        <p className="inside muted">{changes.length === 0 ? "Neither has headers." : "No header differs."}</p>
      ) : (
        <Table heads={["Header", "(Change)", "First", "Second"]} label={title}>
          {shown.map((one) => (
            <tr key={one.name}>
              <td className="mono">{visible(one.name)}</td>
              <td>
                <Badge tone={TONES[one.kind]}>{one.kind}</Badge>
              </td>
              <td className="mono wrap-any">
                <Values all={one.before} others={one.after} />
              </td>
              <td className="mono wrap-any">
                <Values all={one.after} others={one.before} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

/** Characters of a value that are shown. */
const MAX_VALUE = 2000;

function Values({ all, others }: { all: string[]; others: string[] }) {
  return all.map((value, at) => (
    <div key={at}>
      {value === "***" ? (
        <Badge tone="info">redacted</Badge>
      ) : (
        <bdo dir="ltr">
          <Part text={value} other={others[at]} most={MAX_VALUE} />
        </bdo>
      )}
    </div>
  ));
}
