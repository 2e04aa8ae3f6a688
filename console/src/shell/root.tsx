// Frame of every page: the shell if signed in, else the sign-in form.

import { useQuery } from "@tanstack/react-query";
import { Outlet, useSearch } from "@tanstack/react-router";
import { Suspense, useLayoutEffect } from "react";
import { sessionQuery, useLastSession } from "../api/session";
import { applyZone, zoneOf } from "../time/zone";
import { Failure, Loading } from "../ui/parts";
import { Shell } from "./shell";
import { SignIn } from "./sign-in";
import { SignedOut } from "./signed-out";
import { Unresponsive } from "./unresponsive";

export function Root() {
  const session = useQuery({ ...sessionQuery, refetchInterval: (query) => (query.state.error ? 3000 : 120_000) });
  const kept = useLastSession(session.data);
  const { tz } = useSearch({ strict: false }) as { tz?: string };
  useLayoutEffect(() => applyZone(zoneOf(tz)), [tz]);
  if (session.isPending) return <Loading what="the console" />;
  if (session.data === undefined) {
    return (
      <main className="sign-in">
        <Failure error={session.error} retry={() => void session.refetch()} />
      </main>
    );
  }
  const shown = session.data ?? kept;
  if (!shown) return <SignIn />;
  return (
    <>
      <Shell session={shown}>
        <Unresponsive />
        <Suspense fallback={<Loading what="the page" />}>
          <Outlet />
        </Suspense>
      </Shell>
      {session.data === null && <SignedOut />}
    </>
  );
}
