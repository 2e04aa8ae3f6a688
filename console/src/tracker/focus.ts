// Request to focus the search bar as soon as it is rendered.

let isAsked = false;

export function requestFocus(): void {
  isAsked = true;
}

/** Whether the focus was requested since the last call. */
export function consumeFocusRequest(): boolean {
  const was = isAsked;
  isAsked = false;
  return was;
}
