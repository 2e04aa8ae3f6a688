// A body, set out: a short one at once, a long one by a worker.

import { useEffect, useMemo, useState } from "react";
import { type Body, type SetOut, setOut } from "./set-out";

/** A body that is longer takes a while. */
const SHORT = 100_000;

let worker: Worker | undefined;
let numbers = 0;
const waiting = new Map<number, { body: Body; tell: (shown: SetOut) => void }>();

/** Has it set out; the call that is given back forgets it. */
function ask(body: Body, tell: (shown: SetOut) => void): () => void {
  if (!worker) {
    worker = new Worker(new URL("./set-out-worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<{ number: number; shown: SetOut }>) => {
      waiting.get(event.data.number)?.tell(event.data.shown);
      waiting.delete(event.data.number);
    };
    // Without one it takes a moment, and is shown all the same.
    worker.onerror = () => {
      for (const [number, one] of waiting) {
        waiting.delete(number);
        one.tell(setOut(one.body));
      }
    };
  }
  numbers += 1;
  const number = numbers;
  waiting.set(number, { body, tell });
  worker.postMessage({ number, body });
  return () => waiting.delete(number);
}

export function useSetOut(body: Body): SetOut | undefined {
  const isShort = (body.text ?? body.base64 ?? "").length < SHORT;
  const now = useMemo(() => (isShort ? setOut(body) : undefined), [body, isShort]);
  const [later, setLater] = useState<SetOut>();
  useEffect(() => (isShort ? undefined : ask(body, setLater)), [body, isShort]);
  return now ?? later;
}
