// The live stream: one connection for the whole console, while a page uses it.

import { useSyncExternalStore } from "react";
import { api, CSRF_HEADER, type Schemas } from "../api/client";
import { csrfToken } from "../api/csrf";
import { dataReceived } from "../api/heartbeat";

export type Pulse = Schemas["LiveSnapshot"];
type Connection = "connecting" | "on" | "off";

interface Live {
  connection: Connection;
  /** The last event. */
  pulse?: Pulse;
}

let live: Live = { connection: "connecting" };
let reading: AbortController | undefined;
let again: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

function set(next: Live) {
  live = next;
  for (const listener of listeners) listener();
}

/** A stream of events by `fetch`: an EventSource cannot send the CSRF token of the session. */
async function read(signal: AbortSignal): Promise<void> {
  const headers = { [CSRF_HEADER]: csrfToken() ?? "" };
  const response = await fetch("/v1/live", { headers, credentials: "same-origin", cache: "no-store", signal });
  // The session may have ended: this request reports that to the whole console.
  if (response.status === 401) void api.GET("/v1/session").catch(() => undefined);
  if (!response.ok || !response.body) throw new Error(`weir responded with ${response.status}`);
  set({ ...live, connection: "on" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      try {
        dataReceived();
        set({ connection: "on", pulse: JSON.parse(data.slice(6)) as Pulse });
      } catch {
        // An incomplete event is dropped.
      }
    }
  }
}

function open() {
  close();
  const mine = new AbortController();
  reading = mine;
  const over = (pause: number) => {
    if (reading !== mine) return;
    set({ ...live, connection: "off" });
    again = setTimeout(open, pause);
  };
  read(mine.signal).then(
    () => over(1000),
    () => over(3000),
  );
}

function close() {
  clearTimeout(again);
  reading?.abort();
  reading = undefined;
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

/** A part of the last event: a component that uses it is rendered again only when that part changes. */
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
