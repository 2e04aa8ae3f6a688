// What is wrong now, at the top of every page: each condition links to its remedy.

import { Link, type LinkProps } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { useMay } from "../api/session";
import { useLive } from "../overview/live";
import { Icon } from "../ui/icons";

type Condition = Schemas["Condition"];

/** Shown before the list is opened. */
const SHOWN = 3;

export function StatusStrip() {
  const { pulse } = useLive();
  const all = pulse?.conditions ?? [];
  if (all.length === 0) return null;
  const rest = all.slice(SHOWN);
  return (
    <div className={`status-strip ${all.some((one) => one.is_severe) ? "bad" : "warn"}`} role="status" aria-label="Status">
      <ul>
        {all.slice(0, SHOWN).map((one) => (
          <Line key={one.message} condition={one} />
        ))}
      </ul>
      {rest.length > 0 && (
        <details>
          <summary>{rest.length} more</summary>
          <ul>
            {rest.map((one) => (
              <Line key={one.message} condition={one} />
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function Line({ condition }: { condition: Condition }) {
  const mayConfigure = useMay("operator");
  const remedy = remedyOf(condition, mayConfigure);
  return (
    <li data-condition={condition.code}>
      <Icon name={condition.is_severe ? "error" : "warning"} size={15} />
      <span className="wrap-any">{condition.message}</span>
      {remedy && (
        <Link {...remedy.link} preload={false}>
          {remedy.label}
        </Link>
      )}
    </li>
  );
}

/** Where the condition is examined or ended. */
function remedyOf(condition: Condition, mayConfigure: boolean): { link: LinkProps; label: string } | undefined {
  switch (condition.code) {
    case "target-ejected":
      return { link: { to: "/traffic/$kind/$name", params: { kind: "upstream", name: condition.subject ?? "" } } as LinkProps, label: "Its traffic" };
    case "api-key-expires":
      return { link: { to: "/traffic/$kind/$name", params: { kind: "consumer", name: condition.subject ?? "" } } as LinkProps, label: "Its credentials" };
    case "index-lag":
    case "records-missing":
      return { link: { to: "/" }, label: "Journal and index" };
    case "calls-uncounted":
      return { link: { to: "/monitor" }, label: "Usage" };
    case "disk-budget":
    case "certificate-expires":
    case "configuration-rejected":
      return mayConfigure ? { link: { to: "/configuration" }, label: "Configuration" } : undefined;
    case "fleet":
      return { link: { to: "/fleet" }, label: "Fleet" };
  }
}
