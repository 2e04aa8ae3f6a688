// Typed client of the admin API, from its OpenAPI document. Errors are of one class.

import createClient, { type Middleware } from "openapi-fetch";
import { csrfToken } from "./csrf";
import { dataReceived } from "./heartbeat";
import type { components, paths } from "./schema";

/** Header with the CSRF token of the session, sent with every call. */
export const CSRF_HEADER = "weir-csrf-token";

export type Schemas = components["schemas"];
export type Role = Schemas["Role"];
export type Session = Schemas["Session"];
export type Hit = Schemas["Hit"];
export type Transaction = Schemas["Transaction"];
export type Attempt = Schemas["Attempt"];
export type Job = Schemas["Job"];

/** A problem document (RFC 9457), or a missing response. */
export class ApiProblem extends Error {
  readonly status: number;
  readonly kind: string;
  readonly title: string;
  readonly detail: string;
  /** Start of the wrong part of a query in bytes, and its end (exclusive). */
  readonly place?: [number, number];

  constructor(status: number, document: Record<string, unknown>) {
    const text = (name: string, otherwise: string) =>
      typeof document[name] === "string" ? (document[name] as string) : otherwise;
    const title = text("title", "The request failed");
    super(title);
    this.name = "ApiProblem";
    this.status = status;
    this.title = title;
    this.detail = text("detail", "");
    this.kind = text("type", "").replace("urn:weir:problem:", "");
    const place = document.place;
    if (Array.isArray(place) && place.length === 2) this.place = place as [number, number];
  }
}

/** Called when the session has ended. */
let signedOut = () => {};
export function onSignedOut(call: () => void): void {
  signedOut = call;
}

async function problem(response: Response): Promise<ApiProblem> {
  const document = await response.json().catch(() => ({}));
  const known = document && typeof document === "object" ? document : {};
  return new ApiProblem(response.status, { title: `weir responded with ${response.status}`, ...known });
}

const errors: Middleware = {
  onRequest({ request }) {
    const token = csrfToken();
    if (token && !request.headers.has("authorization")) request.headers.set(CSRF_HEADER, token);
    return request;
  },
  async onResponse({ response, request }) {
    dataReceived();
    if (response.ok) return;
    if (response.status === 401 && !request.headers.has("authorization")) signedOut();
    throw await problem(response);
  },
  onError() {
    return new ApiProblem(0, {
      title: "weir does not respond",
      detail: "It may be stopped, or the network may be interrupted. This page retries automatically.",
    });
  },
};

export const api = createClient<paths>({ baseUrl: location.origin, credentials: "same-origin" });
api.use(errors);

/** The data of a response; errors are thrown by the client. */
export async function data<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}

const ROLES: Role[] = ["viewer", "payload-viewer", "operator", "admin"];

const DEPTHS: Schemas["Depth"][] = ["counts", "metadata", "payloads"];

/** What an endpoint shows or changes: `x-weir-reach` of the description. */
export type Reach = "own" | "apis" | "server" | "transactions" | "payloads" | "resolution" | "resubmission" | "jobs" | "records" | "requests" | "administration";

/** The least depth of a reach, whether it covers all APIs, and whether it sends requests; as `scope.rs` has them. */
const REACHES: Record<Reach, [Schemas["Depth"], boolean, boolean]> = {
  own: ["counts", false, false],
  apis: ["counts", false, false],
  server: ["counts", true, false],
  transactions: ["metadata", false, false],
  resolution: ["metadata", false, false],
  payloads: ["payloads", false, false],
  resubmission: ["metadata", false, true],
  jobs: ["metadata", true, true],
  records: ["payloads", true, false],
  requests: ["payloads", true, true],
  administration: ["payloads", true, true],
};

/** Whether a session has this role or a higher one, and a scope of this reach. The server decides; this only hides elements. */
export function may(session: Session | undefined, role: Role, reach: Reach = "own"): boolean {
  if (session === undefined || ROLES.indexOf(session.role) < ROLES.indexOf(role)) return false;
  const { apis = [], depth = "payloads", resubmit = true } = session.scope;
  const [least, all, sends] = REACHES[reach];
  return DEPTHS.indexOf(depth) >= DEPTHS.indexOf(least) && !(all && apis.length > 0) && !(sends && !resubmit);
}
