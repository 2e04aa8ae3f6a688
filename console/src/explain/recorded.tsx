// What happened to a recorded transaction, by its record: nothing is simulated.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import { api, data, type Schemas } from "../api/client";
import { duration } from "../format/format";
import { Badge, Failure, Loading, Panel, Status, Time } from "../ui/parts";

type Explanation = Schemas["RecordedExplanation"];

const TITLES: Record<Explanation["outcome"], string> = { answered: "Answered", problem: "weir answered with a problem", "broken-off": "Broken off" };

export function Recorded({ id }: { id: string }) {
  const asked = useQuery({
    queryKey: ["explanation", id],
    queryFn: () => data<Explanation>(api.GET("/v1/transactions/{id}/explanation", { params: { path: { id } } })),
  });
  if (asked.isPending) return <Loading what="the record" />;
  if (asked.isError) return <Failure error={asked.error} retry={() => void asked.refetch()} />;
  return <What told={asked.data} />;
}

function What({ told }: { told: Explanation }) {
  const { problem } = told;
  const tone = problem || told.outcome === "broken-off" ? "bad" : told.status >= 400 ? "warn" : "good";
  const facts: [string, string][] = [
    ["Route", told.operation ? `${told.operation} of ${told.api}` : told.api ? `none of ${told.api}` : "none, and no API"],
    ["Caller", [told.consumer || "nobody in particular", told.principal].filter(Boolean).join(" · ")],
    ["Client", told.client ?? ""],
    ["Upstream", told.upstream ?? ""],
    ["Sent again", told.retries > 0 ? `${told.retries} times` : ""],
    ["About", problem?.detail ?? ""],
    ["At fault", problem?.fault ?? ""],
    ["Sending it again", problem?.retry ?? ""],
    ["Took", told.stages.map((stage) => `${stage.name} ${duration(stage.took_us)}`).join(", ")],
  ];
  return (
    <Panel
      title="What happened to it"
      actions={
        <Link to="/transactions/$id" params={{ id: told.id }} preload={false}>
          The transaction
        </Link>
      }
    >
      <div className={`notice ${tone}`} role="status">
        <div>
          <strong>{TITLES[told.outcome]}</strong> {told.status > 0 && <Status status={told.status} />} {problem && <Badge tone="warn">{problem.code}</Badge>} <Time at={told.time} style="full" />
          <br />
          {told.why}
        </div>
      </div>
      <dl className="facts">
        {facts.map(
          ([name, value]) =>
            value !== "" && (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd className="wrap-any">{value}</dd>
              </Fragment>
            ),
        )}
      </dl>
    </Panel>
  );
}
