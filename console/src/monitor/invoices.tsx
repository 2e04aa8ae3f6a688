// Invoices: display, print, download.

import { useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { useSession } from "../api/session";
import { NodeChoice, UnreportedNodes } from "../fleet/choice";
import { count } from "../format/format";
import { Named } from "../traffic/named";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { Badge, Empty, Failure, Loading, Table, Time } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { MeteringOff } from "./metering-off";

type Invoice = Schemas["Invoice"];

export function Invoices() {
  const session = useSession();
  const [period, setPeriod] = useSearchText("period", new Date().toISOString().slice(0, 7), true);
  const [zone, setZone] = useSearchText("zone", "UTC", true);
  const [node, setNode] = useSearchText("node");
  const query = { period, zone, ...(node ? { node } : {}) };
  const isPeriod = /^\d{4}(-\d{2}){0,2}$/.test(period);
  const invoices = useQuery({
    queryKey: ["invoices", query],
    queryFn: () => data<Invoice[]>(api.GET("/v1/invoices", { params: { query } })),
    enabled: isPeriod && (session?.counting ?? false),
    retry: false,
  });
  if (session && !session.counting) return <MeteringOff />;
  const href = (format: string) => `/v1/invoices?${new URLSearchParams({ ...query, format })}`;
  return (
    <section className="panel">
      <header className="no-print">
        <h2>Invoices</h2>
        <label className="row">
          Period
          <input value={period} className="short" placeholder="2026-11" aria-invalid={!isPeriod} onChange={(event) => setPeriod(event.target.value.trim())} />
        </label>
        <label className="row">
          Time zone
          <input value={zone} size={14} onChange={(event) => setZone(event.target.value.trim())} />
        </label>
        <NodeChoice node={node} onChange={setNode} />
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
      {!isPeriod && <p className="inside muted">A period is a month (2026-11), a year (2026) or a day (2026-11-21).</p>}
      {invoices.isError && (
        <div className="inside">
          <Failure error={invoices.error} />
        </div>
      )}
      {invoices.isLoading && <Loading what="invoices" />}
      {invoices.data?.length === 0 && (
        <Empty title="No amounts due for this period">
          <p>Plans define the prices:</p>
          <pre>{'plans:\n  gold: {price: {per_call: "0.0004", currency: EUR}}'}</pre>
        </Empty>
      )}
      {invoices.data?.map((invoice) => (
        <One key={invoice.consumer} invoice={invoice} />
      ))}
    </section>
  );
}

function One({ invoice }: { invoice: Invoice }) {
  return (
    <article className="invoice stack">
      <div className="row">
        <h3 className="wrap-any">
          <Named kind="consumer" name={invoice.consumer} />
        </h3>
        {invoice.provisional && <Badge tone="warn">provisional</Badge>}
        <span className="muted">
          {invoice.period} ({invoice.zone}), from <Time at={invoice.from} style="full" /> to <Time at={invoice.to} style="full" />
        </span>
      </div>
      {(invoice.uncounted ?? 0) > 0 && <p className="notice warn thin">{count(invoice.uncounted ?? 0)} calls of all consumers in the period could not be metered and are in no invoice.</p>}
      <UnreportedNodes all={invoice.unreported} />
      <Table heads={["Plan", "API", "Operation", "#Calls", "#Amount"]}>
        {invoice.lines.map((line) => (
          <tr key={`${line.plan} ${line.api} ${line.operation}`}>
            <td>{line.plan}</td>
            <td>{line.api}</td>
            <td className="wrap-any">{line.operation}</td>
            <td className="num">{count(line.calls)}</td>
            <td className="num mono">
              {line.amount} {line.currency}
            </td>
          </tr>
        ))}
        {invoice.tiers.map((tier) => (
          <tr key={`${tier.plan} ${tier.first}`}>
            <td>{tier.plan}</td>
            <td colSpan={2}>
              calls {count(tier.first)} to {count(tier.last)}, {tier.per_call} per call
            </td>
            <td className="num">{count(tier.last - tier.first + 1)}</td>
            <td className="num mono">
              {tier.amount} {tier.currency}
            </td>
          </tr>
        ))}
        {invoice.totals.map((total) => (
          <tr key={total.currency} className="sum">
            <td colSpan={4}>Amount due</td>
            <td className="num mono">
              {total.due} {total.currency}
            </td>
          </tr>
        ))}
      </Table>
    </article>
  );
}
