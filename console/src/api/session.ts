// The session of the console.

import { type QueryClient, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiProblem, api, data, may, type Schemas, type Reach, type Role, type Session } from "./client";
import { keepCsrfToken } from "./csrf";

/** The session; null if not signed in. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      return await data(api.GET("/v1/session"));
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export function useSession(): Session | undefined {
  return useQuery(sessionQuery).data ?? undefined;
}

/** Whether the session has this role or a higher one, and a scope of this reach. */
export function useMay(role: Role, reach?: Reach): boolean {
  return may(useSession(), role, reach);
}

/** Starts a session with a token. The token is not stored. */
export async function signIn(token: string): Promise<Session> {
  const headers = { authorization: `Bearer ${token.trim()}` };
  const { csrf_token, ...session } = await data<Session>(api.POST("/v1/session", { headers }));
  keepCsrfToken(csrf_token ?? undefined);
  return session;
}

/** The identity provider, if there is one. */
export const waysQuery = queryOptions({
  queryKey: ["session", "ways"],
  queryFn: () => data<Schemas["SignInWays"]>(api.GET("/v1/oidc")),
  staleTime: 60_000,
});

/** The one-time code of a sign-in with an account, in the fragment of the URL: removed from the URL at once. */
export function takeCode(): string | undefined {
  const code = /^#sign-in=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

/** Starts a session with the one-time code of a sign-in with an account. */
export async function redeem(code: string): Promise<void> {
  const { csrf_token } = await data<Session>(api.POST("/v1/oidc/session", { body: { code } }));
  keepCsrfToken(csrf_token ?? undefined);
}

/** Ends the session. An account signs out of the identity provider next: the browser is to go there. */
export async function signOut(): Promise<string | undefined> {
  const ended = await data<Schemas["SignedOut"] | undefined>(api.DELETE("/v1/session") as never).catch(() => undefined);
  keepCsrfToken(undefined);
  return ended?.provider;
}

/** Another tab has signed in or out: this tab uses the same session. */
export async function follow(queries: QueryClient): Promise<void> {
  const before = queries.getQueryData(sessionQuery.queryKey);
  const now = await queries.fetchQuery({ ...sessionQuery, staleTime: 0 });
  if (before?.token !== now?.token) switchSession(queries, now);
}

/** The session whose page stays, covered, after the session has expired. */
const KEPT = ["session", "kept"];

export function useLastSession(session: Session | null | undefined): Session | undefined {
  const queries = useQueryClient();
  const kept = useQuery<Session | null>({ queryKey: KEPT, queryFn: () => null, enabled: false, gcTime: Number.POSITIVE_INFINITY }).data;
  useEffect(() => {
    if (session) queries.setQueryData(KEPT, session);
  }, [queries, session]);
  return kept ?? undefined;
}

/** Another user is signed in, or none: data of the previous user is removed. */
export function switchSession(queries: QueryClient, session: Session | null): void {
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  queries.setQueryData(KEPT, session);
  queries.setQueryData(sessionQuery.queryKey, session);
}

/** The session has expired: the page stays until the next sign-in. */
export function lose(queries: QueryClient): void {
  if (queries.getQueryData(sessionQuery.queryKey)) queries.setQueryData(sessionQuery.queryKey, null);
}

/** Signed in again: the page stays, unless the new session has a lower role. */
export function resume(queries: QueryClient, session: Session): void {
  const kept = queries.getQueryData<Session | null>(KEPT);
  const isSame = kept && JSON.stringify(session.scope) === JSON.stringify(kept.scope);
  if (!kept || !isSame || !may(session, kept.role)) return switchSession(queries, session);
  queries.setQueryData(sessionQuery.queryKey, session);
  void queries.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "session" });
}
