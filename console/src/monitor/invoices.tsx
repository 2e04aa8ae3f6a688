// Invoices of a calendar month: display, print, download. Month, zone and consumer are in the URL.

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useSession } from "../api/session";
import { NodeChoice } from "../fleet/choice";
import { count } from "../format/format";
import { visible } from "../transaction/text";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { Amount } from "../ui/money";
import { Empty, QueryState, Table } from "../ui/parts";
import { type Invoice, isZone, monthOf, totals } from "./billing";
import { InvoiceView } from "./invoice";
import { MeteringOff } from "./metering-off";
import { MonthPicker, ZonePicker } from "./period";
import { invoicesOf } from "./queries";

interface InvoiceSearch {
  period?: string;
  zone?: string;
  consumer?: string;
  node?: string;
}

export function Invoices() {
  const session = useSession();
  const search = useSearch({ strict: false }) as InvoiceSearch;
  const navigate = useNavigate();
  const zone = search.zone && isZone(search.zone) ? search.zone : "UTC";
  const isPeriod = /^\d{4}(-\d{2}){0,2}$/.test(search.period ?? "");
  const period = isPeriod && search.period ? search.period : monthOf(new Date(), zone);
  const { consumer, node = "" } = search;
  const change = (next: InvoiceSearch) => void navigate({ to: ".", search: ((before: object) => ({ ...before, ...next })) as never });
  const query = { period, zone, ...(consumer ? { consumer } : {}), ...(node ? { node } : {}) };
  const invoices = useQuery({ ...invoicesOf(query), enabled: session?.counting ?? false });
  if (session && !session.counting) return <MeteringOff />;
  const href = (format: string) => `/v1/invoices?${new URLSearchParams({ ...query, format })}`;
  return (
    <section className="panel">
      <header className="no-print">
        <h2>Invoices</h2>
        <MonthPicker month={/^\d{4}-\d{2}/.exec(period)?.[0] ?? `${period.slice(0, 4)}-01`} zone={zone} onChange={(month) => change({ period: month })} />
        <ZonePicker zone={zone} onChange={(next) => change({ zone: next === "UTC" ? undefined : next })} />
        <NodeChoice node={node} onChange={(next) => change({ node: next || undefined })} />
        {consumer && (
          <button type="button" className="button small" onClick={() => change({ consumer: undefined })}>
            Only {visible(consumer)}: show all
          </button>
        )}
        <button type="button" className="button small" onClick={() => print()} disabled={!invoices.data?.length}>
          Print
        </button>
        {["csv", "json", "html"].map((format) => (
          <ApiLink key={format} className="button small" target={href(format)} download={`invoices-${period}.${format}`}>
            <Icon name="download" size={14} />
            {format.toUpperCase()}
          </ApiLink>
        ))}
      </header>
      <QueryState query={invoices} what="invoices" />
      {invoices.data?.length === 0 && (
        <Empty title="No amounts due for this period">
          <p>Plans define the prices:</p>
          <pre>{'plans:\n  gold: {price: {per_call: "0.0004", currency: EUR}}'}</pre>
        </Empty>
      )}
      {(invoices.data?.length ?? 0) > 1 && <Totals all={invoices.data ?? []} />}
      {invoices.data?.map((invoice) => (
        <InvoiceView key={invoice.consumer} invoice={invoice} />
      ))}
    </section>
  );
}

function Totals({ all }: { all: Invoice[] }) {
  return (
    <article className="invoice stack" aria-label="All consumers">
      <div className="row">
        <h3>All consumers</h3>
        <span className="muted">{count(all.length)} invoices, each rounded by itself</span>
      </div>
      <Table heads={["Currency", "#Exact", "#Amount due"]} label="Totals of all consumers">
        {totals(all).map((total) => (
          <tr key={total.currency} className="sum">
            <td>{total.currency}</td>
            <td className="num mono muted">{total.exact}</td>
            <td className="num">
              <Amount rounded={total.due} exact={total.exact} currency={total.currency} />
            </td>
          </tr>
        ))}
      </Table>
    </article>
  );
}
