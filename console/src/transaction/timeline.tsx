// Durations by stage, history and resubmissions.

import { Link } from "@tanstack/react-router";
import type { Transaction } from "../api/client";
import { duration } from "../format/format";
import { Named } from "../traffic/named";
import { Panel, State, Status, Table, Time } from "../ui/parts";
import { position } from "./stages";

const NAMES: Record<string, string> = {
  auth: "Routing and authentication",
  limit: "Plans and limits",
  "request-map": "Request map",
  connect: "Connection to the upstream",
  "first-byte": "Time to first byte",
  "response-map": "Response map",
  answer: "Response",
};

export function Waterfall({ transaction }: { transaction: Transaction }) {
  const total = transaction.stages.find((stage) => stage.name === "total")?.took_us ?? transaction.took_us;
  const whole = Math.max(total, 1);
  const all = position(transaction.stages, total);
  return (
    <Panel title="Durations" actions={<strong>{duration(total)}</strong>}>
      <ol className="waterfall">
        {all.map((stage) => (
          <li key={stage.name}>
            <span className="cut">{NAMES[stage.name] ?? stage.name}</span>
            <span className="waterfall-track" aria-hidden="true">
              <i style={{ left: `${(100 * stage.from) / whole}%`, width: `${Math.max(0.6, (100 * Math.min(stage.took_us, whole)) / whole)}%` }} />
            </span>
            <span className="num">{duration(stage.took_us)}</span>
          </li>
        ))}
        {all.length === 0 && <li className="muted">Only the total was measured.</li>}
      </ol>
    </Panel>
  );
}

export function History({ transaction }: { transaction: Transaction }) {
  return (
    <Panel title="History">
      <ol className="history">
        {transaction.history.map((change, index) => (
          <li key={`${index}${change.state}`}>
            <State state={change.state} /> {change.time ? <Time at={change.time} style="full" /> : <span className="muted">at the end of weir</span>}
            {change.who && <> by {change.who}</>}
            {change.comment && <p className="wrap-any">{change.comment}</p>}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/** Attempts at targets of the upstream that gave the client no response, and the one that did. */
export function UpstreamAttempts({ transaction }: { transaction: Transaction }) {
  const attempts = transaction.upstream_attempts ?? [];
  if (attempts.length === 0) return null;
  return (
    <Panel title="Attempts at targets" inside={false}>
      <Table heads={["Target", "#After", "#Duration", "Status", "Outcome"]}>
        {attempts.map((attempt, at) => (
          <tr key={at}>
            <td className="mono">
              <Named kind="upstream_target" name={attempt.target} />
            </td>
            <td className="num">{duration(attempt.started_us)}</td>
            <td className="num">{duration(attempt.took_us)}</td>
            <td>{attempt.status > 0 ? <Status status={attempt.status} /> : "–"}</td>
            <td>{attempt.error || "not passed on"}</td>
          </tr>
        ))}
        {transaction.upstream_target && !transaction.problem && (
          <tr>
            <td className="mono">
              <Named kind="upstream_target" name={transaction.upstream_target} />
            </td>
            <td />
            <td />
            <td>
              <Status status={transaction.status} />
            </td>
            <td>the response of the client</td>
          </tr>
        )}
      </Table>
    </Panel>
  );
}

export function Attempts({ transaction }: { transaction: Transaction }) {
  const attempts = transaction.attempts ?? [];
  if (attempts.length === 0) return null;
  return (
    <Panel title="Resubmissions" inside={false}>
      <Table heads={["No.", "State", "Status", "By", "Started", "Transaction"]}>
        {attempts.map((attempt) => (
          <tr key={attempt.id}>
            <td>{attempt.number}</td>
            <td className="wrap-any">
              <State state={attempt.state} />
              {attempt.words || attempt.reason ? <p className="muted">{attempt.words || attempt.reason}</p> : null}
            </td>
            <td>{attempt.status > 0 ? <Status status={attempt.status} /> : "–"}</td>
            <td className="wrap-any">
              {attempt.who}
              {attempt.job != null && (
                <>
                  {" "}
                  <Link to="/jobs/$number" params={{ number: String(attempt.job) }}>
                    job {attempt.job}
                  </Link>
                </>
              )}
            </td>
            <td>
              <Time at={attempt.began} style="day" />
            </td>
            <td>
              {attempt.state === "refused" ? (
                "–"
              ) : (
                <Link to="/transactions/$id" params={{ id: attempt.id }} preload={false} className="mono nowrap">
                  …{attempt.id.slice(-12)}
                </Link>
              )}
              {(attempt.state === "succeeded" || attempt.state === "failed") && (
                <>
                  {" "}
                  <Link to="/compare" search={{ a: transaction.id, b: attempt.id } as never} preload={false} aria-label={`Compare with attempt ${attempt.number}`}>
                    Compare
                  </Link>
                </>
              )}
              {attempt.difference != null && <p className="muted">edited</p>}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
