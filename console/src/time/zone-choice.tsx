// Choice of the time zone, for this browser and for links.

import { useMemo } from "react";
import { zone } from "../format/format";
import { useSearchText } from "../url/use-search-text";
import { applyZone, keepZone, LOCAL, useZone, zoneOf } from "./zone";

export function ZoneChoice() {
  const name = useZone();
  const [, setUrl] = useSearchText("tz");
  const names = useMemo(() => [...new Set([...Intl.supportedValuesOf("timeZone"), ...(name === LOCAL ? [] : [name])])].filter((one) => one !== "UTC").sort(), [name]);
  const choose = (next: string) => {
    if (!zoneOf(next)) return;
    keepZone(next);
    // The address may have no zone before and after.
    applyZone(next);
    // A link shows the chosen zone to everyone; local times are those of whoever looks.
    setUrl(next === LOCAL ? "" : next);
  };
  return (
    <label className="field range-zone">
      Time zone
      <select value={name} onChange={(event) => choose(event.target.value)}>
        <option value={LOCAL}>Local ({zone(new Date(), LOCAL)})</option>
        <option value="UTC">UTC</option>
        <optgroup label="Named">
          {names.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}
