// Comparison of two runs.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { Schemas } from "../api/client";
import { percent, short } from "../format/format";
import { Icon } from "../ui/icons";
import { Badge, Panel, QueryState, Reasons, Table } from "../ui/parts";
import { useTitle } from "../ui/title";
import { compareQuery, TONES } from "./queries";

export function LabComparePage() {
  const { before = "", after = "" } = useSearch({ strict: false }) as { before?: string; after?: string };
  const navigate = useNavigate();
  const result = useQuery(compareQuery(before, after));
  useTitle("Comparison");
  return (
    <>
      <div className="page-head">
        <Link to="/lab" className="button quiet small">
          <Icon name="back" size={15} />
          Lab
        </Link>
        <h1>Comparison</h1>
        {result.data?.cases.some((one) => one.judgement !== "incomparable") && <Badge tone={TONES[result.data.verdict] ?? ""}>{result.data.verdict}</Badge>}
        <span className="grow" />
        <button type="button" className="button small" onClick={() => void navigate({ to: "/lab/compare", search: { before: after, after: before } as never })}>
          Swap
        </button>
      </div>
      <p>
        Before:{" "}
        <Link to="/lab/$run" params={{ run: before }} className="wrap-any">
          {before}
        </Link>
        . After:{" "}
        <Link to="/lab/$run" params={{ run: after }} className="wrap-any">
          {after}
        </Link>
        .
      </p>
      <QueryState query={result} what="the comparison" />
      {result.data && <Compared all={result.data} />}
    </>
  );
}

function Compared({ all }: { all: Schemas["LabComparison"] }) {
  return (
    <>
      <Reasons all={[...all.differences, ...all.others]} />
      <Panel title="Comparison by case" inside={false} actions={<span className="muted">regression margin {percent(all.margin, 1)}, 95 % confidence intervals</span>}>
        <Table heads={["Case", "Throughput", "#Before", "#After", "#After / before", "#Confidence interval", "#Response times, before → after", "#Errors"]}>
          {all.cases.map((one) => (
            <tr key={one.name}>
              <td className="wrap-any">{one.name || "all requests"}</td>
              <td>
                <Badge tone={TONES[one.judgement] ?? ""}>{one.judgement}</Badge>
              </td>
              <td className="num">{one.before == null ? "–" : `${short(one.before)}/s`}</td>
              <td className="num">{one.after == null ? "–" : `${short(one.after)}/s`}</td>
              <td className="num">{one.ratio ? one.ratio[0]?.toFixed(3) : "–"}</td>
              <td className="num">{one.ratio ? `${one.ratio[1]?.toFixed(3)} to ${one.ratio[2]?.toFixed(3)}` : "too few rounds"}</td>
              <td className="num">
                {one.times.map((time) => (
                  <p key={time.name}>
                    <span className="muted">{time.name}</span> {short(time.before)} → {short(time.after)} ms
                  </p>
                ))}
              </td>
              <td className="num">
                {percent(one.errors[0] ?? 0, 1)} → {percent(one.errors[1] ?? 0, 1)}
              </td>
            </tr>
          ))}
        </Table>
      </Panel>
    </>
  );
}
