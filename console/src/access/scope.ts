// Scopes of tokens and accounts, in words.

import type { Schemas } from "../api/client";

type Scope = Schemas["TokenScope"];

/** In a few words, such as `orders; metadata`. */
export function scopeWords({ apis = [], depth = "payloads", resubmit = true }: Partial<Scope>): string {
  const words = [...(apis.length > 0 ? [apis.join(", ")] : []), ...(depth === "payloads" ? [] : [depth]), ...(resubmit ? [] : ["no resubmission"])];
  return words.length > 0 ? words.join("; ") : "everything";
}
