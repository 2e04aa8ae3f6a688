// A recorded body: text, hexadecimal, or an image. Only visible lines are in
// the document.

import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { bytes, count } from "../format/format";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { useSearchText } from "../url/use-search-text";
import { Badge, Copy, Loading } from "../ui/parts";
import { lineAt, type Layout, type View } from "./body-layout";
import { fromBase64, hitPattern, type Kind, spans, visible } from "./text";
import { useBodyLayout } from "./use-body-layout";

const ROW = 20;
const MAX_HEIGHT = 560;

const NAMES: Record<View, string> = { pretty: "Pretty", raw: "Raw", hex: "Hex", image: "Image" };
const NO_HITS: string[] = [];

interface Props {
  title: string;
  id: string;
  side: "request-body" | "response-body";
  body: Schemas["Body"];
  facts: Schemas["BodyMetadata"];
  /** Words of the search. */
  hits: string[];
}

/** A recorded body with its properties. */
export function BodyView({ title, id, side, body, facts, hits }: Props) {
  return (
    <BodyText
      title={title}
      text={body.text ?? undefined}
      base64={body.base64 ?? undefined}
      cut={body.cut}
      hits={hits}
      side={side.replace("-body", "")}
      head={
        <>
          <h3>Body</h3>
          <span className="muted">{bytes(facts.length)}</span>
          <Flags body={body} facts={facts} />
        </>
      }
      actions={
        facts.stored > 0 && (
          <ApiLink className="button quiet small" target={`/v1/transactions/${id}/${side}`} download={`${id}-${side}`}>
            <Icon name="download" size={15} />
            Download
          </ApiLink>
        )
      }
      why={<Why facts={facts} body={body} />}
    />
  );
}

interface TextProps {
  title: string;
  text: string | undefined;
  base64: string | undefined;
  cut: boolean;
  hits?: string[];
  /** Name of the selected view in the URL. */
  side?: string;
  head?: ReactNode;
  actions?: ReactNode;
  why?: ReactNode;
}

/** A body: text, hexadecimal, or an image. */
export function BodyText({ title, text, base64, cut, hits = NO_HITS, side = "view", head, actions, why }: TextProps) {
  const [view, setChosen] = useSearchText(side, "", true);
  const chosen = Object.hasOwn(NAMES, view) ? (view as View) : undefined;
  const shown = useBodyLayout(useMemo(() => ({ hits, ...(text ? { text } : base64 ? { base64 } : {}), isCut: cut, ...(chosen ? { view: chosen } : {}) }), [text, base64, cut, hits, chosen]));
  const picture = useMemo(() => (shown?.type && base64 ? { bytes: fromBase64(base64), type: shown.type } : undefined), [shown?.type, base64]);
  return (
    <div className="body-view">
      <div className="row body-head">
        {head}
        <span className="grow" />
        {shown &&
          shown.views.length > 1 &&
          shown.views.map((one) => (
            <button key={one} type="button" className="button small" aria-pressed={one === shown.view} onClick={() => setChosen(one)}>
              {NAMES[one]}
            </button>
          ))}
        {text && <Copy text={text} label="Copy" />}
        {actions}
      </div>
      {why}
      {!shown && <Loading what="the body" />}
      {shown?.view === "image" && picture && <Picture bytes={picture.bytes} type={picture.type} />}
      {shown && shown.lines.count > 0 && <LinesView shown={shown} hits={hits} label={title} />}
    </div>
  );
}

function Flags({ body, facts }: { body: Schemas["Body"]; facts: Schemas["BodyMetadata"] }) {
  return (
    <>
      {facts.truncated && facts.stored > 0 && <Badge tone="warn">truncated</Badge>}
      {facts.withheld && <Badge tone="warn">withheld</Badge>}
      {facts.masked && <Badge tone="info">redacted</Badge>}
      {facts.aborted && <Badge tone="bad">aborted</Badge>}
      {body.decoded_from && <Badge>decoded from {body.decoded_from}</Badge>}
      {body.cut && <Badge tone="warn">partial</Badge>}
    </>
  );
}

