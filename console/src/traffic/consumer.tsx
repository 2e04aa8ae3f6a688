// A consumer: limits, what it owes for the current month, limits hit, credentials.

import { useQueries, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, data, type Schemas } from "../api/client";
import { useSession } from "../api/session";
import { count } from "../format/format";
import { monthOf } from "../monitor/billing";
import { Consumers, limitsQuery } from "../monitor/limits";
import { invoicesOf, usageOf } from "../monitor/queries";
import { within } from "../time/range";
import { useRange } from "../time/use-range";
import { Amount, Amounts } from "../ui/money";
import { Badge, Panel, QueryState, Table, Time } from "../ui/parts";
import { KeyAction, KeyState, termOfKey } from "./api-key";
import { Named, termOf } from "./named";
import { newestOf } from "./newest";

/** Most transactions whose principals and limits are shown. */
const NEWEST = 500;
/** Most credentials that are shown. The last use of each is a search. */
const MOST = 50;
/** Searches for a last use at a time: more would keep other requests waiting. */
const AT_A_TIME = 2;

type Summary = Schemas["Page"]["transactions"][number];

export function ConsumerSections({ name }: { name: string }) {
  const limits = useQuery(limitsQuery);
  const session = useSession();
  const own = limits.data?.consumers.filter((one) => one.consumer === name) ?? [];
  return (
    <>
      {own.length > 0 && <Consumers all={own} />}
      {session?.counting && (
        <div className="two">
          <Month name={name} />
          <Usage name={name} />
        </div>
      )}
      {session?.recording && <LimitsHit name={name} />}
      <Credentials name={name} isRecording={session?.recording ?? false} />
    </>
  );
}

/** The provisional invoice of the current month. */
function Month({ name }: { name: string }) {
  const period = monthOf(new Date(), "UTC");
  const invoices = useQuery({ ...invoicesOf({ period, zone: "UTC", consumer: name }), refetchInterval: 30_000 });
  const invoice = invoices.data?.[0];
  const excluded = (invoice?.unbilled?.lines ?? []).reduce((sum, line) => sum + line.calls, 0);
  return (
    <Panel
      title="This month"
      inside={false}
      actions={
        <>
          <span className="muted">{period} (UTC)</span>
          {invoice?.provisional && <Badge tone="warn">provisional</Badge>}
          <Link to="/monitor" search={{ tab: "invoices", period, consumer: name } as never} className="button small" preload={false}>
            Invoice
          </Link>
        </>
      }
    >
      <QueryState query={invoices} what="the invoice" />
      {invoices.data && !invoice && <p className="inside muted">No calls with a price.</p>}
      {invoice && (
        <Table heads={["Amount so far", "#Exact", "#Rounded"]} label="Amount so far">
          {invoice.totals.map((total) => (
            <tr key={total.currency}>
              <td>{count(invoice.lines.filter((line) => line.currency === total.currency).reduce((sum, line) => sum + line.calls, 0))} calls</td>
              <td className="num mono muted">{total.exact}</td>
              <td className="num">
                <Amount rounded={total.due} exact={total.exact} currency={total.currency} />
              </td>
            </tr>
          ))}
          {excluded > 0 && (
            <tr>
              <td colSpan={2}>{count(excluded)} calls not billed: weir itself rejected or failed them</td>
              <td className="num">
                <Amounts all={invoice.unbilled?.totals} />
              </td>
            </tr>
          )}
        </Table>
      )}
    </Panel>
  );
}

