// The request to be explained, from the fields of the form.

import type { Schemas } from "../api/client";

export interface Form {
  method: string;
  target: string;
  headers: string;
  body: string;
  curl: string;
  client: string;
}

/** The request, or an error text. */
export function requestOf(form: Form): Schemas["Explain"] | string {
  const client = form.client.trim() === "" ? {} : { client: form.client.trim() };
  if (form.curl.trim() !== "") return { curl: form.curl, ...client };
  const headers: Schemas["Pair"][] = [];
  for (const [at, line] of form.headers.split("\n").entries()) {
    if (line.trim() === "") continue;
    const colon = line.indexOf(":");
    if (colon < 1) return `Line ${at + 1} of the headers is not NAME: VALUE.`;
    headers.push({ name: line.slice(0, colon).trim(), value: line.slice(colon + 1).trim() });
  }
  if (form.target.trim() === "") return "Enter a path or a curl command.";
  return { method: form.method.trim() || "GET", target: form.target.trim(), headers, body: form.body, ...client };
}
