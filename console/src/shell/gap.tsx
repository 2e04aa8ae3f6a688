// Gaps of recording and metering, in words.

import type { Schemas } from "../api/client";
import { count } from "../format/format";

export type Missing = Schemas["Gap"];

/** Descriptions of the gaps; empty without any. */
export function missingWords(missing: Missing | undefined): string[] {
  const { unrecorded = 0, shortened = 0, uncounted = 0 } = missing ?? {};
  const words: string[] = [];
  if (unrecorded > 0) words.push(`${count(unrecorded)} requests were not recorded`);
  if (shortened > 0) words.push(`${count(shortened)} were recorded without all of their headers and bodies`);
  if (uncounted > 0) words.push(`${count(uncounted)} calls were not metered`);
  return words;
}
