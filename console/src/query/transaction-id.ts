// Recognizes a transaction id, or its first characters, in the search.

const WHOLE = /^(?:id:)?\s*"?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"?$/i;
/** After `id:` four digits or more; without it eight or more, as ids begin, or with the first hyphen. */
const PART = /^(?:id:([0-9a-f]{4}[0-9a-f-]{0,31})|(01[0-9a-f]{6}[0-9a-f-]{0,27}|[0-9a-f]{8}-[0-9a-f-]{0,26}))…?$/i;

/** The id, if the query consists of an id only. */
export function transactionId(query: string): string | undefined {
  return WHOLE.exec(query.trim())?.[1]?.toLowerCase();
}

/** The first characters of an id, if the query consists of them only. */
export function idPrefix(query: string): string | undefined {
  if (transactionId(query)) return undefined;
  const found = PART.exec(query.trim());
  return (found?.[1] ?? found?.[2])?.toLowerCase();
}
