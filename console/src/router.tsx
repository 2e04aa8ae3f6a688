// Routes of the console.

import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, retainSearchParams } from "@tanstack/react-router";
import { Root } from "./shell/root";
import { type RangeSearch, readRange } from "./time/range";

const root = createRootRouteWithContext<{ queries: QueryClient }>()({
  component: Root,
  validateSearch: (search: Record<string, unknown>): RangeSearch => readRange(search),
  search: { middlewares: [retainSearchParams(["range", "from", "to"])] },
  notFoundComponent: lazyRouteComponent(() => import("./shell/not-found"), "NotFound"),
});

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);
const getParentRoute = () => root;

const overview = createRoute({
  getParentRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./overview/page"), "OverviewPage"),
});

export const tracker = createRoute({
  getParentRoute,
  path: "/tracker",
  validateSearch: (search: Record<string, unknown>): { q?: string; differs?: string } => {
    const [q, differs] = [text(search.q), text(search.differs)];
    return { ...(q && { q }), ...(differs && { differs }) };
  },
  component: lazyRouteComponent(() => import("./tracker/page"), "TrackerPage"),
});

export const transaction = createRoute({
  getParentRoute,
  path: "/transactions/$id",
  validateSearch: (search: Record<string, unknown>): { q?: string } => {
    const q = text(search.q);
    return q ? { q } : {};
  },
  component: lazyRouteComponent(() => import("./transaction/page"), "TransactionPage"),
});

const traffic = createRoute({
  getParentRoute,
  path: "/traffic/$kind/$name",
  validateSearch: (search: Record<string, unknown>): { within?: string } => {
    const within = text(search.within);
    return within ? { within } : {};
  },
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
  component: lazyRouteComponent(() => import("./jobs/job-page"), "JobPage"),
});

const monitor = createRoute({
  getParentRoute,
  path: "/monitor",
  validateSearch: (search: Record<string, unknown>): { tab?: string } => {
    const tab = text(search.tab);
    return tab ? { tab } : {};
  },
  component: lazyRouteComponent(() => import("./monitor/page"), "MonitorPage"),
});

const apis = createRoute({
  getParentRoute,
  path: "/apis",
  component: lazyRouteComponent(() => import("./apis/page"), "ApisPage"),
});

const description = createRoute({
  getParentRoute,
  path: "/apis/$api",
  component: lazyRouteComponent(() => import("./apis/openapi-page"), "OpenapiPage"),
});

export const explain = createRoute({
  getParentRoute,
  path: "/explain",
  validateSearch: (search: Record<string, unknown>): { method?: string; target?: string; transaction?: string } => {
    const [method, target, of] = [text(search.method), text(search.target), text(search.transaction)];
    return { ...(method && { method }), ...(target && { target }), ...(of && { transaction: of }) };
  },
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
  component: lazyRouteComponent(() => import("./lab/page"), "LabPage"),
});

const labCompare = createRoute({
  getParentRoute,
  path: "/lab/compare",
  validateSearch: (search: Record<string, unknown>): { before?: string; after?: string } => {
    const [before, after] = [text(search.before), text(search.after)];
    return { ...(before && { before }), ...(after && { after }) };
  },
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
  component: lazyRouteComponent(() => import("./configuration/page"), "ConfigurationPage"),
});

const access = createRoute({
  getParentRoute,
  path: "/access",
  validateSearch: (search: Record<string, unknown>): Record<string, string> => {
    const pairs = ["who", "action", "subject", "text", "since", "until"].map((name) => [name, text(search[name])] as const);
    return Object.fromEntries(pairs.filter((pair): pair is [string, string] => pair[1] !== undefined));
  },
  component: lazyRouteComponent(() => import("./access/page"), "AccessPage"),
});

const tree = root.addChildren([overview, tracker, transaction, traffic, jobs, job, monitor, apis, description, explain, pools, lab, labCompare, labRun, fleet, configuration, access]);

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
