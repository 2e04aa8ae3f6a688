// Selection of the time range. Its menu is loaded when opened.

import { lazy, Suspense, useRef, useState } from "react";
import { clock, day, zoneBetween } from "../format/format";
import { Icon } from "../ui/icons";
import { RANGE_NAMES, type RangeSearch, resolveRange, USUAL } from "./range";
import { useRange } from "./use-range";
import { useZone } from "./zone";

const RangeMenu = lazy(() => import("./range-menu"));

function label(search: RangeSearch): string {
  if (!search.from || !search.to) return `Last ${RANGE_NAMES[search.range ?? USUAL] ?? search.range}`;
  const [from, to] = [new Date(search.from), new Date(search.to)];
  const last = day(from) === day(to) ? clock(to, false) : `${day(to)} ${clock(to, false)}`;
  return `${day(from)} ${clock(from, false)} – ${last}`;
}

export function RangePicker() {
  const [search] = useRange();
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  useZone();
  const shown = resolveRange(search, new Date());
  return (
    <>
      <button ref={button} type="button" className="button" aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)}>
        {label(search)}
        <span className="muted hide-small">{zoneBetween(shown.from, shown.to)}</span>
        <Icon name="chevron" size={14} />
      </button>
      <Suspense fallback={null}>{open && <RangeMenu anchor={button} onClose={() => setOpen(false)} />}</Suspense>
    </>
  );
}