/** Metered calls in the range of the page, by API. */
function Usage({ name }: { name: string }) {
  const [range] = useRange();
  const usage = useQuery(usageOf(range, "api", "", name));
  const rows = [...(usage.data?.rows ?? [])].sort((a, b) => b.calls - a.calls);
  return (
    <Panel title="Metered calls" inside={false} actions={<span className="muted">in the time range</span>}>
      <QueryState query={usage} what="usage" />
      {usage.data && rows.length === 0 && <p className="inside muted">None in this time range.</p>}
      {rows.length > 0 && (
        <Table heads={["API", "#Calls", "#Not billed", "#Amount"]}>
          {rows.map((row) => (
            <tr key={row.api}>
              <td>
                <Named kind="api" name={row.api ?? ""} within={termOf("consumer", name)} />
              </td>
              <td className="num">{count(row.calls)}</td>
              <td className="num">{count(row.unbilled_calls ?? 0)}</td>
              <td className="num">
                <Amounts all={row.costs} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

/** `all`: also before the range of the page. */
function useNewest(query: string, all = false) {
  const [range] = useRange();
  const q = all ? query : within(query, range).query;
  return useQuery(newestOf(q, NEWEST));
}

type NewestResult = UseQueryResult<Schemas["Page"]>;

/** The newest transaction of each query, whenever it was; a few searches at a time. */
function useLastUses(terms: string[]): NewestResult[] {
  const [done, setDone] = useState(0);
  const results = useQueries({ queries: terms.map((term, at) => ({ ...newestOf(term, 1), enabled: at < done + AT_A_TIME, refetchOnWindowFocus: false })) });
  const ended = results.filter((result) => !result.isPending).length;
  useEffect(() => setDone(ended), [ended]);
  return results;
}

/** Numbers of transactions by a text of each, and the newest of them. */
function grouped(all: Summary[], of: (one: Summary) => string): { name: string; calls: number; newest: Summary }[] {
  const groups = new Map<string, { name: string; calls: number; newest: Summary }>();
  for (const one of all) {
    const group = groups.get(of(one));
    if (group) group.calls += 1;
    else groups.set(of(one), { name: of(one), calls: 1, newest: one });
  }
  return [...groups.values()].sort((a, b) => b.calls - a.calls);
}

/** What limits have rejected in the range of the page. */
function LimitsHit({ name }: { name: string }) {
  const term = `${termOf("consumer", name)} problem:* status:429`;
  const hits = useNewest(term);
  const rows = hits.data?.transactions ?? [];
  return (
    <Panel
      title="Limits hit"
      inside={false}
      actions={
        <Link to="/tracker" search={{ q: term }} className="button small" preload={false}>
          Transactions
        </Link>
      }
    >
      <QueryState query={hits} what="rejected requests" />
      {hits.data && rows.length === 0 && <p className="inside muted">No request was rejected by a limit in this time range.</p>}
      {rows.length > 0 && (
        <Table heads={["Limit", "Problem", "#Rejected", "Last"]}>
          {grouped(rows, (one) => `${one.detail} ${one.problem}`).map(({ name: key, calls, newest }) => (
            <tr key={key}>
              <td>{newest.detail ? <Named kind="detail" name={newest.detail} label={/^limit "(.*)" is exhausted$/.exec(newest.detail)?.[1] ?? newest.detail} within={term} /> : <span className="muted">none</span>}</td>
              <td>
                <Named kind="problem" name={newest.problem ?? ""} within={termOf("consumer", name)} />
              </td>
              <td className="num">{count(calls)}</td>
              <td>
                <Newest one={newest} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {hits.data?.next && <p className="inside muted">Of the newest {count(rows.length)}; there are more.</p>}
    </Panel>
  );
}

function Newest({ one }: { one: Summary }) {
  return (
    <Link to="/transactions/$id" params={{ id: one.id }} preload={false}>
      <Time at={one.time} />
    </Link>
  );
}

const CREDENTIALS: Record<string, string> = { "api-key": "API key", jwt: "JWT", introspect: "Opaque token", certificate: "Certificate" };

/** What identifies the consumer by the configuration, and the principals of its newest transactions. */
function Credentials({ name, isRecording }: { name: string; isRecording: boolean }) {
  const found = useQuery({
    queryKey: ["consumer", name],
    queryFn: () => data<Schemas["ConsumerInfo"]>(api.GET("/v1/consumers/{consumer}", { params: { path: { consumer: name } } })),
    retry: false,
  });
  const shown = found.data?.credentials.slice(0, MOST) ?? [];
  const ids = isRecording ? shown.flatMap((one) => one.key?.id ?? []) : [];
  const uses = useLastUses(ids.map(termOfKey));
  const useOf = (id: string | null | undefined) => (id ? uses[ids.indexOf(id)] : undefined);
  return (
    <Panel title="Credentials" inside={false}>
      {found.isError && <p className="inside muted">The configuration in force has no such consumer.</p>}
      {found.data && (
        <Table heads={["Kind", "Name", "Auth", "Expiry", "Last use", "(Actions)"]}>
          {shown.map(({ kind, auth, key }) => (
            <tr key={`${kind} ${key?.id ?? ""}`}>
              <td>{CREDENTIALS[kind] ?? kind}</td>
              <td>
                <span className="mono">{key ? <Named kind="principal" name={key.id} /> : <span className="muted">all that the rule matches</span>}</span> {key?.name}
              </td>
              <td>{auth.join(", ")}</td>
              <td>{key ? <KeyState of={key} /> : <span className="muted">its own</span>}</td>
              <td>
                <LastUse newest={useOf(key?.id)} />
              </td>
              <td className="num">{key && <KeyAction of={key} quiet />}</td>
            </tr>
          ))}
        </Table>
      )}
      {found.data && found.data.credentials.length > MOST && (
        <p className="inside muted">
          {count(MOST)} of {count(found.data.credentials.length)} are shown.
        </p>
      )}
      {isRecording && <Principals name={name} />}
    </Panel>
  );
}

function LastUse({ newest }: { newest: NewestResult | undefined }) {
  if (!newest) return <span className="muted">see below</span>;
  const [one] = newest.data?.transactions ?? [];
  if (one) return <Newest one={one} />;
  return <span className="muted">{newest.isPending ? "…" : newest.isError ? "unknown" : "no transaction is recorded"}</span>;
}

function Principals({ name }: { name: string }) {
  const term = termOf("consumer", name);
  const newest = useNewest(term, true);
  const rows = newest.data?.transactions ?? [];
  if (rows.length === 0) return newest.data ? <p className="inside muted">No transaction of it is recorded.</p> : null;
  return (
    <>
      <Table heads={["Principal", "#Transactions", "Last use"]}>
        {grouped(rows, (one) => one.principal ?? "")
          .slice(0, MOST)
          .map(({ name: principal, calls, newest: last }) => (
          <tr key={principal}>
            <td className="wrap-any">{principal ? <Named kind="principal" name={principal} within={term} /> : <span className="muted">no name recorded</span>}</td>
            <td className="num">{count(calls)}</td>
            <td>
              <Newest one={last} />
            </td>
          </tr>
        ))}
      </Table>
      {newest.data?.next && <p className="inside muted">Of the newest {count(rows.length)} transactions; there are more.</p>}
    </>
  );
}
