// A recorded request as a curl command.

import type { Transaction } from "../api/client";

/** Headers that curl sets, or that belong to a connection. */
const OWN = new Set(["host", "content-length", "connection", "transfer-encoding", "accept-encoding"]);

/** A text as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

export interface Curl {
  command: string;
  /** Differences from the recorded request. */
  missing: string[];
}

/** The command and its differences; undefined without a payload. */
export function curl(transaction: Transaction): Curl | undefined {
  const { payload } = transaction;
  if (!payload) return undefined;
  const missing: string[] = [];
  const host = payload.request_headers.find((field) => field.name.toLowerCase() === "host")?.value;
  const target = payload.target.startsWith("/") ? payload.target : `/${payload.target}`;
  const words = ["curl", "-i", "--path-as-is"];
  if (transaction.method !== "GET") words.push(transaction.method === "HEAD" ? "--head" : `-X ${shellWord(transaction.method)}`);
  words.push(shellWord(`http://${host ?? "127.0.0.1:8080"}${target}`));
  for (const { name, value } of payload.request_headers) {
    if (OWN.has(name.toLowerCase())) continue;
    if (value.includes("***")) {
      missing.push(`the header ${name} is redacted`);
      continue;
    }
    words.push(`-H ${shellWord(`${name}: ${value}`)}`);
  }
  if (payload.target.includes("***")) missing.push("a part of the query string is redacted");
  const facts = transaction.request;
  const body = payload.request_body;
  if (facts.length > 0) {
    const isWhole = !facts.truncated && !facts.masked && !facts.withheld && !facts.aborted && !body.cut;
    if (body.text != null && isWhole && !body.text.includes("\0")) words.push(`--data-binary ${shellWord(body.text)}`);
    else missing.push(facts.masked ? "values of the body are redacted" : "the body is not text, or was not recorded completely");
    if (body.decoded_from) missing.push(`the body was sent with content coding ${body.decoded_from}`);
  }
  return { command: words.join(" \\\n  "), missing };
}
