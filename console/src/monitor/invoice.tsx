// An invoice: lines, tiers, totals, and what is not billed, each with its transactions.

import { Link } from "@tanstack/react-router";
import { UnreportedNodes } from "../fleet/choice";
import { count } from "../format/format";
import { Named } from "../traffic/named";
import { Icon } from "../ui/icons";
import { Amount, Amounts } from "../ui/money";
import { Badge, Table, Time } from "../ui/parts";
import { evidence, type Invoice } from "./billing";

export function InvoiceView({ invoice }: { invoice: Invoice }) {
  return (
    <article className="invoice stack" aria-label={`Invoice of ${invoice.consumer}`}>
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
      <Lines invoice={invoice} />
      <Unbilled invoice={invoice} />
    </article>
  );
}

function Lines({ invoice }: { invoice: Invoice }) {
  return (
    <Table heads={["Plan", "API", "Operation", "#Calls", "#Exact", "#Amount", "(Transactions)"]}>
      {invoice.lines.map((line) => (
        <tr key={`${line.plan} ${line.api} ${line.operation}`}>
          <td>{line.plan}</td>
          <td>{line.api}</td>
          <td className="wrap-any">{line.operation}</td>
          <td className="num">{count(line.calls)}</td>
          <AmountCells invoice={invoice} line={line} />
        </tr>
      ))}
      {invoice.tiers.map((tier) => (
        <tr key={`${tier.plan} ${tier.first}`}>
          <td>{tier.plan}</td>
          <td colSpan={2}>
            calls {count(tier.first)} to {count(tier.last)}, {tier.per_call} per call
          </td>
          <td className="num">{count(tier.last - tier.first + 1)}</td>
          <td className="num mono muted">{tier.amount}</td>
          <td className="num">
            <Amount rounded={tier.rounded ?? tier.amount} exact={tier.amount} currency={tier.currency} />
          </td>
          <td />
        </tr>
      ))}
      {invoice.totals.map((total) => (
        <tr key={total.currency} className="sum">
          <td colSpan={4}>Amount due: the exact sum, rounded once</td>
          <td className="num mono">{total.exact}</td>
          <td className="num">
            <Amount rounded={total.due} exact={total.exact} currency={total.currency} />
          </td>
          <td />
        </tr>
      ))}
    </Table>
  );
}

/** What weir itself has rejected or failed, and what it would have cost. */
function Unbilled({ invoice }: { invoice: Invoice }) {
  const { lines, tiers, totals } = invoice.unbilled ?? { lines: [], tiers: [], totals: [] };
  if (lines.length === 0) return null;
  return (
    <>
      <h4>Not billed: weir itself rejected or failed these calls</h4>
      <Table heads={["Plan", "API", "Operation", "Status", "#Calls", "#Exact", "#Would have cost", "(Transactions)"]}>
        {lines.map((line) => (
          <tr key={`${line.plan} ${line.api} ${line.operation} ${line.status}`}>
            <td>{line.plan}</td>
            <td>{line.api}</td>
            <td className="wrap-any">{line.operation}</td>
            <td>{line.status}</td>
            <td className="num">{count(line.calls)}</td>
            <AmountCells invoice={invoice} line={line} />
          </tr>
        ))}
        {tiers.map((tier) => (
          <tr key={tier.plan}>
            <td>{tier.plan}</td>
            <td colSpan={3}>by its tiers</td>
            <td className="num">{count(tier.calls)}</td>
            <td className="num mono muted">{tier.amount}</td>
            <td className="num">
              <Amount rounded={tier.rounded ?? tier.amount} exact={tier.amount} currency={tier.currency} />
            </td>
            <td />
          </tr>
        ))}
        <tr className="sum">
          <td colSpan={4}>Not billed in all</td>
          <td className="num">{count(lines.reduce((sum, line) => sum + line.calls, 0))}</td>
          <td />
          <td className="num">
            <Amounts all={totals} />
          </td>
          <td />
        </tr>
      </Table>
    </>
  );
}

/** Exact and rounded amount of a line, and its transactions. */
function AmountCells({ invoice, line }: { invoice: Invoice; line: { plan: string; api: string; operation: string; status?: number; amount: string; rounded?: string; currency: string; gateway_errors?: boolean } }) {
  return (
    <>
      <td className="num mono muted">{line.amount}</td>
      <td className="num">
        <Amount rounded={line.rounded ?? line.amount} exact={line.amount} currency={line.currency} />
      </td>
      <td>
        <Evidence invoice={invoice} line={line} />
      </td>
    </>
  );
}

function Evidence({ invoice, line }: { invoice: Invoice; line: { plan: string; api: string; operation: string; status?: number; gateway_errors?: boolean } }) {
  const q = evidence(invoice, line);
  if (!q) return null;
  const label = `Transactions of ${line.api} ${line.operation}${line.status ? ` with ${line.status}` : ""}`;
  return (
    <Link to="/tracker" search={{ q, range: undefined, from: invoice.from, to: invoice.to } as never} preload={false} className="matching no-print" aria-label={label} title="Matching transactions">
      <Icon name="tracker" size={13} />
    </Link>
  );
}
