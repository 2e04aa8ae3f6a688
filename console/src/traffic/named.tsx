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
  pool: "Pool",
  node: "Node",
} as const;
export type Kind = keyof typeof KINDS;

/** Fields of the query language with another name. A node has no term: it is a parameter of queries. */
const FIELDS: Partial<Record<Kind, string>> = { pool: "upstream" };

/** The term of the query language for it; empty for a node. */
export function termOf(kind: Kind, name: string): string {
  if (kind === "node") return "";
  return `${FIELDS[kind] ?? kind}:${kind === "status" ? name : quoted(name)}`;
}

/** The detail of transactions that a limit has rejected. */
export function exhausted(limit: string): string {
  return `limit "${limit}" is exhausted`;
}

interface Props {
  kind: Kind;
  name: string;
  /** A query of the page that names it. Routes of several APIs may have one name. */
  within?: string;
  /** The node of the fleet that the page is about. */
  node?: string;
  /** Shown in place of the name. */
  label?: string;
}

export function Named({ kind, name, within = "", node = kind === "node" ? name : "", label = name }: Props) {
  if (!name) return null;
  const query = [within, termOf(kind, name)].filter(Boolean).join(" ");
  const of = node && { node };
  return (
    <span className="named">
      <Link to="/traffic/$kind/$name" params={{ kind, name }} search={{ ...(kind === "operation" && within && { within }), ...(kind !== "node" && of) } as never} preload={false}>
        {visible(label)}
      </Link>
      <Link to="/tracker" search={{ ...(query && { q: query }), ...of } as never} preload={false} className="matching" aria-label={`Transactions of ${KINDS[kind]} ${name}`} title="Matching transactions">
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
