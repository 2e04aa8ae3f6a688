// Differences of two texts by line.

import { count } from "../format/format";
import { type DiffLine, excerpt } from "./diff";
import { visible } from "./text";

const SIGNS = { same: " ", removed: "−", added: "+" };
/** Characters of a line that are shown. */
const MAX_LINE = 2000;

/** Changed lines with those around them. Equal parts are left out. */
export function Diff({ lines, label = "Differences" }: { lines: DiffLine[]; label?: string }) {
  return (
    <div className="diff" tabIndex={0} role="region" aria-label={label}>
      {lines.map((line, at) =>
        line.kind === "gap" ? (
          <div key={at} className="muted">
            ⋯
          </div>
        ) : (
          <div key={at} className={line.kind}>
            <span aria-hidden="true">{SIGNS[line.kind]}</span>
            <bdo dir="ltr">
              {line.kind !== "same" && <span className="sr-only">{line.kind}: </span>}
              <Part text={line.text} other={line.other} most={MAX_LINE} />
            </bdo>
          </div>
        ),
      )}
    </div>
  );
}

/** A text of limited length around its first difference from another one. What is not shown is said. */
export function Part({ text, other, most }: { text: string; other: string | undefined; most: number }) {
  const part = excerpt(text, other, most);
  return (
    <>
      {part.before > 0 && <span className="muted">({count(part.before)} characters before) … </span>}
      {visible(part.text)}
      {part.after > 0 && <span className="muted"> … ({count(part.after)} characters after)</span>}
    </>
  );
}
