// The answer to a request that was tried.

import { Link } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { bytes, duration } from "../format/format";
import { BodyText } from "../transaction/body-view";
import { visible } from "../transaction/text";
import { Badge, Panel, Status } from "../ui/parts";

export function Tried({ answer }: { answer: Schemas["TriedAnswer"] }) {
  const headers = [`status ${answer.status}`, ...answer.headers.map((header) => `${header.name}: ${header.value}`)];
  return (
    <>
      <div className={`notice ${answer.status >= 500 || answer.broken ? "bad" : answer.status >= 400 ? "warn" : "good"}`} role="status">
        <strong>Answered</strong> <Status status={answer.status} /> {answer.problem && <code>{answer.problem}</code>} <span>in {duration(answer.took_us)}</span>
        {answer.broken && <Badge tone="bad">broken off</Badge>}
        <Link to="/transactions/$id" params={{ id: answer.id }} preload={false}>
          Its transaction
        </Link>
        <span className="muted">as soon as it is indexed, about a second later</span>
      </div>
      <Panel title="Answer" actions={<span className="muted">{bytes(answer.bytes)}</span>}>
        <pre className="excerpt wrap-any" tabIndex={0} aria-label="Head of the answer">
          {visible(headers.join("\n"))}
        </pre>
        <BodyText title="Body of the answer" text={answer.text ?? undefined} base64={answer.base64 ?? undefined} cut={answer.cut} />
        {answer.cut && <p className="muted">Its first MiB is shown.</p>}
      </Panel>
    </>
  );
}
