// Layout of a body: immediately for a short one, by a worker for a long one.

import { useEffect, useMemo, useState } from "react";
import { type Body, type Layout, layOut } from "./body-layout";

/** Longer bodies are laid out by the worker. */
const SHORT = 100_000;

let worker: Worker | undefined;
let numbers = 0;
const waiting = new Map<number, { body: Body; done: (shown: Layout) => void }>();

/** Starts the layout in the worker; the returned function cancels it. */
function layOutInWorker(body: Body, done: (shown: Layout) => void): () => void {
  if (!worker) {
    worker = new Worker(new URL("./body-layout-worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<{ number: number; shown: Layout }>) => {
      waiting.get(event.data.number)?.done(event.data.shown);
      waiting.delete(event.data.number);
    };
    // Fallback without a worker.
    worker.onerror = () => {
      for (const [number, one] of waiting) {
        waiting.delete(number);
        one.done(layOut(one.body));
      }
    };
  }
  numbers += 1;
  const number = numbers;
  waiting.set(number, { body, done });
  worker.postMessage({ number, body });
  return () => waiting.delete(number);
}

export function useBodyLayout(body: Body): Layout | undefined {
  const isShort = (body.text ?? body.base64 ?? "").length < SHORT;
  const now = useMemo(() => (isShort ? layOut(body) : undefined), [body, isShort]);
  const [later, setLater] = useState<Layout>();
  useEffect(() => (isShort ? undefined : layOutInWorker(body, setLater)), [body, isShort]);
  return now ?? later;
}
