// Sign-in with an account of the identity provider, or with an admin token, which is sent once and not stored.

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useId, useState } from "react";
import { switchSession, resume, signIn, waysQuery } from "../api/session";
import { Logo } from "../ui/icons";
import { Failure } from "../ui/parts";

/** `again`: on top of the page of an expired session. */
export function SignIn({ again = false }: { again?: boolean }) {
  const queries = useQueryClient();
  const [token, setToken] = useState("");
  const id = useId();
  const begin = useMutation({
    mutationFn: signIn,
    onSuccess: (session) => (again ? resume : switchSession)(queries, session),
  });
  const provider = useQuery(waysQuery).data?.provider;
  const failed = useQuery<unknown>({ queryKey: ["session", "failed"], queryFn: () => null, enabled: false }).data;
  // The page of an expired session comes back after the sign-in.
  const here = again ? location.pathname + location.search : "/console/";
  useEffect(() => {
    if (!again) document.title = "Sign in · weir";
  }, [again]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim()) begin.mutate(token);
  };
  const Around = again ? "div" : "main";
  return (
    <Around className="sign-in">
      <form className="panel" onSubmit={submit}>
        <div className="brand">
          <Logo />
          <h1>Sign in to weir</h1>
        </div>
        {failed ? <Failure error={failed} /> : null}
        {provider && (
          <>
            <a className="button primary" href={`/v1/oidc/start?from=${encodeURIComponent(here)}`}>
              Sign in with {provider}
            </a>
            <p className="muted">or with a token:</p>
          </>
        )}
        <label className="field" htmlFor={id}>
          Admin token
          <input id={id} type="password" name="token" autoComplete="current-password" spellCheck={false} placeholder="wadm_…" value={token} onChange={(event) => setToken(event.target.value)} autoFocus={!provider} required />
          <small>
            The first token is in <code>admin.token</code> in the data folder. <code>weir token new NAME --role viewer</code> creates others.
          </small>
        </label>
        {begin.isError && <Failure error={begin.error} />}
        <button type="submit" className="button primary" disabled={begin.isPending}>
          {begin.isPending ? "Signing in…" : "Sign in"}
        </button>
      </form>
    </Around>
  );
}
