// Who is signed in.

import { type QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { ApiProblem, api, data, may, type Role, type Session } from "./client";
import { keepCsrfToken } from "./csrf";

/** Nobody is signed in: null. */
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

/** Whether the one who is signed in may do what needs this role. */
export function useMay(role: Role): boolean {
  return may(useSession(), role);
}

/** Begins a session with a token. The token is not kept. */
export async function signIn(token: string): Promise<Session> {
  const headers = { authorization: `Bearer ${token.trim()}` };
  const { csrf_token, ...session } = await data<Session>(api.POST("/v1/session", { headers }));
  keepCsrfToken(csrf_token ?? undefined);
  return session;
}

/** Ends the session. */
export async function signOut(): Promise<void> {
  await api.DELETE("/v1/session").catch(() => undefined);
  keepCsrfToken(undefined);
}

/** Another tab has signed in or out: so has this one. */
export async function follow(queries: QueryClient): Promise<void> {
  const before = queries.getQueryData(sessionQuery.queryKey);
  const now = await queries.fetchQuery({ ...sessionQuery, staleTime: 0 });
  if (before?.token !== now?.token) become(queries, now);
}

/** Somebody else is signed in, or nobody: nothing of whoever was here before is shown. */
export function become(queries: QueryClient, session: Session | null): void {
  queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  queries.setQueryData(sessionQuery.queryKey, session);
}
