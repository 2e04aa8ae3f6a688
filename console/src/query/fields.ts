// Fields of the query language, for completion and help. The server's parser is authoritative.

export interface Field {
  name: string;
  help: string;
  /** Fixed values. */
  values?: string[];
  /** Facet with further values. */
  facet?: string;
}

export const FIELDS: Field[] = [
  { name: "status", help: "status of the response", values: ["2xx", "3xx", "4xx", "5xx", ">=400", ">=500", "404"], facet: "status" },
  { name: "state", help: "state of the transaction", values: ["completed", "failed", "interrupted"], facet: "state" },
  { name: "resolution", help: "resolution of a failure", values: ["open", "resubmitted", "resolved", "dismissed"] },
  { name: "api", help: "name of the API", facet: "api" },
  { name: "operation", help: "name of the operation", facet: "operation" },
  { name: "method", help: "method of the request", values: ["GET", "POST", "PUT", "PATCH", "DELETE"], facet: "method" },
  { name: "consumer", help: "name of the consumer", facet: "consumer" },
  { name: "principal", help: "subject of the credential" },
  { name: "upstream", help: "name of the upstream", facet: "receiver" },
  { name: "upstream_target", help: "target of the upstream", facet: "upstream_target" },
  { name: "plan", help: "plan of the consumer" },
  { name: "client", help: "address of the client" },
  { name: "problem", help: "problem that weir returned", facet: "problem" },
  { name: "detail", help: "auth method, limit or rule of the problem" },
  { name: "took", help: "duration", values: [">100ms", ">1s", ">5s", "<10ms"] },
  { name: "body", help: "words in a body" },
  { name: "header", help: "words in a header" },
  { name: "target", help: "words in path or query string" },
  { name: "key", help: "business key: key.NAME:value" },
  { name: "id", help: "transaction id, or its beginning" },
  { name: "since", help: "within the last …", values: ["15m", "1h", "1d"] },
  { name: "after", help: "received at or after", values: ["now-1h"] },
  { name: "before", help: "received before", values: ["now-15m"] },
];

/** A value, quoted if necessary. */
export function quoted(value: string): string {
  if (/^[\p{L}\p{N}_./@+-]+$/u.test(value) && !["OR", "AND", "NOT"].includes(value)) return value;
  return `"${value.replace(/\\/g, "\\\\").replace(/"/g, '\\"')}"`;
}

/** The term for a value of a facet. */
export function facetTerm(field: string, value: string): string {
  const name = field === "receiver" ? "upstream" : field;
  return value === "" ? `-${name}:*` : `${name}:${field === "status" && value === "none" ? value : quoted(value)}`;
}

/** Adds a term to a query, or removes the term if present. */
export function toggleTerm(query: string, term: string): string {
  const words = query.trim();
  const parts = split(words);
  if (parts.includes(term)) return parts.filter((part) => part !== term).join(" ");
  const needsParentheses = parts.includes("OR");
  return words ? `${needsParentheses ? `(${words})` : words} ${term}` : term;
}

/** Whether a query has a term at the top level. */
export function hasTerm(query: string, term: string): boolean {
  return split(query.trim()).includes(term);
}

/** The top-level parts of a query. */
function split(query: string): string[] {
  const parts: string[] = [];
  let part = "";
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < query.length; at += 1) {
    const c = query[at] as string;
    if (isQuoted && c === "\\") {
      part += c + (query[at + 1] ?? "");
      at += 1;
      continue;
    }
    if (c === '"') isQuoted = !isQuoted;
    if (!isQuoted && "([{".includes(c)) depth += 1;
    if (!isQuoted && ")]}".includes(c)) depth -= 1;
    if (/\s/.test(c) && !isQuoted && depth <= 0) {
      if (part) parts.push(part);
      part = "";
    } else {
      part += c;
    }
  }
  if (part) parts.push(part);
  return parts;
}

/** The words that a query searches in payloads, for highlighting. */
export function wordsOf(query: string): string[] {
  const found: string[] = [];
  const flat = split(query.trim()).flatMap((part) =>
    part.startsWith("(") && part.endsWith(")") ? split(part.slice(1, -1)) : [part],
  );
  for (const part of flat) {
    if (["OR", "AND", "NOT"].includes(part) || part.startsWith("-")) continue;
    const scoped = /^(?:body|header(?:\.[^:]+)?|target|key\.[^:]+):(.+)$/s.exec(part);
    const isOther = !scoped && /^[a-z_]+(?:\.[^:"]+)?:/.test(part);
    if (isOther) continue;
    let text = scoped?.[1] ?? part;
    if (text.startsWith('"')) text = text.slice(1, text.endsWith('"') ? -1 : undefined);
    text = text.replace(/\\(["\\])/g, "$1").trim();
    if (text && text !== "*") found.push(text);
  }
  return [...new Set(found)].slice(0, 16);
}
