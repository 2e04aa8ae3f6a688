// What distinguishes the transactions of a query from the others of the same time.

import { useQuery } from "@tanstack/react-query";
import { count, percent } from "../format/format";
import { hasTerm, quoted, toggleTerm } from "../query/fields";
import type { RangeSearch } from "../time/range";
import { Failure, Loading } from "../ui/parts";
import { attributeName } from "./facets";
import { type Attribute, type Difference, difference } from "./queries";

const ATTRIBUTES = 5;
const VALUES = 3;

interface Props {
  query: string;
  range: RangeSearch;
  /** Compare business keys. */
  keys: boolean;
  /** Only transactions of this node of the fleet. */
  node: string;
  onSearch: (query: string) => void;
}

export function DifferencePanel({ query, range, keys, node, onSearch }: Props) {
  const found = useQuery(difference(query, range, keys, node));
  return (
    <section className="difference" aria-label="What differs" aria-busy={found.isFetching}>
      {found.isError ? (
        <Failure error={found.error} retry={() => void found.refetch()} />
      ) : !found.data ? (
        <Loading what="the difference" />
      ) : (
        <Attributes found={found.data} query={query} words={keys} onSearch={onSearch} />
      )}
    </section>
  );
}

interface Shown {
  found: Difference;
  query: string;
  /** Words may be searched: a path is found by its words. */
  words: boolean;
  onSearch: (query: string) => void;
}

function Attributes({ found, query, words, onSearch }: Shown) {
  if (found.group === 0 || found.rest === 0) {
    return <p className="muted">{found.group === 0 ? "No transaction matches." : "All transactions of this time match, so there is nothing to compare them with."}</p>;
  }
  const differing = found.attributes.filter((attribute) => attribute.difference > 0);
  const shown = differing.slice(0, ATTRIBUTES);
  return (
    <>
      <p className="muted">
        {count(found.group)} of these, compared with {count(found.rest)} others of the same time{found.cut ? ", the newest of each" : ""}.{" "}
        {shown.length === 0 && "Nothing differs more than chance would explain."}
        {differing.length > shown.length && `${differing.length - shown.length} more attributes differ less.`}
      </p>
      {found.incomplete && <p className="notice warn thin">Some transactions may be missing: the index lags behind, or nodes did not respond.</p>}
      <dl className="difference-list">
        {shown.map((attribute) => (
          <div key={attribute.field}>
            <dt>{attributeName(attribute.field)}</dt>
            <dd>
              <Values attribute={attribute} found={found} query={query} words={words} onSearch={onSearch} />
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function Values({ attribute, found, query, words, onSearch }: Shown & { attribute: Attribute }) {
  const more = attribute.values.length - VALUES;
  return (
    <ul>
      {attribute.values.slice(0, VALUES).map((share) => {
        const term = attribute.field === "path" && !words ? undefined : termOf(attribute.field, share.value);
        const label = share.value || "(none)";
        const shares = `${percent(share.group, found.group)} of these, ${percent(share.rest, found.rest)} of the others`;
        return (
          <li key={share.value}>
            {term ? (
              <button type="button" className="link cut" aria-pressed={hasTerm(query, term)} title={shares} onClick={() => onSearch(toggleTerm(query, term))}>
                {label}
              </button>
            ) : (
              <span className="cut" title={shares}>
                {label}
              </span>
            )}
            <span className="shares" aria-label={shares} role="img">
              <i style={{ width: `${(100 * share.group) / found.group}%` }} />
              <i style={{ width: `${(100 * share.rest) / found.rest}%` }} />
            </span>
            <span className="muted" aria-hidden>
              {percent(share.group, found.group)} / {percent(share.rest, found.rest)}
            </span>
          </li>
        );
      })}
      {(more > 0 || attribute.more) && <li className="muted">{attribute.more || attribute.values.length >= 20 ? "and more values" : `and ${more} more`}</li>}
    </ul>
  );
}

/** The term of the query language for a value, if there is one. */
function termOf(field: string, value: string): string | undefined {
  if (field === "request_size" || field === "retries") return undefined;
  const name = field === "path" ? "target" : field;
  return value === "" ? `-${name}:*` : `${name}:${quoted(value)}`;
}
