// Where the stages of a transaction stand in time.

export interface Stage {
  name: string;
  took_us: number;
}

export interface Placed extends Stage {
  /** Begin in microseconds after the request's head. */
  from: number;
}

/** Stages that are a part of another one, and which. */
const PART_OF: Record<string, string> = { connect: "first-byte", "response-map": "answer" };

/** Stages one after the other; the answer ends at the end; what is part of another begins with it. */
export function place(stages: Stage[], total: number): Placed[] {
  const own = stages.filter((stage) => stage.name !== "total");
  const took = (name: string) => own.find((stage) => stage.name === name)?.took_us;
  const answer = took("answer");
  const first = took("first-byte");
  const begins: Record<string, number> = {};
  let end = 0;
  for (const stage of own) {
    if (PART_OF[stage.name] && took(PART_OF[stage.name] as string) !== undefined) continue;
    let from = end;
    if (stage.name === "answer") from = Math.max(0, total - stage.took_us);
    if (stage.name === "first-byte" && answer !== undefined && first !== undefined) from = Math.max(end, total - answer - first);
    begins[stage.name] = from;
    end = from + stage.took_us;
  }
  return own.map((stage) => ({ ...stage, from: begins[stage.name] ?? begins[PART_OF[stage.name] ?? ""] ?? 0 }));
}
