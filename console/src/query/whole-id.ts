// A whole transaction id that was pasted into the search.

const WHOLE = /^(?:id:)?\s*"?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"?$/i;

/** The id that a query is, and nothing else. */
export function wholeId(query: string): string | undefined {
  return WHOLE.exec(query.trim())?.[1]?.toLowerCase();
}
