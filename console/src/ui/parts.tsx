// Small components: badges, notices, empty states, copy buttons, times.

import { type ReactNode, useState } from "react";
import { ApiProblem } from "../api/client";
import { ago, clock, day, full } from "../format/format";
import { useZone } from "../time/zone";
import { Icon } from "./icons";

export function Badge({ tone = "", children }: { tone?: string; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>;
}

export function statusTone(status: number): string {
  if (status === 0 || status >= 500) return "bad";
  if (status >= 400) return "warn";
  return status >= 200 && status < 300 ? "good" : "info";
}

export function Status({ status }: { status: number }) {
  return <Badge tone={statusTone(status)}>{status === 0 ? "none" : status}</Badge>;
}

export const STATE_TONE: Record<string, string> = {
  completed: "good",
  failed: "bad",
  interrupted: "bad",
  open: "bad",
  resubmitted: "good",
  resolved: "good",
  dismissed: "",
  succeeded: "good",
  refused: "warn",
  unknown: "warn",
  sending: "info",
  running: "info",
  previewing: "info",
  previewed: "warn",
  paused: "warn",
  finished: "good",
  cancelled: "",
  aborted: "warn",
  live: "good",
  draining: "info",
  down: "bad",
  retired: "",
  lost: "bad",
};

export function State({ state }: { state: string }) {
  return <Badge tone={STATE_TONE[state] ?? ""}>{state}</Badge>;
}

/** An error with its remedy. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const known = error instanceof ApiProblem ? error : undefined;
  return (
    <div className="notice bad" role="alert">
      <strong>{known?.title ?? "Error in the console"}</strong>
      <span className="wrap-any">{known ? known.detail : String(error)}</span>
      {retry && (
        <button type="button" className="button small" onClick={retry}>
          Retry
        </button>
      )}
    </div>
  );
}

/** An empty state, with a hint. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

/** A panel with an empty state. */
export function EmptyPanel(props: { title: string; children?: ReactNode }) {
  return (
    <section className="panel">
      <Empty {...props} />
    </section>
  );
}

/** Warnings, if there are any. */
export function Reasons({ all }: { all: string[] }) {
  if (all.length === 0) return null;
  return (
    <ul className="notice warn stack">
      {all.map((one) => (
        <li key={one} className="wrap-any">
          {one}
        </li>
      ))}
    </ul>
  );
}

/** Names and figures; the third value marks a bad one. */
export function Numbers({ all }: { all: [string, string, boolean][] }) {
  return (
    <dl className="numbers">
      {all.map(([name, value, isBad]) => (
        <div key={name} className={isBad ? "bad" : ""}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="empty" role="status">
      <span className="spinner" aria-hidden="true" />
      Loading {what}…
    </div>
  );
}

/** The state of a query without data. */
export function QueryState({ query, what }: { query: { isPending: boolean; isError: boolean; error: unknown; refetch: () => unknown }; what: string }) {
  if (query.isPending) return <Loading what={what} />;
  return query.isError ? <Failure error={query.error} retry={() => void query.refetch()} /> : null;
}

/**
 * A table. `#` begins the heading of a column of numbers; a heading in parentheses is for screen readers only.
 * A label is for a table without links and buttons: keys then scroll it where the screen is narrow.
 */
export function Table({ heads, label, children }: { heads: string[]; label?: string; children: ReactNode }) {
  const scrolled = label === undefined ? {} : { tabIndex: 0, role: "region", "aria-label": label };
  return (
    <div className="table-box" {...scrolled}>
      <table className="data">
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} className={head.startsWith("#") ? "num" : undefined}>
                {head.startsWith("(") ? <span className="sr-only">{head.slice(1, -1)}</span> : head.replace(/^#/, "")}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A time in the zone in force; the title has day and zone. */
export function Time({ at, style = "clock" }: { at: string; style?: "clock" | "full" | "ago" | "day" }) {
  useZone();
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <span>{at}</span>;
  const today = day(date) === day(new Date());
  const text = {
    clock: () => (today ? clock(date) : `${day(date).slice(5)} ${clock(date)}`),
    full: () => full(date),
    ago: () => ago(date, new Date()),
    day: () => `${day(date)} ${clock(date, false)}`,
  }[style]();
  return (
    <time dateTime={at} title={full(date)} className="nowrap">
      {text}
    </time>
  );
}

export function Copy({ text, label, small = true }: { text: string; label: string; small?: boolean }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" className={`button quiet ${small ? "small" : ""}`} onClick={() => void copy()}>
      <Icon name="copy" size={15} />
      <span aria-live="polite">{done ? "Copied" : label}</span>
    </button>
  );
}

export function Panel({ title, actions, children, inside = true }: { title: ReactNode; actions?: ReactNode; children: ReactNode; inside?: boolean }) {
  return (
    <section className="panel">
      <header>
        <h2>{title}</h2>
        {actions}
      </header>
      {inside ? <div className="inside">{children}</div> : children}
    </section>
  );
}

/** A share as a bar. */
export function Bar({ part, whole, tone = "", label }: { part: number; whole: number; tone?: string; label: string }) {
  const share = whole > 0 ? Math.min(1, Math.max(0, part / whole)) : 0;
  return (
    <div className={`bar ${tone}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={whole} aria-valuenow={part}>
      <i style={{ width: `${share * 100}%` }} />
    </div>
  );
}
