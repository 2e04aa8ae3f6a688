// Two bodies: JSON by path, other text by line, anything else by size and hash.

import { useEffect, useMemo, useState } from "react";
import type { Schemas } from "../api/client";
import { bytes, count } from "../format/format";
import { bodyNotes } from "../transaction/body-view";
import { diff, type DiffLine, linesOf } from "../transaction/diff";
import { Diff, Part } from "../transaction/diff-view";
import { fromBase64, prettyJson, prettyXml } from "../transaction/text";
import { Badge, Panel, Table } from "../ui/parts";
import { compareJson, type PathChange } from "./json";

interface Recorded {
  body: Schemas["Body"];
  facts: Schemas["BodyMetadata"];
}

/** Most changes that are shown by path, and most lines. */
const MAX_CHANGES = 500;
const MAX_LINES = 5000;

export function CompareBodies({ title, a, b }: { title: string; a: Recorded; b: Recorded }) {
  const notes = [...notesOf("first", a), ...notesOf("second", b)];
  return (
    <Panel title={title} actions={<span className="muted">{`${bytes(a.facts.length)}, then ${bytes(b.facts.length)}`}</span>}>
      <div className="stack">
        {notes.map((note) => (
          <p key={note} className="notice warn thin">
            {note}
          </p>
        ))}
        <Content title={title} a={a} b={b} />
      </div>
    </Panel>
  );
}

/** What keeps the comparison from being one of the complete bodies. */
function notesOf(name: string, { body, facts }: Recorded): string[] {
  if (facts.length === 0) return [];
  return bodyNotes(facts, body).map((note) => `Of the ${name} transaction: ${note}.`);
}

const isMissing = ({ body, facts }: Recorded) => facts.length > 0 && !body.text && !body.base64;

function Content({ title, a, b }: { title: string; a: Recorded; b: Recorded }) {
  if (a.facts.length === 0 && b.facts.length === 0) return <p className="muted">Neither has a body.</p>;
  if (isMissing(a) || isMissing(b)) return <p className="muted">The bodies cannot be compared: {isMissing(a) && isMissing(b) ? "neither is" : "one of them is not"} recorded.</p>;
  if (a.body.base64 || b.body.base64) return <Binary a={a} b={b} />;
  return <Text title={title} before={a.body.text ?? ""} after={b.body.text ?? ""} />;
}

function Text({ title, before, after }: { title: string; before: string; after: string }) {
  const changes = useMemo(() => compareJson(before, after), [before, after]);
  if (before === after) return <p className="muted">The bodies are equal.</p>;
  if (changes && changes.length > 0) return <Paths title={title} changes={changes} />;
  return (
    <>
      {changes && <p className="muted">No value differs; the texts do, such as in spaces, the order of members or the way numbers are written.</p>}
      <Lines title={title} before={before} after={after} />
    </>
  );
}

function Lines({ title, before, after }: { title: string; before: string; after: string }) {
  const lines = useMemo(() => {
    const pretty = (text: string) => prettyJson(text) ?? prettyXml(text);
    const [a, b] = [pretty(before), pretty(after)];
    return linesOf(a !== undefined && b !== undefined && a !== b ? diff(a, b) : diff(before, after));
  }, [before, after]);
  const differing = (all: DiffLine[]) => all.filter((line) => line.kind === "removed" || line.kind === "added").length;
  const hidden = differing(lines.slice(MAX_LINES));
  return (
    <>
      <Diff lines={lines.slice(0, MAX_LINES)} label={`Differences of lines, ${title}`} />
      <p className="muted">
        {count(differing(lines))} lines differ{hidden > 0 && `; the last ${count(hidden)} of them are not shown`}.
      </p>
    </>
  );
}

const TONES = { added: "good", removed: "bad", changed: "warn", moved: "info" };

function Paths({ title, changes }: { title: string; changes: PathChange[] }) {
  const more = changes.length - MAX_CHANGES;
  return (
    <>
      <Table heads={["Path", "(Change)", "First", "Second"]} label={`Differences by path, ${title}`}>
        {changes.slice(0, MAX_CHANGES).map((change, at) => (
          <tr key={at}>
            <td className="mono wrap-any">
              <Part text={change.path} other={undefined} most={MAX_VALUE} />
            </td>
            <td>
              <Badge tone={TONES[change.kind]}>{change.kind}</Badge>
            </td>
            <td className="mono wrap-any">{"before" in change && <Value value={change.before} other={change.after} />}</td>
            <td className="mono wrap-any">{"after" in change && <Value value={change.after} other={change.before} />}</td>
          </tr>
        ))}
      </Table>
      {more > 0 && <p className="muted">{count(more)} more values differ.</p>}
    </>
  );
}

const MAX_VALUE = 500;

function Value({ value, other }: { value: unknown; other: unknown }) {
  return (
    <bdo dir="ltr">
      <Part text={JSON.stringify(value) ?? ""} other={JSON.stringify(other)} most={MAX_VALUE} />
    </bdo>
  );
}

function Binary({ a, b }: { a: Recorded; b: Recorded }) {
  const [before, after] = useMemo(() => [bytesOf(a), bytesOf(b)], [a, b]);
  const isEqual = before.length === after.length && before.every((byte, at) => byte === after[at]);
  return (
    <>
      <p className="muted">
        {isEqual ? "The bodies are equal" : "The bodies differ"}
        {a.body.cut || b.body.cut ? " in the part that is compared, the first MiB" : ""}.
      </p>
      <Table heads={["(Body)", "#Size", "SHA-256"]} label="Sizes and hashes">
        {([["First", a, before], ["Second", b, after]] as const).map(([name, recorded, binary]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td className="num">{bytes(recorded.facts.length)}</td>
            <td className="mono wrap-any">{recorded.body.cut ? "not of a part" : <Hash binary={binary} />}</td>
          </tr>
        ))}
      </Table>
    </>
  );
}

function bytesOf({ body }: Recorded): Uint8Array {
  return body.base64 ? fromBase64(body.base64) : new TextEncoder().encode(body.text ?? "");
}

function Hash({ binary }: { binary: Uint8Array }) {
  const [hash, setHash] = useState("…");
  useEffect(() => {
    let isShown = true;
    // Browsers offer it to secure origins only.
    if (!globalThis.crypto?.subtle) return setHash("needs HTTPS");
    void crypto.subtle.digest("SHA-256", binary as BufferSource).then((digest) => {
      if (isShown) setHash([...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
    });
    return () => {
      isShown = false;
    };
  }, [binary]);
  return hash;
}
