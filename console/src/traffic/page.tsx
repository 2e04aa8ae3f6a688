// Everything about the transactions of an API, route, consumer, upstream, target, …

import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useSession } from "../api/session";
import { useMarks } from "../configuration/history";
import { Changes } from "../configuration/history-panel";
import { SilentNodes } from "../fleet/choice";
import { count, duration, percent } from "../format/format";
import { CompareButton } from "../time/compare-button";
import { change, useComparison } from "../time/previous";
import { useRange } from "../time/use-range";
import { between } from "../time/range";
import { visible } from "../transaction/text";
import { counts, type Counts } from "../tracker/queries";
import { Icon } from "../ui/icons";
import { Empty, Numbers, Panel, QueryState, Status, Table, Time } from "../ui/parts";
import { useTitle } from "../ui/title";
import { DurationHeatmap, LatencyChart, RateChart } from "./charts";
import { KINDS, type Kind, Named, termOf } from "./named";
import { type Before, type Profile, profile, profileBefore } from "./queries";
import { Section } from "./sections";

export function TrafficPage() {
  const { kind = "", name = "" } = useParams({ strict: false }) as { kind?: string; name?: string };
  const { within = "", node = kind === "node" ? name : "" } = useSearch({ strict: false }) as { within?: string; node?: string };
  if (!Object.hasOwn(KINDS, kind)) return <Empty title={`There are no pages for ${visible(kind)}`} />;
  return <Traffic key={`${kind} ${name} ${within} ${node}`} kind={kind as Kind} name={name} within={within} node={node} />;
}

/** `node`: only the transactions of this node of the fleet. */
function Traffic({ kind, name, within, node }: { kind: Kind; name: string; within: string; node: string }) {
  const [range, setRange] = useRange();
  const session = useSession();
  const term = [within, termOf(kind, name)].filter(Boolean).join(" ");
  const figures = useQuery({ ...profile(term, range, node), refetchInterval: range.to ? false : 10_000 });
  const [compares] = useComparison();
  const earlier = useQuery({ ...profileBefore(term, range, node), enabled: compares, refetchInterval: range.to ? false : 30_000 });
  // Not beside figures of another range, which are shown until those of this one are there.
  const before = compares && !figures.isPlaceholderData ? earlier.data : undefined;
  const facets = useQuery({ ...counts(term, range, false, node), refetchInterval: range.to ? false : 10_000 });
  useTitle(`${KINDS[kind]} ${name}`);
  const select = (from: number, to: number) => setRange(between(from, to));
  const all = figures.data;
  const of = node && { node };
  const { marks, changes } = useMarks(range);
  return (
    <>
      <div className="page-head">
        <h1 className="wrap-any">
          <span className="muted">{KINDS[kind]}</span> {visible(name)} {within && <code className="muted">{visible(within)}</code>}
          {node && kind !== "node" && <span className="muted"> on {visible(node)}</span>}
        </h1>
        <span className="grow" />
        <CompareButton />
        <Link to="/tracker" search={{ ...(term && { q: term }), ...of } as never} className="button small">
          <Icon name="tracker" size={14} />
          Transactions
        </Link>
        <Link to="/tracker" search={{ q: `${term} -state:completed`.trim(), differs: "1", ...of } as never} className="button small">
          Failures
        </Link>
      </div>
      <Section kind={kind} name={name} />
      {session && !session.recording ? (
        <Empty title="Recording is off">
          <p>Figures of this page are computed from recorded transactions: set `tracker: {"{enabled: true}"}`.</p>
        </Empty>
      ) : (
        <QueryState query={figures} what="figures" />
      )}
      {all && (
        <>
          <SilentNodes nodes={all.nodes ?? undefined} />
          {(all.cut || (all.incomplete && !all.nodes?.missing?.length)) && <p className="notice warn thin">Some transactions may be missing: the time limit was reached, or the index lags behind.</p>}
          {compares && earlier.isError && <p className="notice warn thin">The previous range cannot be read: {String(earlier.error.message)}</p>}
          {before && isPartial(before.all) && <p className="notice warn thin">Some transactions of the range before may be missing: {missingWords(before.all)}.</p>}
          <Figures all={all} before={before} />
          {all.matched === 0 ? (
            <section className="panel">
              <Empty title="No transactions in this time range">
                <p>Select a longer time range at the top.</p>
              </Empty>
            </section>
          ) : (
            <>
              <RateChart all={all} before={before} range={range} onSelect={select} marks={marks} />
              <LatencyChart all={all} before={before} range={range} onSelect={select} marks={marks} />
              <Changes all={changes} />
              <DurationHeatmap all={all} term={term} node={node} range={range} />
              <div className="two">
                <Stages all={all} />
                <Slowest all={all} />
              </div>
              {facets.data && <Facets kind={kind} term={term} node={node} all={facets.data} />}
            </>
          )}
        </>
      )}
    </>
  );
}

const isPartial = (all: Profile) => all.cut || all.incomplete || (all.nodes?.missing ?? []).length > 0;

