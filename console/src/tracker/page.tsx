// Search of transactions.

import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { useMay, useSession } from "../api/session";
import { NodeChoice, SilentNodes } from "../fleet/choice";
import { count } from "../format/format";
import type { Known } from "../query/complete";
import { between, resolveRange, within } from "../time/range";
import { useRange } from "../time/use-range";
import { ApiLink } from "../ui/api-link";
import { Icon } from "../ui/icons";
import { missingWords } from "../shell/gap";
import { Empty, Failure, Loading } from "../ui/parts";
import { transactionOf } from "../transaction/queries";
import { useSearchText } from "../url/use-search-text";
import { useTitle } from "../ui/title";
import { BulkDialog } from "./bulk";
import { DifferencePanel } from "./difference";
import { ColumnChoice } from "./column-choice";
import { columnsOf, hasKeys, usualColumns } from "./columns";
import { Facets } from "./facets";
import { Histogram } from "./histogram";
import { HitList } from "./list";
import { type Counts, counts, pages, queryError } from "./queries";
import { SearchBar } from "./search-bar";
import { ViewMenu } from "./view-menu";

export function TrackerPage() {
  const { q: query = "", differs } = useSearch({ strict: false }) as { q?: string; differs?: string };
  const [columnNames, setColumns] = useSearchText("columns");
  const [node, setNode] = useSearchText("node");
  const columns = useMemo(() => columnsOf(columnNames), [columnNames]);
  const [range, setRange] = useRange();
  const navigate = useNavigate();
  // Each count of business keys is audited, so not every two seconds.
  const keys = useMay("payload-viewer", "payloads");
  const session = useSession();
  const [following, setFollowing] = useSearchText("follow", "", true);
  const follow = following !== "";
  const every = follow ? 2000 : (false as const);
  const found = useInfiniteQuery({ ...pages(query, range, keys && !follow && hasKeys(columns), node), refetchInterval: (q) => ((q.state.data?.pages.length ?? 0) <= 1 ? every : false) });
  const summary = useQuery({ ...counts(query, range, keys && !follow, node), refetchInterval: every });
  const hits = useMemo(() => found.data?.pages.flatMap((page) => page.transactions) ?? [], [found.data]);
  const known = useKnown(summary.data);
  const { error, position } = queryError(found.error, query, range);

  useTitle(query || "Tracker");
  const queries = useQueryClient();
  const search = useCallback(
    (next: string) => {
      // An id is found independent of the time range.
      void transactionOf(next, queries).then((id) => {
        if (id) void navigate({ to: "/transactions/$id", params: { id } });
      });
      void navigate({ to: "/tracker", search: ((before: object) => ({ ...before, q: next || undefined, selected: undefined })) as never });
      if (next === query) {
        void found.refetch();
        void summary.refetch();
      }
    },
    [navigate, queries, query, found.refetch, summary.refetch],
  );
  const compare = useCallback(() => void navigate({ to: "/tracker", search: ((before: object) => ({ ...before, differs: differs ? undefined : "1" })) as never }), [navigate, differs]);
  const more = useCallback(() => {
    if (!found.isFetching) void found.fetchNextPage();
  }, [found.isFetching, found.fetchNextPage]);

  if (session && !session.recording) return <RecordingOff />;
  // The last page queried the nodes last; a page is incomplete, too, if nodes did not respond.
  const nodes = found.data?.pages.at(-1)?.nodes;
  const incomplete = found.data?.pages.some((page) => page.cut || (page.incomplete && !page.nodes?.missing?.length));
  const gap = found.data?.pages[0]?.missing;
  const missing = missingWords(gap && { ...gap, uncounted: 0 });
  return (
    <>
      <SearchHead query={query} known={known} onSearch={search} error={error} position={position} />
      {found.isError && !error && <Failure error={found.error} retry={() => void found.refetch()} />}
      <div className="tracker">
        {summary.data && <Facets counts={summary.data} query={query} onSearch={search} />}
        <section className="panel tracker-main" aria-busy={found.isFetching}>
          <header>
            <h2>
              <Found counts={summary.data} />
            </h2>
            {found.isFetching && <span className="spinner" role="status" aria-label="Searching" />}
            <button type="button" className="button small" aria-pressed={follow} onClick={() => setFollowing(follow ? "" : "1")}>
              <Icon name={follow ? "pause" : "play"} size={13} />
              {follow ? "Following" : "Follow"}
            </button>
            {query && (
              <button type="button" className="button small" aria-pressed={Boolean(differs)} title="What these transactions have more often than the others of the same time" onClick={compare}>
                What differs
              </button>
            )}
            <ViewMenu />
            <ColumnChoice columns={columns ?? usualColumns(hits[0]?.node !== undefined)} keys={keys ? (known.key ?? []) : []} onChange={setColumns} />
            <NodeChoice node={node} counted={false} onChange={setNode} />
            <Actions query={query} node={node} />
          </header>
          {summary.data && summary.data.matched > 0 && <Histogram counts={summary.data} range={range} at={summary.dataUpdatedAt} onRange={setRange} />}
          {query && differs && <DifferencePanel query={query} range={range} keys={keys} node={node} onSearch={search} />}
          {missing.length > 0 && <p className="notice warn thin">The journal was full in this period: {missing.join(", ")}.</p>}
          {hasKeys(columns) && (!keys || follow) && <p className="notice thin">{keys ? "Business keys are not read while the list follows." : "Business keys need the role payload-viewer."}</p>}
          <SilentNodes nodes={nodes} />
          {incomplete && <p className="notice warn thin">Some transactions may be missing: the search timed out, or the index lags behind. Select a shorter time range.</p>}
          {found.isPending && !found.isError ? (
            <Loading what="transactions" />
          ) : hits.length > 0 ? (
            <HitList hits={hits} columns={columns} query={query} hasMore={found.hasNextPage} loadMore={more} />
          ) : (
            !found.isError && <NoResults query={query} onClear={() => search("")} />
          )}
        </section>
      </div>
    </>
  );
}

