// Whether the server responds: when it was heard last, by the live stream or by any response.

import { useSyncExternalStore } from "react";

/** How often it is looked whether the server was heard. */
const TICK = 500;
/** Silence after which the server is asked for a sign of life, and after which the console says so. */
const ASK = 2000;
export const SILENT = 4000;
/** Longest time for that sign. */
const PATIENCE = 2000;

/** When the server was heard last, and whether that is too long ago. */
export class Heartbeat {
  #heard: number;
  #ticked: number;

  constructor(now: number) {
    this.#heard = now;
    this.#ticked = now;
  }

  hear(now: number): void {
    this.#heard = now;
  }

  /** To be called every [`TICK`]: whether the server is to be asked, and since when it is silent. */
  tick(now: number): { ask: boolean; since?: number } {
    // A machine or tab that slept heard nothing meanwhile: that says nothing about the server.
    if (now - this.#ticked > ASK) this.#heard = now;
    this.#ticked = now;
    const silent = now - this.#heard;
    return { ask: silent >= ASK, ...(silent >= SILENT ? { since: this.#heard } : {}) };
  }
}

const heartbeat = new Heartbeat(Date.now());
const listeners = new Set<() => void>();
let since: number | undefined;
let timer: ReturnType<typeof setInterval> | undefined;
let isAsking = false;

function set(next: number | undefined) {
  if (next === since) return;
  since = next;
  for (const listener of listeners) listener();
}

/** Something came from the server. */
export function heard(): void {
  heartbeat.hear(Date.now());
  set(undefined);
}

async function ask() {
  if (isAsking) return;
  isAsking = true;
  try {
    await fetch("/healthz", { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" });
    heard();
  } catch {
    // No answer: the silence goes on.
  } finally {
    isAsking = false;
  }
}

function tick() {
  const { ask: wanted, since: silent } = heartbeat.tick(Date.now());
  if (wanted) void ask();
  set(silent);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (listeners.size === 1) {
    heartbeat.hear(Date.now());
    timer = setInterval(tick, TICK);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) clearInterval(timer);
  };
}

/** Since when the server does not respond, in milliseconds since 1970; nothing while it does. */
export function useSilence(): number | undefined {
  return useSyncExternalStore(subscribe, () => since);
}
