// Findings of a configuration, each with its line.

import type { Schemas } from "../api/client";
import { visible } from "../transaction/text";
import { Badge } from "../ui/parts";

type Finding = Schemas["FindingInfo"];

export function Findings({ all }: { all: Finding[] }) {
  if (all.length === 0) return null;
  return (
    <ul className="findings">
      {all.map((finding, at) => (
        <li key={at} className={`notice ${finding.error ? "bad" : "warn"}`}>
          <div className="finding">
            <p>
              <Badge tone={finding.error ? "bad" : "warn"}>{finding.code}</Badge> {visible(finding.message)}
            </p>
            {finding.line > 0 && (
              <pre className="excerpt" tabIndex={0} aria-label={`Line ${finding.line} of ${finding.file}`}>
                <span className="muted">
                  {finding.file}:{finding.line}:{finding.column}
                </span>
                {"\n"}
                <Underlined finding={finding} />
              </pre>
            )}
            {finding.help && <p className="muted wrap-any">{visible(finding.help)}</p>}
          </div>
        </li>
      ))}
    </ul>
  );
}

/** The line with the location of the finding marked; columns are characters. */
function Underlined({ finding }: { finding: Finding }) {
  const characters = Array.from(finding.excerpt);
  const from = Math.max(0, finding.column - 1);
  const to = from + Math.max(1, finding.width);
  return (
    <bdo dir="ltr">
      {visible(characters.slice(0, from).join(""))}
      <mark className="wrong">{visible(characters.slice(from, to).join("")) || " "}</mark>
      {visible(characters.slice(to).join(""))}
    </bdo>
  );
}
