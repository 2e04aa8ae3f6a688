// Gaps of recording and metering, at the top of every page.

import type { Schemas } from "../api/client";
import { count } from "../format/format";
import { useLive } from "../overview/live";

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

export function GapBanner() {
  const { pulse } = useLive();
  const words = missingWords(pulse?.missing);
  if (words.length === 0) return null;
  return (
    <p className="notice warn thin" role="status" data-gap>
      The journal was full in the last 24 hours: {words.join(", ")}.
    </p>
  );
}