function missingWords(all: Profile): string {
  return (all.nodes?.missing ?? []).length > 0 ? "not all nodes responded" : "the time limit was reached, or the index lags behind";
}

function Figures({ all, before }: { all: Profile; before: Before | undefined }) {
  const { durations } = all;
  const isEmpty = before?.all.matched === 0;
  const old = isEmpty ? undefined : before?.all;
  const time = (us: number, than: number | undefined) => (all.matched ? compared(duration(us), us, than) : "–");
  const share = (one: Profile) => (one.matched ? one.failed / one.matched : 0);
  return (
    <Panel title="Transactions" actions={before && <span className="muted">{isEmpty ? "the range before has no transactions" : "compared with the range before"}</span>}>
      <Numbers
        all={[
          ["Number", compared(count(all.matched), all.matched, old?.matched), false],
          ["Failed", all.matched ? compared(percent(all.failed, all.matched), share(all), old && share(old)) : "–", all.failed > 0],
          ["p50", time(durations.p50_us, old?.durations.p50_us), false],
          ["p90", time(durations.p90_us, old?.durations.p90_us), false],
          ["p99", time(durations.p99_us, old?.durations.p99_us), false],
          ["Longest", time(durations.max_us, old?.durations.max_us), false],
        ]}
      />
    </Panel>
  );
}

/** A figure, with its change against the one before. */
function compared(text: string, now: number, before: number | undefined): string {
  const words = change(now, before);
  return words ? `${text} (${words})` : text;
}

const STAGES: Record<string, string> = {
  auth: "Routing and authentication",
  limit: "Limits",
  validate: "Validation",
  "request-map": "Request map",
  queue: "Queue of the pool",
  retry: "Attempts before the last",
  connect: "Connecting (part of the first byte)",
  "first-byte": "Upstream, to the first byte",
  "response-map": "Response map",
  answer: "Response to the client",
};

function Stages({ all }: { all: Profile }) {
  const total = all.stages.find((stage) => stage.name === "total")?.mean_us ?? 0;
  const parts = all.stages.filter((stage) => stage.name !== "total");
  return (
    <Panel title="Time by stage" inside={false} actions={<span className="muted">mean of the newest {count(all.staged)}</span>}>
      <Table heads={["Stage", "#Mean", "#Share"]} label="Time by stage">
        {parts.map((stage) => (
          <tr key={stage.name}>
            <td>{STAGES[stage.name] ?? stage.name}</td>
            <td className="num">{duration(stage.mean_us)}</td>
            <td className="num">{percent(stage.mean_us, total)}</td>
          </tr>
        ))}
        <tr>
          <td>In all</td>
          <td className="num">{duration(total)}</td>
          <td className="num" />
        </tr>
      </Table>
    </Panel>
  );
}

function Slowest({ all }: { all: Profile }) {
  return (
    <Panel title="Slowest transactions" inside={false}>
      <Table heads={["Time", "Request", "Status", "#Duration"]}>
        {all.slowest.slice(0, 10).map((one) => (
          <tr key={one.id}>
            <td>
              <Time at={one.time} />
            </td>
            <td className="wrap-any">
              <Link to="/transactions/$id" params={{ id: one.id }} preload={false}>
                {one.method} {visible(one.path)}
              </Link>
            </td>
            <td>
              <Status status={one.status} />
            </td>
            <td className="num">{duration(one.took_us)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

/** Kinds by the field of a facet. */
const FACETS: Record<string, Kind> = { status: "status", api: "api", operation: "operation", consumer: "consumer", receiver: "upstream", upstream_target: "upstream_target", problem: "problem" };
const SHOWN = 8;

function Facets({ kind, term, node, all }: { kind: Kind; term: string; node: string; all: Counts }) {
  const facets = all.facets.filter((facet) => FACETS[facet.field] && FACETS[facet.field] !== kind && !(kind === "pool" && facet.field === "receiver") && facet.values.length > 0);
  return (
    <div className="facet-panels">
      {facets.map((facet) => {
        const of = FACETS[facet.field] as Kind;
        const more = facet.values.length - SHOWN;
        return (
          <Panel key={facet.field} title={`By ${KINDS[of].toLowerCase().replace("api", "API")}`} inside={false}>
            <Table heads={[KINDS[of], "#Transactions", "#Share"]}>
              {facet.values.slice(0, SHOWN).map(({ value, count: number }) => (
                <tr key={value}>
                  <td className="wrap-any">{value && value !== "none" ? <Named kind={of} name={value} within={term} node={node} /> : <span className="muted">none</span>}</td>
                  <td className="num">{count(number)}</td>
                  <td className="num">{percent(number, all.matched)}</td>
                </tr>
              ))}
            </Table>
            {(more > 0 || facet.more) && <p className="muted facet-more">{facet.more ? "and more" : `and ${more} more`}</p>}
          </Panel>
        );
      })}
    </div>
  );
}
