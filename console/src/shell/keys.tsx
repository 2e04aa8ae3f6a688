// Keyboard shortcuts: single keys, and `g` followed by another key; inactive in text fields.

import { useEffect, useRef } from "react";

const FOLLOWS = 1200;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Whether a key activates the focused element, such as a link. */
function activates(key: string, target: EventTarget | null): boolean {
  return (key === "Enter" || key === " ") && target instanceof Element && target.closest("a, button, summary, [role=link], [role=button]") !== null;
}

/**
 * Registers callbacks by key: `j`, `?`, `g t`; `Mod+k` with Ctrl or Command, in text fields, too. One that
 * returns `false` did nothing: the key keeps its usual effect.
 */
export function useKeys(keys: Record<string, () => void | false>): void {
  const known = useRef(keys);
  known.current = keys;
  useEffect(() => {
    let first = "";
    let at = 0;
    const pressed = (event: KeyboardEvent) => {
      if (event.altKey || event.defaultPrevented) return;
      const isModified = event.ctrlKey || event.metaKey;
      const modified = known.current[`Mod+${event.key}`];
      if (isModified && modified && !document.querySelector("[role=dialog]")) {
        event.preventDefault();
        modified();
      }
      if (isModified) return;
      if (isTyping(event.target) || activates(event.key, event.target) || document.querySelector("[role=dialog]")) return;
      const pair = Date.now() - at < FOLLOWS && first ? `${first} ${event.key}` : "";
      const call = known.current[pair] ?? known.current[event.key];
      first = event.key;
      at = Date.now();
      if (call && call() !== false) event.preventDefault();
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
