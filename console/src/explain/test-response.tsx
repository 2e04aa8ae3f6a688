// The response to a test request.

import { Link } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { bytes, duration } from "../format/format";
import { BodyText } from "../transaction/body-view";
import { visible } from "../transaction/text";
import { Badge, Panel, Status } from "../ui/parts";

export function TestResponse({ response }: { response: Schemas["TestResponse"] }) {
  const headers = [`status ${response.status}`, ...response.headers.map((header) => `${header.name}: ${header.value}`)];
  return (
    <>
      <div className={`notice ${response.status >= 500 || response.broken ? "bad" : response.status >= 400 ? "warn" : "good"}`} role="status">
        <strong>Response</strong> <Status status={response.status} /> {response.problem && <code>{response.problem}</code>} <span>in {duration(response.took_us)}</span>
        {response.broken && <Badge tone="bad">aborted</Badge>}
        <Link to="/transactions/$id" params={{ id: response.id }} preload={false}>
          Show the transaction
        </Link>
        <span className="muted">available about a second later, when it is indexed</span>
      </div>
      <Panel title="Response" actions={<span className="muted">{bytes(response.bytes)}</span>}>
        <pre className="excerpt wrap-any" tabIndex={0} aria-label="Response head">
          {visible(headers.join("\n"))}
        </pre>
        <BodyText title="Response body" text={response.text ?? undefined} base64={response.base64 ?? undefined} cut={response.cut} />
        {response.cut && <p className="muted">Only the first MiB is shown.</p>}
      </Panel>
    </>
  );
}
