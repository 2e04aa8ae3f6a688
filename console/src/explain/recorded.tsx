// Explains the outcome of a recorded transaction from its record.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import { api, data, type Schemas } from "../api/client";
import { duration } from "../format/format";
import { Badge, Failure, Loading, Panel, Status, Time } from "../ui/parts";

type Explanation = Schemas["RecordedExplanation"];

const TITLES: Record<Explanation["outcome"], string> = { answered: "Completed", problem: "Problem returned by weir", "broken-off": "Aborted" };

export function Recorded({ id }: { id: string }) {
  const result = useQuery({
    queryKey: ["explanation", id],
    queryFn: () => data<Explanation>(api.GET("/v1/transactions/{id}/explanation", { params: { path: { id } } })),
  });
  if (result.isPending) return <Loading what="the record" />;
  if (result.isError) return <Failure error={result.error} retry={() => void result.refetch()} />;
  return <Outcome explanation={result.data} />;
}

function Outcome({ explanation }: { explanation: Explanation }) {
  const { problem } = explanation;
  const tone = problem || explanation.outcome === "broken-off" ? "bad" : explanation.status >= 400 ? "warn" : "good";
  const facts: [string, string][] = [
    ["Route", explanation.operation ? `${explanation.operation} of ${explanation.api}` : explanation.api ? `none of ${explanation.api}` : "none (no API)"],
    ["Caller", [explanation.consumer || "anonymous", explanation.principal].filter(Boolean).join(" · ")],
    ["Client", explanation.client ?? ""],
    ["Upstream", explanation.upstream ?? ""],
    ["Retries", explanation.retries > 0 ? `${explanation.retries}` : ""],
    ["Detail", problem?.detail ?? ""],
    ["Fault", problem?.fault ?? ""],
    ["Retry", problem?.retry ?? ""],
    ["Duration by stage", explanation.stages.map((stage) => `${stage.name} ${duration(stage.took_us)}`).join(", ")],
  ];
  return (
    <Panel
      title="Recorded outcome"
      actions={
        <Link to="/transactions/$id" params={{ id: explanation.id }} preload={false}>
          Show the transaction
        </Link>
      }
    >
      <div className={`notice ${tone}`} role="status">
        <div>
          <strong>{TITLES[explanation.outcome]}</strong> {explanation.status > 0 && <Status status={explanation.status} />} {problem && <Badge tone="warn">{problem.code}</Badge>} <Time at={explanation.time} style="full" />
          <br />
          {explanation.why}
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
