// The time range of the URL, and its setter.

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import { type RangeSearch, readRange } from "./range";

export function useRange(): [RangeSearch, (next: RangeSearch) => void] {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const set = useCallback(
    (next: RangeSearch) => {
      void navigate({
        to: ".",
        search: ((before: Record<string, unknown>) => ({ ...before, range: undefined, from: undefined, to: undefined, ...next })) as never,
      });
    },
    [navigate],
  );
  return [readRange(search), set];
}
