// A choice among the nodes of the fleet, and notes about nodes whose calls or transactions are missing.

import { useQuery } from "@tanstack/react-query";
import type { Schemas } from "../api/client";
import { visible } from "../transaction/text";
import { Time } from "../ui/parts";
import { fleetQuery } from "./queries";

/** Value for what this node has counted itself; needs no database. */
const HERE = "here";

/** Selects all nodes (empty), one by name or id, or what this node has counted (`counted`); nothing without a fleet. */
export function NodeChoice({ node, counted = true, onChange }: { node: string; counted?: boolean; onChange: (node: string) => void }) {
  const { data: fleet } = useQuery(fleetQuery);
  if (!fleet) return null;
  return (
    <label className="row">
      Node
      <select value={fleet.nodes.find((one) => one.name === node)?.id ?? node} onChange={(event) => onChange(event.target.value)}>
        <option value="">all</option>
        {fleet.nodes.map(({ id, name, state }) => (
          <option key={id} value={id}>
            {state === "live" ? name : `${name} (${state})`}
          </option>
        ))}
        {counted && <option value={HERE}>this node, without the database</option>}
      </select>
    </label>
  );
}

/** Nodes that have not reported all calls of a period. */
export function UnreportedNodes({ all }: { all: Schemas["UnreportedNode"][] | undefined }) {
  return all?.map(({ node, until, lost }) => (
    <p key={`${node} ${until}`} className="notice warn thin wrap-any">
      <span>
        {lost ? `Node ${node} is lost: its calls are missing after` : `Node ${node} is down, and has not reported its calls after`} <Time at={until} style="full" />
      </span>
    </p>
  ));
}

/** Nodes that did not respond to a query over nodes, and the search in a sink in their place. */
export function SilentNodes({ nodes }: { nodes: Schemas["Nodes"] | null | undefined }) {
  const missing = nodes?.missing ?? [];
  if (!nodes) return null;
  return (
    <>
      {missing.length > 0 && <Missing queried={nodes.queried} missing={missing} sink={nodes.sink} />}
      {nodes.sink && <SearchedSink sink={nodes.sink} />}
    </>
  );
}

function SearchedSink({ sink }: { sink: Schemas["SinkSearch"] }) {
  const names = sink.nodes.join(", ");
  if (sink.error)
    return (
      <p className="notice warn thin wrap-any" role="status">
        What {names} shipped to {sink.name} is missing: {visible(sink.error)}
      </p>
    );
  const left = sink.untranslated ?? [];
  return (
    <p className="notice thin wrap-any" role="status">
      What {names} shipped was searched in {sink.name}
      {left.length > 0 && `, without ${left.join(", ")}`}.
    </p>
  );
}

function Missing({ queried, missing, sink }: { queried: number; missing: Schemas["MissingNode"][]; sink: Schemas["Nodes"]["sink"] }) {
  const isSearched = sink && !sink.error;
  return (
    <div className="notice warn thin" role="status">
      <span>
        {queried - missing.length} of {queried} nodes responded. {isSearched ? "The last transactions" : "Transactions"} of the others are missing:
      </span>
      <ul>
        {missing.map(({ id, name, reason }) => (
          <li key={id} className="wrap-any">
            {name}: {visible(reason)}
          </li>
        ))}
      </ul>
    </div>
  );
}
