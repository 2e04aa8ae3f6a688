// What follows from the versions of a fleet's configuration and the latest rollout.

import type { Schemas } from "../api/client";
import type { FleetNode } from "./state";

export type Versions = Schemas["FleetVersions"];
export type Rollout = Schemas["Rollout"];
export type Version = Schemas["ConfigurationVersion"];

/** A version; `none` for the own files of the nodes alone. */
export function shown(version: number | null | undefined): string {
  return version === null || version === undefined ? "none" : `${version}`;
}

/** Whether a rollout has not ended. */
export function isActive(rollout: Rollout | null | undefined): rollout is Rollout {
  return rollout?.state === "running" || rollout?.state === "paused";
}

const STAGES: Record<Rollout["stage"], string> = { one: "one node", tenth: "10 % of the nodes", all: "all nodes" };

/** The stage for people. */
export function stage(rollout: Rollout): string {
  return STAGES[rollout.stage];
}

/** A share of errors, with the calls that it is of. */
export function errorShare({ calls, errors }: { calls: number; errors: number }): string {
  return calls === 0 ? "none" : `${((errors / calls) * 100).toFixed(1)} %`;
}

/** A node that takes versions. */
export interface Row {
  node: FleetNode;
  version: string;
  /** The node is in the stage of the rollout. */
  tries: boolean;
  ready: boolean;
  /** Calls that the verdict compares. */
  calls?: { calls: number; errors: number };
  /** Why it has rejected the version of the rollout, or that of the fleet. */
  rejected?: string;
}

/** The nodes that take versions, those of the stage first. */
export function rows(versions: Versions, nodes: FleetNode[]): Row[] {
  const { rollout } = versions;
  const all = nodes.flatMap((node): Row[] => {
    const report = node.in_force;
    if (!report) return [];
    const { rejected } = report;
    const isOfRollout = rejected !== null && rejected !== undefined && rejected.rollout === rollout?.id;
    const isOfFleet = rejected !== null && rejected !== undefined && shown(rejected.version) === shown(versions.version) && shown(report.version) !== shown(versions.version);
    return [
      {
        node,
        version: shown(report.version),
        tries: rollout?.nodes.includes(node.id) ?? false,
        ready: report.ready,
        calls: rollout?.compared?.nodes[node.id],
        rejected: isOfRollout || isOfFleet ? rejected.reason : undefined,
      },
    ];
  });
  return all.sort((a, b) => Number(b.tries) - Number(a.tries) || a.node.name.localeCompare(b.node.name));
}
