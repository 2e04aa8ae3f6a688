// The live stream: one connection for the whole console, as long as somebody looks.

import { useSyncExternalStore } from "react";
import type { Schemas } from "../api/client";

export type Pulse = Schemas["Pulse"];
type Connection = "connecting" | "on" | "off";

interface Live {
  connection: Connection;
  /** The last one. */
  pulse?: Pulse;
}

let live: Live = { connection: "connecting" };
let source: EventSource | undefined;
let again: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

function set(next: Live) {
  live = next;
  for (const listener of listeners) listener();
}

function open() {
  close();
  source = new EventSource("/v1/live");
  source.onopen = () => set({ ...live, connection: "on" });
  source.onmessage = (event) => {
    try {
      set({ connection: "on", pulse: JSON.parse(event.data as string) as Pulse });
    } catch {
      // Half a message is none.
    }
  };
  source.onerror = () => {
    set({ ...live, connection: "off" });
    // The browser tries again by itself, unless it was refused.
    if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, 3000);
  };
}

function close() {
  clearTimeout(again);
  source?.close();
  source = undefined;
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  if (listeners.size === 1) open();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) close();
  };
}

export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => live);
}

/** A part of the last message: who uses it is drawn again only when that part is another one. */
export function usePulse<T extends string | number | boolean | undefined>(part: (pulse: Pulse) => T): T | undefined {
  return useSyncExternalStore(subscribe, () => (live.pulse ? part(live.pulse) : undefined));
}

const WORDS: Record<Connection, string> = { connecting: "Connecting", on: "Live", off: "No connection" };

export function LiveSign() {
  const connection = useSyncExternalStore(subscribe, () => live.connection);
  const draining = usePulse((pulse) => !pulse.ready);
  return (
    <span className={`live ${draining ? "off" : connection}`} role="status">
      <i aria-hidden="true" />
      {draining ? "Draining" : WORDS[connection]}
    </span>
  );
}
