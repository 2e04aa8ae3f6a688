// Menus that are loaded when opened, below the button that opened them.

import type { RefObject } from "react";

/** Whether an event is one of the button: the button itself closes its menu. */
export function isInside(event: Event, anchor: RefObject<HTMLElement | null>): boolean {
  return event.target instanceof Node && anchor.current?.contains(event.target) === true;
}
