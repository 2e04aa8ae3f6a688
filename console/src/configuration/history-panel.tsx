// The list of configurations that were in force.

import { Link } from "@tanstack/react-router";
import { SilentNodes } from "../fleet/choice";
import { count } from "../format/format";
import { Named } from "../traffic/named";
import { visible } from "../transaction/text";
import { Badge, Empty, Panel, QueryState, Table, Time } from "../ui/parts";
import { useHistory } from "./history";
import type { Past } from "./past";

export function HistoryPanel() {
  const history = useHistory();
  const all = history.data?.configurations ?? [];
  const hasNodes = all.some((one) => one.node);
  const hasVersions = all.some((one) => one.version != null);
  const heads = ["Since", ...(hasNodes ? ["Node"] : []), "Configuration", ...(hasVersions ? ["Version"] : []), "By", "#Findings", "(Changes)"];
  return (
    <Panel title="Configurations that were in force" inside={false}>
      <QueryState query={history} what="the history" />
      <SilentNodes nodes={history.data?.nodes} />
      {history.data && all.length === 0 && <Empty title="No history is kept" />}
      {all.length > 0 && (
        <Table heads={heads}>
          {all.map((one) => (
            <tr key={`${one.node} ${one.number}`}>
              <td>
                <Time at={one.time} style="full" /> {!one.until && <Badge tone="good">in force</Badge>}
              </td>
              {hasNodes && <td className="wrap-any">{one.node}</td>}
              <td className="mono">
                <Named kind="configuration" name={one.configuration} />
              </td>
              {hasVersions && <td>{one.version ?? "own files"}</td>}
              <td className="wrap-any">{visible(one.by)}</td>
              <td className="num">{count(one.findings)}</td>
              <td>
                <PastLink one={one}>What changed</PastLink>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {history.data?.more && <p className="muted facet-more">There are earlier ones: `weir history --limit 500` lists them.</p>}
    </Panel>
  );
}

export function PastLink({ one, children }: { one: Past; children: string }) {
  return (
    <Link to="/configuration/$number" params={{ number: `${one.number}` }} search={(one.node ? { node: one.node } : {}) as never} preload={false}>
      {children}
    </Link>
  );
}

/** Below charts: the configurations that their marks stand for. */
export function Changes({ all }: { all: Past[] }) {
  if (all.length === 0) return null;
  const SHOWN = 10;
  return (
    <p className="muted changes">
      Configuration changed:{" "}
      {all.slice(0, SHOWN).map((one) => (
        <span key={`${one.node} ${one.number}`}>
          <Time at={one.time} />{" "}
          <PastLink one={one}>{one.version != null ? `version ${one.version}` : one.configuration}</PastLink>
          {one.node && ` on ${one.node}`}{" "}
        </span>
      ))}
      {all.length > SHOWN && `and ${all.length - SHOWN} more`}
    </p>
  );
}