/** Why a recorded body is not the one that was sent, in words. */
export function bodyNotes(facts: Schemas["BodyMetadata"], body: Schemas["Body"]): string[] {
  const words: string[] = [];
  if (facts.truncated && facts.stored > 0) words.push(`${bytes(facts.stored)} of ${bytes(facts.length)} were recorded because of body_limit`);
  if (facts.withheld) words.push(`the body was withheld because it could not be redacted (${facts.withheld})`);
  if (facts.masked) words.push("values were replaced by *** before recording");
  if (facts.aborted) words.push("the body was aborted before its end");
  if (body.still_in) words.push(`the bytes are shown as sent: ${body.still_in} could not be decoded`);
  if (body.cut) words.push("the first MiB is shown; download it for all bytes");
  if (facts.length > 0 && facts.stored === 0 && !facts.withheld) words.push("the body was not recorded, or its retention has ended");
  if (facts.length === 0) words.push("there was no body");
  return words;
}

function Why({ facts, body }: { facts: Schemas["BodyMetadata"]; body: Schemas["Body"] }) {
  const words = bodyNotes(facts, body);
  return words.length > 0 ? <p className="muted body-why">{`${words.join("; ")}.`.replace(/^./, (c) => c.toUpperCase())}</p> : null;
}

function Picture({ bytes: binary, type }: { bytes: Uint8Array; type: string }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const created = URL.createObjectURL(new Blob([binary as BlobPart], { type }));
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [binary, type]);
  return (
    <figure className="picture">
      {url && <img src={url} alt="The recorded body" />}
      <figcaption className="muted">{type}</figcaption>
    </figure>
  );
}

function LinesView({ shown, hits, label }: { shown: Layout; hits: string[]; label: string }) {
  const { lines: all, found } = shown;
  const box = useRef<HTMLElement>(null);
  const rows = useVirtualizer({ count: all.count, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 20 });
  const pattern = useMemo(() => (shown.view === "hex" ? undefined : hitPattern(hits)), [hits, shown.view]);
  const [hit, setHit] = useState(0);
  useEffect(() => {
    const first = found[0];
    setHit(0);
    if (first !== undefined) rows.scrollToIndex(first, { align: "center" });
  }, [found, rows]);
  const next = (step: number) => {
    const to = (hit + step + found.length) % found.length;
    setHit(to);
    rows.scrollToIndex(found[to] ?? 0, { align: "center" });
  };
  return (
    <>
      {found.length > 0 && (
        <div className="row hit-steps">
          <span className="muted" aria-live="polite">
            Match {hit + 1} of {count(found.length)}
          </span>
          <button type="button" className="button small" onClick={() => next(-1)} disabled={found.length < 2}>
            Previous
          </button>
          <button type="button" className="button small" onClick={() => next(1)} disabled={found.length < 2}>
            Next
          </button>
        </div>
      )}
      <section ref={box} className="lines" tabIndex={0} aria-label={label} style={{ height: Math.min(MAX_HEIGHT, all.count * ROW + 18) }}>
        <div style={{ height: rows.getTotalSize(), minWidth: `calc(${all.widest}ch + 70px)` }} className="lines-inside">
          {rows.getVirtualItems().map((item) => {
            const line = lineAt(all, item.index);
            return (
              <div key={item.key} className="line" style={{ transform: `translateY(${item.start}px)` }}>
                <span className="line-number" aria-hidden="true">
                  {line.number ?? "↳"}
                </span>
                <Painted line={visible(line.text)} kind={shown.view === "hex" ? "text" : shown.kind} hits={pattern} />
              </div>
            );
          })}
        </div>
      </section>
    </>
  );
}

function Painted({ line, kind, hits }: { line: string; kind: Kind; hits: RegExp | undefined }) {
  return (
    <bdo dir="ltr">
      {spans(line, kind, hits).map((span, index) =>
        span.isHit ? (
          <mark key={index}>{span.text}</mark>
        ) : (
          <span key={index} className={span.kind ? `t-${span.kind}` : undefined}>
            {span.text}
          </span>
        ),
      )}
    </bdo>
  );
}
