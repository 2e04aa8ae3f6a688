// Positions of the stages of a transaction in time.

export interface Stage {
  name: string;
  took_us: number;
}

export interface PositionedStage extends Stage {
  /** Start in microseconds after the request head. */
  from: number;
}

/** Stages that are a part of another stage. */
const PART_OF: Record<string, string> = { connect: "first-byte", "response-map": "answer" };

/** Stages in sequence. The stage `answer` ends with the transaction; a part starts with its stage. */
export function position(stages: Stage[], total: number): PositionedStage[] {
  const own = stages.filter((stage) => stage.name !== "total");
  const took = (name: string) => own.find((stage) => stage.name === name)?.took_us;
  const response = took("answer");
  const first = took("first-byte");
  const starts: Record<string, number> = {};
  let end = 0;
  for (const stage of own) {
    if (PART_OF[stage.name] && took(PART_OF[stage.name] as string) !== undefined) continue;
    let from = end;
    if (stage.name === "answer") from = Math.max(0, total - stage.took_us);
    if (stage.name === "first-byte" && response !== undefined && first !== undefined) from = Math.max(end, total - response - first);
    starts[stage.name] = from;
    end = from + stage.took_us;
  }
  return own.map((stage) => ({ ...stage, from: starts[stage.name] ?? starts[PART_OF[stage.name] ?? ""] ?? 0 }));
}
