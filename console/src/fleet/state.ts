// What follows from the state of the fleet: configurations in force, remedies of findings.

import type { Schemas } from "../api/client";

export type FleetNode = Schemas["NodeStatus"];

/** A digest as `weir fleet status` shows it. */
export function shortDigest(digest: string): string {
  return digest.slice(0, 12);
}

/** A configuration in force on nodes that serve. */
export interface Configuration {
  digest: string;
  nodes: string[];
}

/** Configurations in force, that of most nodes first. Nodes that do not serve have no part in drift. */
export function configurations(nodes: FleetNode[]): Configuration[] {
  const names = new Map<string, string[]>();
  for (const node of nodes) {
    if (node.state === "live") names.set(node.digest, [...(names.get(node.digest) ?? []), node.name]);
  }
  const all = [...names].map(([digest, nodes]) => ({ digest, nodes }));
  return all.sort((a, b) => b.nodes.length - a.nodes.length || a.digest.localeCompare(b.digest));
}

const REMEDIES: Record<string, string> = {
  "configuration-drift": "Deploy the same files to all nodes, and reload the nodes that differ.",
  "configuration-rejected": "The node serves with its previous configuration. Correct the file, and reload.",
  "rollout-failed": "All nodes have the version before. Correct the version, push it, and roll it out again.",
  "version-rejected": "The node serves with its version before. Give it what it lacks, then reload it: it tries the version again.",
  "node-down": "Start the node. If it does not come back, retire it.",
  "clock-offset": "Synchronize the clocks of both machines, for example by NTP. Calls are metered by the clock of the node.",
  "postgres-down": "Requests are served, recorded and metered. Usage is replicated once the database is back.",
  "no-synchronous-standby": "Set synchronous_standby_names in PostgreSQL. Without a standby this can be ignored.",
  "copied-data-folder": "Do not copy data folders to new nodes. Retire the original if it does not come back.",
};

/** What to do about a finding; none for codes of a later version. */
export function remedy(code: string): string | undefined {
  return REMEDIES[code];
}
