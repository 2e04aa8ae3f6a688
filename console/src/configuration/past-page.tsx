// A configuration that was in force: what it changed, how requests went before and after, and the way back.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useMay, useSession } from "../api/session";
import { fleetQuery, rollBack } from "../fleet/queries";
import { shown } from "../fleet/rollout";
import { count, duration, percent } from "../format/format";
import type { RangeSearch } from "../time/range";
import { Named, termOf } from "../traffic/named";
import { type Profile, profile } from "../traffic/queries";
import { visible } from "../transaction/text";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Badge, Empty, Failure, Panel, QueryState, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { notify } from "../ui/toast";
import { Findings } from "./findings";
import { type Details, detailsQuery, useHistory } from "./history";
import { type Past, windows } from "./past";

export function PastPage() {
  const { number = "" } = useParams({ strict: false }) as { number?: string };
  const { node = "" } = useSearch({ strict: false }) as { node?: string };
  const details = useQuery({ ...detailsQuery(Number(number), node), enabled: /^\d+$/.test(number) });
  useTitle(`Configuration ${number}`);
  const all = details.data;
  return (
    <>
      <div className="page-head">
        <h1>
          <span className="muted">Configuration</span> {visible(number)}
        </h1>
        {all && <Named kind="configuration" name={all.configuration.configuration} />}
        <span className="grow" />
        {all && <Return all={all} node={node} />}
      </div>
      <QueryState query={details} what="the configuration" />
      {all && (
        <>
          <Facts one={all.configuration} />
          <Effect one={all.configuration} before={all.compared} />
          <Changed title={all.compared ? `What it changed in ${all.compared.number}` : "What it changed"} all={all} />
          {all.findings.length > 0 && (
            <Panel title="Findings">
              <Findings all={all.findings} />
            </Panel>
          )}
          <Texts all={all} />
        </>
      )}
    </>
  );
}

function Facts({ one }: { one: Past }) {
  return (
    <Panel title="In force">
      <dl className="facts">
        <dt>Since</dt>
        <dd>
          <Time at={one.time} style="full" /> by {visible(one.by)}
        </dd>
        <dt>Until</dt>
        <dd>{one.until ? <Time at={one.until} style="full" /> : <Badge tone="good">in force</Badge>}</dd>
        {one.node && (
          <>
            <dt>Node</dt>
            <dd>{one.node}</dd>
          </>
        )}
        {one.version != null && (
          <>
            <dt>Version of the fleet</dt>
            <dd>{one.version}</dd>
          </>
        )}
        <dt>Digest of its files</dt>
        <dd>
          <code className="wrap-any">{one.digest}</code>
        </dd>
      </dl>
    </Panel>
  );
}

/** Requests before and after, in times of equal length. */
function Effect({ one, before }: { one: Past; before?: Past | null }) {
  const session = useSession();
  // The end is that of the first look: figures do not move under the reader.
  const times = useMemo(() => windows(one, before, new Date()), [one, before]);
  const isOn = session?.recording ?? false;
  const was = useQuery({ ...profile(before ? termOf("configuration", before.configuration) : "", times.before), enabled: isOn && before != null });
  const is = useQuery({ ...profile(termOf("configuration", one.configuration), times.after), enabled: isOn });
  if (!isOn || !is.data) return isOn ? <QueryState query={is} what="figures" /> : null;
  const rows: [string, (all: Profile) => string][] = [
    ["Requests", (all) => count(all.matched)],
    ["Failed", (all) => (all.matched ? percent(all.failed, all.matched) : "–")],
    ["p50", (all) => (all.matched ? duration(all.durations.p50_us) : "–")],
    ["p90", (all) => (all.matched ? duration(all.durations.p90_us) : "–")],
    ["p99", (all) => (all.matched ? duration(all.durations.p99_us) : "–")],
  ];
  const isWorse = was.data && was.data.matched > 0 && is.data.matched > 0 && is.data.failed / is.data.matched > was.data.failed / was.data.matched;
  return (
    <Panel
      title="Before and after"
      inside={false}
      actions={
        <span className="muted">
          from <Time at={times.before.from ?? ""} /> to <Time at={times.after.to ?? ""} />
        </span>
      }
    >
      <Table heads={["Figure", "#Before", "#After"]}>
        {rows.map(([name, text]) => (
          <tr key={name}>
            <td>{name}</td>
            <td className="num">{was.data ? text(was.data) : "–"}</td>
            <td className="num">{name === "Failed" && isWorse ? <Badge tone="bad">{text(is.data)}</Badge> : text(is.data)}</td>
          </tr>
        ))}
        <tr>
          <td>Failures</td>
          <td className="num">{before && <FailuresLink configuration={before.configuration} range={times.before} />}</td>
          <td className="num">
            <FailuresLink configuration={one.configuration} range={times.after} />
          </td>
        </tr>
      </Table>
    </Panel>
  );
}

function FailuresLink({ configuration, range }: { configuration: string; range: RangeSearch }) {
  return (
    <Link to="/tracker" search={{ q: `${termOf("configuration", configuration)} -state:completed`, differs: "1", range: undefined, ...range } as never} preload={false}>
      what they have in common
    </Link>
  );
}

