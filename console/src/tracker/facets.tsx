// Facets of the result; a click filters by a value.

import { count, percent } from "../format/format";
import { facetTerm, hasTerm, toggleTerm } from "../query/fields";
import type { Counts } from "./queries";

const NAMES: Record<string, string> = { status: "Status", state: "State", api: "API", operation: "Operation", method: "Method", consumer: "Consumer", receiver: "Upstream", upstream_target: "Target", problem: "Problem", type: "Type", plan: "Plan", client: "Client", upstream: "Upstream", detail: "Detail", path: "Path", request_size: "Size of the request", retries: "Retries" };

/** The display name of a field. */
export function attributeName(field: string): string {
  return NAMES[field] ?? field.replace(/^key\./, "key ");
}

interface Props {
  counts: Counts;
  query: string;
  onSearch: (query: string) => void;
}

export function Facets({ counts, query, onSearch }: Props) {
  const facets = counts.facets.filter((facet) => facet.values.length > 0);
  if (facets.length === 0) return null;
  return (
    <aside className="facets" aria-label="Filters">
      <h2 className="sr-only">Filters</h2>
      {facets.map((facet) => (
        <section key={facet.field}>
          <h3>{attributeName(facet.field)}</h3>
          <ul>
            {facet.values.slice(0, 8).map(({ value, count: number }) => {
              const term = facetTerm(facet.field, value);
              const isOn = hasTerm(query, term);
              return (
                <li key={value}>
                  <button type="button" className="facet" aria-pressed={isOn} title={`${value || "(none)"}: ${percent(number, counts.matched)}`} onClick={() => onSearch(toggleTerm(query, term))}>
                    <span className="cut">{value || "(none)"}</span>
                    <span className="muted">{count(number)}</span>
                    <i style={{ width: `${counts.matched ? (100 * number) / counts.matched : 0}%` }} />
                  </button>
                </li>
              );
            })}
          </ul>
          {(facet.more || facet.values.length > 8) && <p className="muted facet-more">and more</p>}
        </section>
      ))}
    </aside>
  );
}
