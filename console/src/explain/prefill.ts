// A curl command that another page passes to the explain page. Not in the URL, because it may contain payload.

let prefillCommand: string | undefined;

/** Passes a curl command to the explain page. */
export function prefill(command: string): void {
  prefillCommand = command;
}

/** The passed command. It stays until a reload, as the page may be rendered twice. */
export function prefilled(): string {
  return prefillCommand ?? "";
}
