// Recognizes a complete transaction id in the search.

const WHOLE = /^(?:id:)?\s*"?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"?$/i;

/** The id, if the query consists of an id only. */
export function transactionId(query: string): string | undefined {
  return WHOLE.exec(query.trim())?.[1]?.toLowerCase();
}
