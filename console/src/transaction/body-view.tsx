// A recorded body, as data: text, hexadecimal, or a picture. Only the lines that are seen are in
// the document.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Schemas } from "../api/client";
import { bytes, count } from "../format/format";
import { Icon } from "../ui/icons";
import { Badge, Copy } from "../ui/parts";
import { fromBase64, hexLines, imageType, type Kind, type Line, lines, pieces, prettyJson, prettyXml, visible } from "./text";

const ROW = 20;
const MOST_HEIGHT = 560;

type View = "pretty" | "raw" | "hex" | "image";
const NAMES: Record<View, string> = { pretty: "Pretty", raw: "Raw", hex: "Hex", image: "Image" };

interface Props {
  title: string;
  id: string;
  side: "request-body" | "response-body";
  body: Schemas["Body"];
  facts: Schemas["BodyFacts"];
  hits: RegExp | undefined;
}

export function BodyView({ title, id, side, body, facts, hits }: Props) {
  const shown = useShown(body);
  const [chosen, setChosen] = useState<View>();
  const view = chosen && shown.views.includes(chosen) ? chosen : shown.views[0];
  const all = useMemo(() => (view && view !== "image" ? shown.lines(view) : []), [shown, view]);
  return (
    <div className="body-view">
      <div className="row body-head">
        <h3>Body</h3>
        <span className="muted">{bytes(facts.length)}</span>
        <Flags body={body} facts={facts} />
        <span className="grow" />
        {shown.views.length > 1 &&
          shown.views.map((one) => (
            <button key={one} type="button" className="button small" aria-pressed={one === view} onClick={() => setChosen(one)}>
              {NAMES[one]}
            </button>
          ))}
        {body.text != null && body.text !== "" && <Copy text={body.text} label="Copy" />}
        {facts.stored > 0 && (
          <a className="button quiet small" href={`/v1/transactions/${id}/${side}`} download={`${id}-${side}`}>
            <Icon name="download" size={15} />
            Bytes
          </a>
        )}
      </div>
      <Why facts={facts} body={body} />
      {view === "image" && shown.image && <Picture bytes={shown.image.bytes} type={shown.image.type} />}
      {all.length > 0 && <Lines all={all} kind={view === "hex" ? "text" : shown.kind} hits={view === "hex" ? undefined : hits} label={title} />}
    </div>
  );
}

interface Shown {
  views: View[];
  kind: Kind;
  lines: (view: View) => Line[];
  image?: { bytes: Uint8Array; type: string };
}

const NOTHING: Shown = { views: [], kind: "text", lines: () => [] };
/** A body that is longer is set out in a task of its own. */
const SHORT = 100_000;

function useShown(body: Schemas["Body"]): Shown {
  const isShort = (body.text ?? body.base64 ?? "").length < SHORT;
  const now = useMemo(() => (isShort ? read(body) : undefined), [body, isShort]);
  const [later, setLater] = useState<Shown>();
  useEffect(() => {
    if (isShort) return;
    const timer = setTimeout(() => setLater(read(body)), 20);
    return () => clearTimeout(timer);
  }, [body, isShort]);
  return now ?? later ?? NOTHING;
}

function read(body: Schemas["Body"]): Shown {
  if (body.text != null && body.text !== "") {
    const { text } = body;
    const json = prettyJson(text);
    const pretty = json ?? prettyXml(text);
    const kind: Kind = json !== undefined ? "json" : pretty !== undefined ? "xml" : "text";
    const hex = () => hexLines(new TextEncoder().encode(text));
    const views: View[] = pretty === undefined ? ["raw", "hex"] : ["pretty", "raw", "hex"];
    return { views, kind, lines: (view) => (view === "hex" ? hex() : lines(view === "pretty" ? (pretty ?? text) : text)) };
  }
  if (body.base64) {
    const binary = fromBase64(body.base64);
    const type = body.cut ? undefined : imageType(binary);
    const shown: Shown = { views: type ? ["image", "hex"] : ["hex"], kind: "text", lines: () => hexLines(binary) };
    return type ? { ...shown, image: { bytes: binary, type } } : shown;
  }
  return NOTHING;
}