function SearchHead(props: Parameters<typeof SearchBar>[0]) {
  return (
    <>
      <h1 className="sr-only">Tracker</h1>
      <SearchBar {...props} />
    </>
  );
}

function Found({ counts: all }: { counts?: Counts }) {
  if (!all) return <>Transactions</>;
  return (
    <>
      {all.cut ? "More than " : ""}
      {count(all.matched)} {all.matched === 1 ? "transaction" : "transactions"}
    </>
  );
}

/** Values for the completion, from the facets. */
function useKnown(all?: Counts): Known {
  return useMemo(() => {
    const known: Known = { key: [] };
    for (const facet of all?.facets ?? []) {
      known[facet.field] = facet.values.map((value) => value.value);
      if (facet.field.startsWith("key.")) known.key?.push(facet.field.slice(4));
    }
    return known;
  }, [all]);
}

function Actions({ query, node }: { query: string; node: string }) {
  const [range] = useRange();
  const canSend = useMay("operator", "jobs");
  const [bulk, setBulk] = useState<string>();
  const exported = within(query, range).query;
  /** A rolling range with fixed ends: a job selects the current transactions. */
  const fixed = () => {
    const { from, to } = resolveRange(range, new Date());
    return within(query, between(from.getTime(), to.getTime())).query;
  };
  return (
    <>
      <ApiLink className="button small" target={`/v1/transactions/export?${new URLSearchParams({ q: exported, ...(node && { node }) })}`} download="transactions.ndjson">
        <Icon name="download" size={14} />
        Export
      </ApiLink>
      {canSend && (
        <button type="button" className="button small" onClick={() => setBulk(fixed())}>
          <Icon name="jobs" size={14} />
          Resubmit all…
        </button>
      )}
      {bulk && <BulkDialog query={bulk} onClose={() => setBulk(undefined)} />}
    </>
  );
}

function NoResults({ query, onClear }: { query: string; onClear: () => void }) {
  return (
    <Empty title={query ? "No transactions found in this time range" : "No transactions recorded in this time range"}>
      <p>Select a longer time range at the top{query ? ", or use fewer terms. Words must match completely." : ", or send a request:"}</p>
      {query ? (
        <button type="button" className="button" onClick={onClear}>
          Clear the search
        </button>
      ) : (
        <pre>curl -i http://127.0.0.1:8080/</pre>
      )}
    </Empty>
  );
}

function RecordingOff() {
  return (
    <Empty title="Recording is off">
      <p>Enable the Tracker in the configuration, and restart weir:</p>
      <pre>{"tracker:\n  enabled: true"}</pre>
      <p>
        Live metrics are available on the <Link to="/">overview</Link>.
      </p>
    </Empty>
  );
}

