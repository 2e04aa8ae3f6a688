// Traffic of routes, sampled every two seconds.

import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { api, data } from "../api/client";
import { type Flow, flows, type Totals } from "./flows";

export function useTraffic(): Map<string, Flow> {
  const samples = useRef<[Totals | undefined, Totals | undefined]>([undefined, undefined]);
  const result = useQuery({ queryKey: ["traffic"], queryFn: () => data<Totals>(api.GET("/v1/traffic")), refetchInterval: 2000 });
  const now = result.data;
  if (now && now !== samples.current[1]) samples.current = [samples.current[1], now];
  const [before, last] = samples.current;
  return last ? flows(last, before) : new Map();
}
