// Differences of two texts by line.

import type { Change } from "./diff";
import { visible } from "./text";

const AROUND = 2;
const SIGNS = { same: " ", removed: "−", added: "+" };

/** Changed lines with those around them. Equal parts are left out. */
export function Diff({ changes, label = "Differences" }: { changes: Change[]; label?: string }) {
  const near = changes.map((_, at) => changes.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((change) => change.kind !== "same"));
  return (
    <div className="diff" tabIndex={0} role="region" aria-label={label}>
      {changes.map((change, at) =>
        near[at] ? (
          <div key={at} className={change.kind}>
            <span aria-hidden="true">{SIGNS[change.kind]}</span>
            <bdo dir="ltr">
              {change.kind !== "same" && <span className="sr-only">{change.kind}: </span>}
              {visible(change.text).slice(0, 2000)}
            </bdo>
          </div>
        ) : near[at - 1] ? (
          <div key={at} className="muted">
            ⋯
          </div>
        ) : null,
      )}
    </div>
  );
}
