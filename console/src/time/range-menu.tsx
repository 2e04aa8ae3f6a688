// The menu of the time range.

import { Popover } from "@base-ui/react/popover";
import { type RefObject, useState } from "react";
import { zoneBetween } from "../format/format";
import { isInside } from "../ui/anchor";
import { between, RANGE_NAMES, RANGES, type RangeSearch, resolveRange, USUAL } from "./range";
import { useRange } from "./use-range";
import { ZoneChoice } from "./zone-choice";
import { editedTime, useZone, wallText } from "./zone";

/** Below `anchor`, the button that opened the menu. */
export default function RangeMenu({ anchor, onClose }: { anchor: RefObject<HTMLElement | null>; onClose: () => void }) {
  const [search, set] = useRange();
  const name = useZone();
  const choose = (next: RangeSearch) => {
    set(next);
    onClose();
  };
  return (
    <Popover.Root open onOpenChange={(open, { event }) => !open && !isInside(event, anchor) && onClose()}>
      <Popover.Portal>
        <Popover.Positioner anchor={anchor} align="end" sideOffset={6} className="over">
          <Popover.Popup className="menu range-menu" finalFocus={anchor}>
            <Popover.Title className="sr-only">Time range</Popover.Title>
            <div className="range-list">
              {RANGES.map((range) => (
                <button key={range} type="button" className="button quiet" aria-pressed={!search.from && (search.range ?? USUAL) === range} onClick={() => choose(range === USUAL ? {} : { range })}>
                  Last {RANGE_NAMES[range]}
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
