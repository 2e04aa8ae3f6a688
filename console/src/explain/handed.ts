// A request handed over by another page: not in the URL, because it may hold payload.

let handed: string | undefined;

/** Hands a curl command to the page that opens next. */
export function hand(command: string): void {
  handed = command;
}

/** What was handed over; it stays until the page is reloaded, as the page may be drawn twice. */
export function taken(): string {
  return handed ?? "";
}
