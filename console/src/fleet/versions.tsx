// Versions of the configuration: the one in force, the latest rollout, the version of each node.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useMay } from "../api/session";
import { count, span } from "../format/format";
import { visible } from "../transaction/text";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Badge, Failure, Panel, State, Table, Time } from "../ui/parts";
import { notify } from "../ui/toast";
import { changeRollout, type Fleet, fleetQuery, rollBack, versionsQuery } from "./queries";
import { errorShare, isActive, type Rollout, rows, shown, stage, type Version, type Versions } from "./rollout";
import { shortDigest } from "./state";

export function VersionsPanel({ versions, fleet }: { versions: Versions; fleet: Fleet }) {
  const { rollout } = versions;
  const list = useQuery(versionsQuery(versions.version ?? 0, rollout?.id ?? 0));
  const isOperator = useMay("operator", "administration");
  const inForce = list.data?.find((one) => one.number === versions.version);
  return (
    <Panel title={`Configuration: version ${shown(versions.version)}`} inside={false} actions={isOperator && <Actions versions={versions} list={list.data ?? []} />}>
      <dl className="facts inside">
        <Facts inForce={inForce} />
        {rollout && <RolloutFacts rollout={rollout} />}
      </dl>
      <NodeVersions versions={versions} fleet={fleet} />
    </Panel>
  );
}

function Facts({ inForce }: { inForce?: Version }) {
  if (!inForce) return null;
  return (
    <>
      <dt>Digest of its files</dt>
      <dd>
        <code title={inForce.digest}>{shortDigest(inForce.digest)}</code>
      </dd>
      <dt>Pushed</dt>
      <dd className="wrap-any">
        <Time at={inForce.time} style="day" /> by {inForce.by}
        {inForce.comment && `: ${visible(inForce.comment)}`}
      </dd>
    </>
  );
}

function RolloutFacts({ rollout }: { rollout: Rollout }) {
  return (
    <>
      <dt>Rollout {count(rollout.id)}</dt>
      <dd className="wrap-any">
        <State state={rollout.state} /> of version {shown(rollout.version)} by {rollout.by}, <Time at={rollout.time} style="day" />
      </dd>
      {isActive(rollout) && (
        <>
          <dt>Stage</dt>
          <dd>
            {stage(rollout)} for {span(rollout.stage_seconds)}
          </dd>
        </>
      )}
      {rollout.verdict && (
        <>
          <dt>Verdict</dt>
          <dd className="wrap-any">{visible(rollout.verdict)}</dd>
        </>
      )}
    </>
  );
}

function NodeVersions({ versions, fleet }: { versions: Versions; fleet: Fleet }) {
  const others = versions.rollout?.compared?.others;
  return (
    <Table label="Versions of the nodes" heads={["Node", "Version", "Rollout", "#Calls compared", "#5xx", "State"]}>
      {rows(versions, fleet.nodes).map(({ node, version, tries, ready, calls, rejected }) => (
        <tr key={node.id}>
          <td className="wrap-any">{node.name}</td>
          <td>{version}</td>
          <td>{tries && <Tries rollout={versions.rollout} />}</td>
          <td className="num">{calls ? count(calls.calls) : "–"}</td>
          <td className="num">{calls ? errorShare(calls) : "–"}</td>
          <td className="wrap-any">{rejected ? <Rejected reason={rejected} /> : ready ? "ready" : <Badge tone="warn">not ready</Badge>}</td>
        </tr>
      ))}
      {others && (
        <tr>
          <td className="muted">Compared with</td>
          <td />
          <td />
          <td className="num">{count(others.calls)}</td>
          <td className="num">{errorShare(others)}</td>
          <td />
        </tr>
      )}
    </Table>
  );
}

/** What a node of the stage does, or did if the rollout has ended otherwise than by success. */
function Tries({ rollout }: { rollout: Versions["rollout"] }) {
  const hasSucceeded = rollout?.state === "succeeded";
  if (isActive(rollout)) return <Badge tone="info">in the stage</Badge>;
  return hasSucceeded ? null : <Badge>tried it</Badge>;
}

function Rejected({ reason }: { reason: string }) {
  return (
    <>
      <Badge tone="bad">rejected</Badge> {visible(reason)}
    </>
  );
}

function Actions({ versions, list }: { versions: Versions; list: Version[] }) {
  const queries = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const change = useMutation({
    mutationFn: changeRollout,
    onSuccess: () => void queries.invalidateQueries({ queryKey: fleetQuery.queryKey }),
  });
  const { rollout } = versions;
  return (
    <span className="row">
      {change.isError && <Failure error={change.error} />}
      {isActive(rollout) && (
        <button type="button" className="button small" disabled={change.isPending} onClick={() => change.mutate(rollout.state === "paused" ? "resume" : "pause")}>
          {rollout.state === "paused" ? "Resume" : "Pause"}
        </button>
      )}
      {(isActive(rollout) || versions.version != null) && (
        <button type="button" className="button small" onClick={() => setOpen(true)}>
          Roll back…
        </button>
      )}
      {isOpen && <RollBackDialog versions={versions} list={list} onClose={() => setOpen(false)} />}
    </span>
  );
}

function RollBackDialog({ versions, list, onClose }: { versions: Versions; list: Version[]; onClose: () => void }) {
  const queries = useQueryClient();
  const [version, setVersion] = useState("");
  const run = useMutation({
    mutationFn: (version: string) => rollBack(version === "" ? null : Number(version)),
    onSuccess: (after) => {
      notify(`All nodes take version ${shown(after.version)}.`);
      void queries.invalidateQueries({ queryKey: fleetQuery.queryKey });
      onClose();
    },
  });
  const isRolling = isActive(versions.rollout);
  const others = list.filter((one) => one.number !== versions.version);
  return (
    <Dialog title="Roll back?" open onClose={onClose} footer={<DialogButtons action="Roll back" danger disabled={run.isPending} onAction={() => run.mutate(version)} onCancel={onClose} />}>
      <div className="stack">
        <p>{isRolling ? "The rollout is aborted. All nodes take the version at once, without stages." : "All nodes take the version at once, without stages."}</p>
        <label className="field">
          Version
          <select value={version} onChange={(event) => setVersion(event.target.value)}>
            <option value="">{isRolling ? `${shown(versions.version)}, in force before the rollout` : "the one before"}</option>
            {others.map((one) => (
              <option key={one.number} value={one.number}>
                {one.number}
                {one.comment && `: ${visible(one.comment).slice(0, 60)}`}
              </option>
            ))}
          </select>
        </label>
        {run.isError && <Failure error={run.error} />}
      </div>
    </Dialog>
  );
}
