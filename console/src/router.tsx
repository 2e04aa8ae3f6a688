// Routes of the console.

import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, retainSearchParams } from "@tanstack/react-router";
import { Root } from "./shell/root";
import { type RangeSearch, readRange } from "./time/range";
import { zoneOf } from "./time/zone";

const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Root,
  validateSearch: (search: Record<string, unknown>): RangeSearch & { tz?: string } => {
    const tz = zoneOf(search.tz);
    return { ...readRange(search), ...(tz && { tz }) };
  },
  search: { middlewares: [retainSearchParams(["range", "from", "to", "tz"])] },
  notFoundComponent: lazyRouteComponent(() => import("./shell/not-found"), "NotFound"),
});

/** The texts with these names of a URL; empty ones are not there. */
const texts =
  <Name extends string>(...names: Name[]) =>
  (search: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => typeof search[name] === "string" && search[name] !== "").map((name) => [name, search[name]])) as { [K in Name]?: string };
const getParentRoute = () => root;

const overview = createRoute({
  getParentRoute,
  path: "/",
  validateSearch: texts("compare"),
  component: lazyRouteComponent(() => import("./overview/page"), "OverviewPage"),
});

export const tracker = createRoute({
  getParentRoute,
  path: "/tracker",
  validateSearch: texts("q", "node", "differs", "columns", "selected", "follow"),
  component: lazyRouteComponent(() => import("./tracker/page"), "TrackerPage"),
});

export const transaction = createRoute({
  getParentRoute,
  path: "/transactions/$id",
  validateSearch: texts("q", "request", "response"),
  component: lazyRouteComponent(() => import("./transaction/page"), "TransactionPage"),
});

const traffic = createRoute({
  getParentRoute,
  path: "/traffic/$kind/$name",
  validateSearch: texts("within", "node", "compare"),
  component: lazyRouteComponent(() => import("./traffic/page"), "TrafficPage"),
});

const jobs = createRoute({
  getParentRoute,
  path: "/jobs",
  component: lazyRouteComponent(() => import("./jobs/page"), "JobsPage"),
});

export const job = createRoute({
  getParentRoute,
  path: "/jobs/$number",
  validateSearch: texts("state", "reason"),
  component: lazyRouteComponent(() => import("./jobs/job-page"), "JobPage"),
});

const compare = createRoute({
  getParentRoute,
  path: "/compare",
  validateSearch: texts("a", "b", "equal"),
  component: lazyRouteComponent(() => import("./compare/page"), "ComparePage"),
});

const monitor = createRoute({
  getParentRoute,
  path: "/monitor",
  validateSearch: texts("tab", "groups", "node", "period", "zone", "consumer"),
  component: lazyRouteComponent(() => import("./monitor/page"), "MonitorPage"),
});

const apis = createRoute({
  getParentRoute,
  path: "/apis",
  validateSearch: texts("filter"),
  component: lazyRouteComponent(() => import("./apis/page"), "ApisPage"),
});

const description = createRoute({
  getParentRoute,
  path: "/apis/$api",
  validateSearch: texts("filter"),
  component: lazyRouteComponent(() => import("./apis/openapi-page"), "OpenapiPage"),
});

export const explain = createRoute({
  getParentRoute,
  path: "/explain",
  validateSearch: texts("method", "target", "transaction"),
  component: lazyRouteComponent(() => import("./explain/page"), "ExplainPage"),
});

const pools = createRoute({
  getParentRoute,
  path: "/pools",
  component: lazyRouteComponent(() => import("./pools/page"), "PoolsPage"),
});

const lab = createRoute({
  getParentRoute,
  path: "/lab",
  validateSearch: texts("chosen"),
  component: lazyRouteComponent(() => import("./lab/page"), "LabPage"),
});

const labCompare = createRoute({
  getParentRoute,
  path: "/lab/compare",
  validateSearch: texts("before", "after"),
  component: lazyRouteComponent(() => import("./lab/compare-page"), "LabComparePage"),
});

const labRun = createRoute({
  getParentRoute,
  path: "/lab/$run",
  component: lazyRouteComponent(() => import("./lab/run-page"), "LabRunPage"),
});

const fleet = createRoute({
  getParentRoute,
  path: "/fleet",
  component: lazyRouteComponent(() => import("./fleet/page"), "FleetPage"),
});

const configuration = createRoute({
  getParentRoute,
  path: "/configuration",
  validateSearch: texts("file"),
  component: lazyRouteComponent(() => import("./configuration/page"), "ConfigurationPage"),
});

const past = createRoute({
  getParentRoute,
  path: "/configuration/$number",
  validateSearch: texts("node"),
  component: lazyRouteComponent(() => import("./configuration/past-page"), "PastPage"),
});

const access = createRoute({
  getParentRoute,
  path: "/access",
  validateSearch: texts("who", "action", "subject", "text", "since", "until"),
  component: lazyRouteComponent(() => import("./access/page"), "AccessPage"),
});

const tree = root.addChildren([overview, tracker, transaction, traffic, jobs, job, compare, monitor, apis, description, explain, pools, lab, labCompare, labRun, fleet, configuration, past, access]);

export function makeRouter(queries: QueryClient) {
  return createRouter({
    routeTree: tree,
    basepath: "/console",
    context: { queries },
    defaultPreload: "intent",
    scrollRestoration: true,
    // Values are strings, and unchanged in the URL.
    parseSearch: (search) => Object.fromEntries(new URLSearchParams(search)),
    stringifySearch: (search) => {
      const pairs = Object.entries(search).filter(([, value]) => typeof value === "string");
      const written = new URLSearchParams(pairs as [string, string][]).toString();
      return written ? `?${written}` : "";
    },
  });
}
