// The name of something that has transactions: a link to its page, and one to the transactions.

import { Link } from "@tanstack/react-router";
import { quoted } from "../query/fields";
import { visible } from "../transaction/text";
import { Icon } from "../ui/icons";

/** What has a page of its own, by the field of the query language. */
export const KINDS = {
  api: "API",
  operation: "Route",
  consumer: "Consumer",
  plan: "Plan",
  principal: "Principal",
  client: "Client",
  upstream: "Upstream",
  upstream_target: "Target",
  problem: "Problem",
  detail: "Limit or rule",
  status: "Status",
  configuration: "Configuration",
} as const;
export type Kind = keyof typeof KINDS;

/** The term of the query language for it. */
export function termOf(kind: Kind, name: string): string {
  return `${kind}:${kind === "status" ? name : quoted(name)}`;
}

/** The detail of transactions that a limit has rejected. */
export function exhausted(limit: string): string {
  return `limit "${limit}" is exhausted`;
}

/** `within`: a query of the page that names it. Routes of several APIs may have one name. `label` is shown in place of the name. */
export function Named({ kind, name, within = "", label = name }: { kind: Kind; name: string; within?: string; label?: string }) {
  if (!name) return null;
  const term = termOf(kind, name);
  return (
    <span className="named">
      <Link to="/traffic/$kind/$name" params={{ kind, name }} search={(kind === "operation" && within ? { within } : {}) as never} preload={false}>
        {visible(label)}
      </Link>
      <Link to="/tracker" search={{ q: within ? `${within} ${term}` : term }} preload={false} className="matching" aria-label={`Transactions of ${KINDS[kind]} ${name}`} title="Matching transactions">
        <Icon name="tracker" size={13} />
      </Link>
    </span>
  );
}

/** The cells of a table that name a target of an upstream. */
export function TargetCells({ upstream, target }: { upstream: string; target: string }) {
  return (
    <>
      <td>
        <Named kind="upstream" name={upstream} />
      </td>
      <td className="mono">
        <Named kind="upstream_target" name={target} within={termOf("upstream", upstream)} />
      </td>
    </>
  );
}
