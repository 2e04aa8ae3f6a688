// The calendar month of an invoice, and its time zone.

import { addMonths, monthOf } from "./billing";

const NAMES = Array.from({ length: 12 }, (_, at) => new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" }).format(new Date(Date.UTC(2026, at, 1))));
const YEARS = 5;

export function MonthPicker({ month, zone, onChange }: { month: string; zone: string; onChange: (month: string) => void }) {
  const now = monthOf(new Date(), zone);
  const [year, at] = [month.slice(0, 4), month.slice(5, 7)];
  const years = [...new Set([...Array.from({ length: YEARS }, (_, back) => String(Number(now.slice(0, 4)) - back)), year])].sort().reverse();
  return (
    <div className="row" role="group" aria-label="Month">
      <button type="button" className="button small" aria-label="Previous month" onClick={() => onChange(addMonths(month, -1))}>
        ‹
      </button>
      <select aria-label="Month" value={at} onChange={(event) => onChange(`${year}-${event.target.value}`)}>
        {NAMES.map((name, index) => (
          <option key={name} value={String(index + 1).padStart(2, "0")}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="Year" value={year} onChange={(event) => onChange(`${event.target.value}-${at}`)}>
        {years.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
      <button type="button" className="button small" aria-label="Next month" disabled={month >= now} onClick={() => onChange(addMonths(month, 1))}>
        ›
      </button>
    </div>
  );
}

export function ZonePicker({ zone, onChange }: { zone: string; onChange: (zone: string) => void }) {
  const zones = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((one) => one !== "UTC")];
  return (
    <label className="row">
      Time zone
      <select value={zone} onChange={(event) => onChange(event.target.value)}>
        {(zones.includes(zone) ? zones : [zone, ...zones]).map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}