function Changed({ title, all }: { title: string; all: Pick<Details, "changes" | "compared"> }) {
  return (
    <Panel title={title} inside={false} actions={<span className="muted">secrets are redacted</span>}>
      {!all.compared && <Empty title="The first configuration of the history" />}
      {all.compared && all.changes.length === 0 && <Empty title="The same files" />}
      {all.changes.map((file) => (
        <section key={file.path} className="file-change">
          <h3 className="wrap-any">
            <Badge tone={file.change === "removed" ? "warn" : "info"}>{file.change}</Badge> {visible(file.path)}
          </h3>
          {file.values.length > 0 && (
            <Table heads={["Setting", "Before", "After"]} label={`Changed settings of ${file.path}`}>
              {/* A path may be there twice, such as of list elements with the same name. */}
              {file.values.map((value, at) => (
                <tr key={at}>
                  <td className="mono wrap-any">{visible(value.path)}</td>
                  <td className="mono wrap-any">{value.before == null ? <span className="muted">–</span> : visible(value.before)}</td>
                  <td className="mono wrap-any">{value.after == null ? <span className="muted">removed</span> : visible(value.after)}</td>
                </tr>
              ))}
            </Table>
          )}
          {file.more > 0 && <p className="muted facet-more">and {count(file.more)} more</p>}
          {file.diff ? <Lines diff={file.diff} path={file.path} isOpen={file.values.length === 0} /> : <p className="muted">The text of this file is not kept.</p>}
        </section>
      ))}
    </Panel>
  );
}

function Lines({ diff, path, isOpen }: { diff: string; path: string; isOpen: boolean }) {
  const tones: Record<string, string> = { "+": "added", "-": "removed", "@": "muted" };
  return (
    <details open={isOpen}>
      <summary>Changed lines</summary>
      <pre className="code diff" tabIndex={0} aria-label={`Changed lines of ${path}`}>
        {diff.split("\n").map((line, at) => (
          <span key={at} className={tones[line[0] ?? ""]}>
            {visible(line)}
            {"\n"}
          </span>
        ))}
      </pre>
    </details>
  );
}

function Texts({ all }: { all: Details }) {
  return (
    <Panel title="Files">
      {all.files.map((file) => (
        <details key={file.path}>
          <summary className="wrap-any">{visible(file.path)}</summary>
          {file.text == null ? (
            <p className="muted">{file.sha256 ? `SHA-256 ${file.sha256}` : "The text is not kept."}</p>
          ) : (
            <pre className="code" tabIndex={0} aria-label={`Text of ${file.path}`}>
              {visible(file.text)}
            </pre>
          )}
        </details>
      ))}
    </Panel>
  );
}

/** The way back: a rollback where weir has the files, the changes to make where it does not. */
function Return({ all, node }: { all: Details; node: string }) {
  const history = useHistory();
  const fleet = useQuery(fleetQuery);
  const [isOpen, setOpen] = useState(false);
  const isOperator = useMay("operator");
  const { configuration, compared } = all;
  const current = history.data?.configurations.find((one) => (one.node ?? "") === (configuration.node ?? ""));
  if (!isOperator || !current) return null;
  // From the one in force to the one before, from another one to itself.
  const to = configuration.until ? configuration : compared;
  if (!to || to.digest === current.digest) return null;
  const isManaged = fleet.data?.versions != null && to.version != null;
  return (
    <>
      <button type="button" className={`button ${isManaged ? "primary" : ""}`} onClick={() => setOpen(true)}>
        {isManaged ? `Roll back to version ${to.version}…` : `How to return to ${to.number}…`}
      </button>
      {isOpen && (isManaged ? <RollBack version={to.version ?? null} onClose={() => setOpen(false)} /> : <HowToReturn to={to} current={current} node={node} onClose={() => setOpen(false)} />)}
    </>
  );
}

function RollBack({ version, onClose }: { version: number | null; onClose: () => void }) {
  const queries = useQueryClient();
  const run = useMutation({
    mutationFn: () => rollBack(version),
    onSuccess: (after) => {
      notify(`All nodes take version ${shown(after.version)}.`);
      void queries.invalidateQueries({ queryKey: ["fleet"] });
      void queries.invalidateQueries({ queryKey: ["configuration"] });
      onClose();
    },
  });
  return (
    <Dialog title={`Roll back to version ${shown(version)}?`} open onClose={onClose} footer={<DialogButtons action="Roll back" danger disabled={run.isPending} onAction={() => run.mutate()} onCancel={onClose} />}>
      <div className="stack">
        <p>All nodes take the version at once, without stages.</p>
        {run.isError && <Failure error={run.error} />}
      </div>
    </Dialog>
  );
}

function HowToReturn({ to, current, node, onClose }: { to: Past; current: Past; node: string; onClose: () => void }) {
  const details = useQuery(detailsQuery(to.number, node, current.number));
  return (
    <Dialog title={`Return to configuration ${to.number}`} open wide onClose={onClose}>
      <div className="stack">
        <p>
          weir reads these files, and does not write them. These changes lead from configuration {current.number}, in force now, back to {to.number}. Saved files are reloaded at once; <code>weir history {to.number} --text</code> prints the texts.
        </p>
        <QueryState query={details} what="the changes" />
        {details.data && <Changed title="Changes to make" all={details.data} />}
      </div>
    </Dialog>
  );
}
