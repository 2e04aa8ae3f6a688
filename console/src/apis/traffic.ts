// Traffic of routes, looked at every two seconds.

import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "../api/client";
import { type Flow, flows, type Totals } from "./flows";

export function useTraffic(): Map<string, Flow> {
  const looks = useRef<[Totals | undefined, Totals | undefined]>([undefined, undefined]);
  const asked = useQuery({ queryKey: ["traffic"], queryFn: () => data<Totals>(api.GET("/v1/traffic")), refetchInterval: 2000 });
  const now = asked.data;
  if (now && now !== looks.current[1]) looks.current = [looks.current[1], now];
  const [before, last] = looks.current;
  return last ? flows(last, before) : new Map();
}
