// A text of the URL: state of a view that a shared link shows, too, and that Back restores.

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/** The usual value is not in the URL. With `replace`, the history gets no entry: for what is typed. */
export function useSearchText(name: string, usual = "", replace = false): [string, (next: string) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const found = search[name];
  const set = useCallback(
    (next: string) => void navigate({ to: ".", replace, search: ((before: object) => ({ ...before, [name]: next === usual ? undefined : next })) as never, resetScroll: false }),
    [navigate, name, usual, replace],
  );
  return [typeof found === "string" ? found : usual, set];
}
