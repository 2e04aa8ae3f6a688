// Short messages about completed actions.

import { useSyncExternalStore } from "react";

interface Message {
  id: number;
  text: string;
  tone: "good" | "bad";
}

let messages: Message[] = [];
let next = 0;
const listeners = new Set<() => void>();

function set(all: Message[]) {
  messages = all;
  for (const listener of listeners) listener();
}

/** Shows a message for a few seconds. */
export function notify(text: string, tone: Message["tone"] = "good"): void {
  next += 1;
  const id = next;
  set([...messages, { id, text, tone }].slice(-3));
  setTimeout(() => set(messages.filter((one) => one.id !== id)), 6000);
}

export function Toasts() {
  const all = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => messages,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {all.map((one) => (
        <div key={one.id} className={`notice ${one.tone}`}>
          {one.text}
        </div>
      ))}
    </div>
  );
}
