// What is around every page: who is signed in decides whether there is one.

import { useQuery } from "@tanstack/react-query";
import { Outlet } from "@tanstack/react-router";
import { Suspense } from "react";
import { sessionQuery } from "../api/session";
import { Failure, Loading } from "../ui/parts";
import { Shell } from "./shell";
import { SignIn } from "./sign-in";

export function Root() {
  const session = useQuery({ ...sessionQuery, refetchInterval: (query) => (query.state.error ? 3000 : 120_000) });
  if (session.isPending) return <Loading what="the console" />;
  if (session.isError) {
    return (
      <main className="sign-in">
        <Failure error={session.error} retry={() => void session.refetch()} />
      </main>
    );
  }
  if (session.data === null) return <SignIn />;
  return (
    <Shell session={session.data}>
      <Suspense fallback={<Loading what="the page" />}>
        <Outlet />
      </Suspense>
    </Shell>
  );
}
