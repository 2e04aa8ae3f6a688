// Transactions of the result, newest first. Only visible rows are in the document.

import { useNavigate, useRouter } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type MouseEvent, type ReactNode, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Hit, Schemas } from "../api/client";
import { duration } from "../format/format";
import { useKeys } from "../shell/keys";
import { State, Status, Time } from "../ui/parts";

interface Props {
  hits: Hit[];
  query: string;
  hasMore: boolean;
  loadMore: () => void;
}

/** Placeholder for the id in the link that all rows are made from. */
const ID = "00000000-0000-0000-0000-000000000000";
const ROW = 38;
const TALL = 62;

export function HitList({ hits, query, hasMore, loadMore }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState(-1);
  const navigate = useNavigate();
  const rows = useVirtualizer({
    count: hits.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => (hits[index]?.highlights?.length ? TALL : ROW),
    overscan: 6,
    getItemKey: (index) => hits[index]?.id ?? index,
  });
  // Only in a query over nodes.
  const hasNodes = hits[0]?.node !== undefined;
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= hits.length - 60) loadMore();
  }, [last, hits.length, hasMore, loadMore]);
  useEffect(() => setSelected(-1), [query]);

  // One link for all rows, with the id replaced: a router call per row is expensive.
  const router = useRouter();
  const [before, behind] = useMemo(() => {
    const link = router.buildLocation({ to: "/transactions/$id", params: { id: ID }, search: (query ? { q: query } : {}) as never });
    const [left = "", right = ""] = link.publicHref.split(ID);
    return [left, right];
  }, [router, query]);
  const open = useCallback(
    (id: string) => void navigate({ to: "/transactions/$id", params: { id }, search: (query ? { q: query } : {}) as never }),
    [navigate, query],
  );
  const move = (step: number) => {
    const next = Math.min(hits.length - 1, Math.max(0, selected + step));
    setSelected(next);
    rows.scrollToIndex(next, { align: "auto" });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      const hit = hits[selected];
      if (hit) open(hit.id);
    },
  });

  return (
    <div className={`hits ${hasNodes ? "of-nodes" : ""}`} role="table" aria-label="Transactions" aria-rowcount={hasMore ? -1 : hits.length + 1}>
      <div role="rowgroup">
        <div className="hit head" role="row">
          {["Time", "Status", "Method", "Path", "Operation", "Consumer", ...(hasNodes ? ["Node"] : []), "Duration"].map((name) => (
            <span key={name} role="columnheader">
              {name}
            </span>
          ))}
        </div>
      </div>
      <div ref={box} className="hits-scroll" role="rowgroup" tabIndex={0} aria-label="Rows">
        <div style={{ height: rows.getTotalSize(), position: "relative" }} role="presentation">
          {items.map((item) => {
            const hit = hits[item.index];
            return hit && <Row key={item.key} hit={hit} href={before + hit.id + behind} open={open} index={item.index} top={item.start} height={item.size} isSelected={item.index === selected} />;
          })}
        </div>
      </div>
    </div>
  );
}

interface RowProps {
  hit: Hit;
  href: string;
  open: (id: string) => void;
  index: number;
  top: number;
  height: number;
  isSelected: boolean;
}

const Row = memo(function Row({ hit, href, open, index, top, height, isSelected }: RowProps) {
  const follow = (event: MouseEvent) => {
    // Other clicks open a tab or a window, as with any link.
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(hit.id);
  };
  const isLoud = hit.state !== "completed";
  return (
    <div className={`hit ${isSelected ? "selected" : ""}`} role="row" aria-rowindex={index + 2} aria-selected={isSelected} style={{ height, transform: `translateY(${top}px)` }}>
      <span role="cell" className="time">
        <Time at={hit.time} />
      </span>
      <span role="cell">
        <Status status={hit.status} />
      </span>
      <span role="cell" className="mono method">
        {hit.method}
      </span>
      <span role="cell" className="path">
        <a href={href} onClick={follow} className="mono cut">
          {hit.path}
        </a>
        {isLoud && <State state={hit.resolution || hit.state} />}
      </span>
      <span role="cell" className="cut operation" title={hit.operation}>
        {hit.operation || hit.api || "–"}
      </span>
      <span role="cell" className="cut consumer">
        {hit.consumer || "–"}
      </span>
      {hit.node !== undefined && (
        <span role="cell" className="cut node" title={hit.sink ? `${hit.node}, from ${hit.sink}` : hit.node}>
          {hit.node}
          {hit.sink && " (sink)"}
        </span>
      )}
      <span role="cell" className="num took">
        {duration(hit.took_us)}
      </span>
      {hit.highlights && hit.highlights.length > 0 && (
        <span role="cell" className="highlights cut">
          {hit.highlights.slice(0, 2).map((one) => (
            <Highlight key={`${one.place}${one.text}`} one={one} />
          ))}
        </span>
      )}
    </div>
  );
});

const BYTES = new TextEncoder();
const TEXT = new TextDecoder();

/** Marks are offsets in bytes of UTF-8. */
function Highlight({ one }: { one: Schemas["Highlight"] }) {
  const bytes = BYTES.encode(one.text);
  const parts: ReactNode[] = [];
  let at = 0;
  for (const [from, to] of one.marks as [number, number][]) {
    parts.push(TEXT.decode(bytes.subarray(at, from)), <mark key={from}>{TEXT.decode(bytes.subarray(from, to))}</mark>);
    at = to;
  }
  parts.push(TEXT.decode(bytes.subarray(at)));
  return (
    <>
      <span className="muted">{one.place.replace(".", " ")} </span>
      <bdi className="mono">{parts}</bdi>{" "}
    </>
  );
}