function Flags({ body, facts }: { body: Schemas["Body"]; facts: Schemas["BodyFacts"] }) {
  return (
    <>
      {facts.truncated && facts.stored > 0 && <Badge tone="warn">truncated</Badge>}
      {facts.withheld && <Badge tone="warn">withheld</Badge>}
      {facts.masked && <Badge tone="info">masked</Badge>}
      {facts.aborted && <Badge tone="bad">broken off</Badge>}
      {body.decoded_from && <Badge>was {body.decoded_from}</Badge>}
      {body.cut && <Badge tone="warn">cut</Badge>}
    </>
  );
}

function Why({ facts, body }: { facts: Schemas["BodyFacts"]; body: Schemas["Body"] }) {
  const words: string[] = [];
  if (facts.truncated && facts.stored > 0) words.push(`${bytes(facts.stored)} of ${bytes(facts.length)} were recorded, as far as body_limit allows`);
  if (facts.withheld) words.push(`it was not recorded, since it could not be masked (${facts.withheld})`);
  if (facts.masked) words.push("values in it were replaced by *** before it was recorded");
  if (facts.aborted) words.push("it was broken off before its end");
  if (body.still_in) words.push(`these are the bytes as they were sent: ${body.still_in} could not be taken off`);
  if (body.cut) words.push("the first MiB is shown; its bytes are behind the button");
  if (facts.length > 0 && facts.stored === 0 && !facts.withheld) words.push("it was not recorded, or is not kept any more");
  if (facts.length === 0) words.push("there was none");
  return words.length > 0 ? <p className="muted body-why">{`${words.join("; ")}.`.replace(/^./, (c) => c.toUpperCase())}</p> : null;
}

function Picture({ bytes: binary, type }: { bytes: Uint8Array; type: string }) {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(new Blob([binary as BlobPart], { type }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [binary, type]);
  return (
    <figure className="picture">
      {url && <img src={url} alt="The recorded body" />}
      <figcaption className="muted">{type}</figcaption>
    </figure>
  );
}

function Lines({ all, kind, hits, label }: { all: Line[]; kind: Kind; hits: RegExp | undefined; label: string }) {
  const box = useRef<HTMLElement>(null);
  const rows = useVirtualizer({ count: all.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 20 });
  const found = useMemo(() => {
    if (!hits) return [];
    const at: number[] = [];
    all.forEach((line, index) => {
      hits.lastIndex = 0;
      if (at.length < 1000 && hits.test(line.text)) at.push(index);
    });
    return at;
  }, [all, hits]);
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
  const widest = useMemo(() => all.reduce((most, line) => Math.max(most, line.text.length), 0), [all]);
  return (
    <>
      {found.length > 0 && (
        <div className="row hit-steps">
          <span className="muted" aria-live="polite">
            Line {hit + 1} of {count(found.length)} with what was searched for
          </span>
          <button type="button" className="button small" onClick={() => next(-1)} disabled={found.length < 2}>
            Before
          </button>
          <button type="button" className="button small" onClick={() => next(1)} disabled={found.length < 2}>
            Next
          </button>
        </div>
      )}
      <section ref={box} className="lines" tabIndex={0} aria-label={label} style={{ height: Math.min(MOST_HEIGHT, all.length * ROW + 18) }}>
        <div style={{ height: rows.getTotalSize(), minWidth: `calc(${widest}ch + 70px)` }} className="lines-inside">
          {rows.getVirtualItems().map((item) => {
            const line = all[item.index];
            return (
              line && (
                <div key={item.key} className="line" style={{ transform: `translateY(${item.start}px)` }}>
                  <span className="line-number" aria-hidden="true">
                    {line.number ?? "↳"}
                  </span>
                  <Painted line={visible(line.text)} kind={kind} hits={hits} />
                </div>
              )
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
      {pieces(line, kind, hits).map((piece, index) =>
        piece.isHit ? (
          <mark key={index}>{piece.text}</mark>
        ) : (
          <span key={index} className={piece.kind ? `t-${piece.kind}` : undefined}>
            {piece.text}
          </span>
        ),
      )}
    </bdo>
  );
}
