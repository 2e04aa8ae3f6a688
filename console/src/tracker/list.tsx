// Transactions of the result, newest first. Only visible rows are in the document.

import { useNavigate, useRouter } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, memo, type MouseEvent, type ReactNode, useCallback, useEffect, useMemo, useRef } from "react";
import type { Hit, Schemas } from "../api/client";
import { useKeys } from "../shell/keys";
import { visible } from "../transaction/text";
import { State } from "../ui/parts";
import { useSearchText } from "../url/use-search-text";
import { type Column, usualColumns } from "./columns";

interface Props {
  hits: Hit[];
  /** Those of the URL; undefined: the usual ones. */
  columns: Column[] | undefined;
  query: string;
  hasMore: boolean;
  loadMore: () => void;
}

/** Placeholder for the id in the link that all rows are made from. */
const ID = "00000000-0000-0000-0000-000000000000";
const ROW = 38;
const TALL = 62;

export function HitList({ hits, columns: chosen, query, hasMore, loadMore }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [selectedId, setSelectedId] = useSearchText("selected", "", true);
  const selected = useMemo(() => (selectedId ? hits.findIndex((hit) => hit.id === selectedId) : -1), [hits, selectedId]);
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
  const columns = useMemo(() => chosen ?? usualColumns(hasNodes), [chosen, hasNodes]);
  // A link to a selected transaction shows its row.
  const isShown = useRef(false);
  useEffect(() => {
    if (isShown.current || selected < 0) return;
    isShown.current = true;
    rows.scrollToIndex(selected, { align: "center" });
  }, [selected, rows]);
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= hits.length - 60) loadMore();
  }, [last, hits.length, hasMore, loadMore]);

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
    isShown.current = true;
    const next = Math.min(hits.length - 1, Math.max(0, selected + step));
    setSelectedId(hits[next]?.id ?? "");
    rows.scrollToIndex(next, { align: "auto" });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      const hit = hits[selected];
      return hit ? open(hit.id) : false;
    },
  });

  return (
    <div className={`hits ${chosen ? "custom" : hasNodes ? "of-nodes" : ""}`} style={chosen && widths(chosen)} role="table" aria-label="Transactions" aria-rowcount={hasMore ? -1 : hits.length + 1}>
      <div role="rowgroup">
        <div className="hit head" role="row">
          {columns.map((column) => (
            <span key={column.name} role="columnheader" className={`cut ${column.kind.includes("num") ? "num" : ""}`}>
              {visible(column.label)}
            </span>
          ))}
        </div>
      </div>
      <div ref={box} className="hits-scroll" role="rowgroup" tabIndex={0} aria-label="Rows">
        <div style={{ height: rows.getTotalSize(), position: "relative" }} role="presentation">
          {items.map((item) => {
            const hit = hits[item.index];
            return hit && <Row key={item.key} hit={hit} columns={columns} href={before + hit.id + behind} open={open} index={item.index} top={item.start} height={item.size} isSelected={item.index === selected} />;
          })}
        </div>
      </div>
    </div>
  );
}

/** Tracks of the grid, and the width below which the list is scrolled sideways. */
function widths(columns: Column[]): CSSProperties {
  const least = columns.reduce((sum, column) => sum + Number(/\d+/.exec(column.width)?.[0] ?? 0) + 12, 28);
  return { "--columns": columns.map((column) => column.width).join(" "), "--least": `${least}px` } as CSSProperties;
}

interface RowProps {
  hit: Hit;
  columns: Column[];
  href: string;
  open: (id: string) => void;
  index: number;
  top: number;
  height: number;
  isSelected: boolean;
}

const Row = memo(function Row({ hit, columns, href, open, index, top, height, isSelected }: RowProps) {
  const follow = (event: MouseEvent) => {
    // Other clicks open a tab or a window, as with any link.
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(hit.id);
  };
  const isLoud = hit.state !== "completed";
  return (
    <div className={`hit ${isSelected ? "selected" : ""}`} role="row" aria-rowindex={index + 2} aria-selected={isSelected} style={{ height, transform: `translateY(${top}px)` }}>
      {columns.map((column) =>
        column.name === "path" ? (
          <span key="path" role="cell" className="path">
            <a href={href} onClick={follow} className="mono cut">
              {column.cell(hit)}
            </a>
            {isLoud && <State state={hit.resolution || hit.state} />}
          </span>
        ) : (
          <span key={column.name} role="cell" className={`${column.name} ${column.kind}`} title={column.name === "operation" ? hit.operation : undefined}>
            {column.cell(hit)}
          </span>
        ),
      )}
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
