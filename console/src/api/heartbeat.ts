// Detects an unresponsive server, from the time of the last data: of the live stream or of any response.

import { useSyncExternalStore } from "react";

/** Interval of the check. */
const CHECK_INTERVAL_MS = 500;
/** Silence after which the server is probed, and after which the console reports it. */
const PROBE_AFTER_MS = 2000;
export const SILENT_AFTER_MS = 4000;
/** Timeout of a probe. */
const PROBE_TIMEOUT_MS = 2000;

/** Tracks the silence of the server. */
export class Heartbeat {
  #lastData: number;
  #ticked: number;

  constructor(now: number) {
    this.#lastData = now;
    this.#ticked = now;
  }

  received(now: number): void {
    this.#lastData = now;
  }

  /** Called every [`CHECK_INTERVAL_MS`]: whether to probe the server, and since when it is silent. */
  tick(now: number): { probe: boolean; since?: number } {
    // After a sleep of the machine or tab, the silence does not concern the server.
    if (now - this.#ticked > PROBE_AFTER_MS) this.#lastData = now;
    this.#ticked = now;
    const silent = now - this.#lastData;
    return { probe: silent >= PROBE_AFTER_MS, ...(silent >= SILENT_AFTER_MS ? { since: this.#lastData } : {}) };
  }
}

const heartbeat = new Heartbeat(Date.now());
const listeners = new Set<() => void>();
let since: number | undefined;
let timer: ReturnType<typeof setInterval> | undefined;
let isProbing = false;

function set(next: number | undefined) {
  if (next === since) return;
  since = next;
  for (const listener of listeners) listener();
}

/** Data was received from the server. */
export function dataReceived(): void {
  heartbeat.received(Date.now());
  set(undefined);
}

async function probe() {
  if (isProbing) return;
  isProbing = true;
  try {
    await fetch("/healthz", { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS), cache: "no-store" });
    dataReceived();
  } catch {
    // No response: the silence continues.
  } finally {
    isProbing = false;
  }
}

function tick() {
  const { probe: isDue, since: silent } = heartbeat.tick(Date.now());
  if (isDue) void probe();
  set(silent);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (listeners.size === 1) {
    heartbeat.received(Date.now());
    timer = setInterval(tick, CHECK_INTERVAL_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) clearInterval(timer);
  };
}

/** Start of the silence in milliseconds since 1970; undefined while the server responds. */
export function useSilence(): number | undefined {
  return useSyncExternalStore(subscribe, () => since);
}
