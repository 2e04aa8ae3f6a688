// Selection of the time range.

import { Popover } from "@base-ui/react/popover";
import { useState } from "react";
import { clock, day, zoneBetween } from "../format/format";
import { Icon } from "../ui/icons";
import { between, RANGES, type RangeSearch, resolveRange, USUAL } from "./range";
import { useRange } from "./use-range";
import { ZoneChoice } from "./zone-choice";
import { editedTime, useZone, wallText } from "./zone";

const NAMES: Record<string, string> = {
  "5m": "5 minutes",
  "15m": "15 minutes",
  "1h": "1 hour",
  "6h": "6 hours",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

function label(search: RangeSearch): string {
  if (!search.from || !search.to) return `Last ${NAMES[search.range ?? USUAL] ?? search.range}`;
  const [from, to] = [new Date(search.from), new Date(search.to)];
  const last = day(from) === day(to) ? clock(to, false) : `${day(to)} ${clock(to, false)}`;
  return `${day(from)} ${clock(from, false)} – ${last}`;
}

export function RangePicker() {
  const [search, set] = useRange();
  const [open, setOpen] = useState(false);
  const name = useZone();
  const shown = resolveRange(search, new Date());
  const choose = (next: RangeSearch) => {
    set(next);
    setOpen(false);
  };
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className="button">
        {label(search)}
        <span className="muted hide-small">{zoneBetween(shown.from, shown.to)}</span>
        <Icon name="chevron" size={14} />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner align="end" sideOffset={6} className="over">
          <Popover.Popup className="menu range-menu">
            <Popover.Title className="sr-only">Time range</Popover.Title>
            <div className="range-list">
              {RANGES.map((range) => (
                <button key={range} type="button" className="button quiet" aria-pressed={!search.from && (search.range ?? USUAL) === range} onClick={() => choose(range === USUAL ? {} : { range })}>
                  Last {NAMES[range]}
                </button>
              ))}
            </div>
            <div className="stack">
              {/* Its times are those of the zone. */}
              <Absolute key={name} search={search} choose={choose} />
              <ZoneChoice />
            </div>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Absolute({ search, choose }: { search: RangeSearch; choose: (next: RangeSearch) => void }) {
  const [before] = useState(() => resolveRange(search, new Date()));
  const [from, setFrom] = useState(wallText(before.from));
  const [to, setTo] = useState(wallText(before.to));
  const [first, last] = [editedTime(from, before.from), editedTime(to, before.to)];
  const isRight = first < last;
  return (
    <form
      className="stack range-exact"
      onSubmit={(event) => {
        event.preventDefault();
        if (isRight) choose(between(first, last));
      }}
    >
      <label className="field">
        From
        <input type="datetime-local" step="1" value={from} onChange={(event) => setFrom(event.target.value)} />
      </label>
      <label className="field">
        To
        <input type="datetime-local" step="1" value={to} onChange={(event) => setTo(event.target.value)} />
        <small>{isRight ? `Times are ${zoneBetween(new Date(first), new Date(last))}.` : "The end must be after the start."}</small>
      </label>
      <button type="submit" className="button primary" disabled={!isRight}>
        Apply
      </button>
    </form>
  );
}
