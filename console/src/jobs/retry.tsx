// Dialog for a job that retries those transactions of another one that failed.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Job } from "../api/client";
import { count } from "../format/format";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Failure } from "../ui/parts";
import { inState, type ItemState, retry } from "./queries";

const CHOICES: { label: string; states: ItemState[]; note: string }[] = [
  { label: "Failed", states: ["failed"], note: "sent, and the response was an error" },
  { label: "Unknown", states: ["unknown"], note: "they may have arrived: check the upstream first" },
  { label: "Rejected", states: ["cannot", "refused"], note: "not sent, for a reason that may have passed" },
  { label: "Cancelled", states: ["cancelled"], note: "not sent, as the job was cancelled" },
];

export function RetryDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const offered = CHOICES.filter((choice) => inState(job, ...choice.states) > 0);
  const [chosen, setChosen] = useState(() => new Set(offered.filter((choice) => choice.label === "Failed").map((choice) => choice.label)));
  const [again, setAgain] = useState(false);
  const [rate, setRate] = useState(String(job.rate));
  const navigate = useNavigate();
  const queries = useQueryClient();
  const selected = offered.filter((choice) => chosen.has(choice.label));
  const create = useMutation({
    mutationFn: () => retry(job.number, { states: selected.flatMap((choice) => choice.states), rate: Number(rate), again }),
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job", job.number] });
      onClose();
      void navigate({ to: "/jobs/$number", params: { number: String(made.number) } });
    },
  });
  const toggle = (label: string) => {
    const next = new Set(chosen);
    if (!next.delete(label)) next.add(label);
    setChosen(next);
  };
  return (
    <Dialog
      title={`Retry job ${job.number}`}
      open
      onClose={onClose}
      footer={<DialogButtons action="Preview" disabled={selected.length === 0 || !(Number(rate) > 0) || create.isPending} onAction={() => create.mutate()} onCancel={onClose} />}
    >
      <p>A new job is created. Nothing is sent before you run it. What was sent, resolved or dismissed since is left out unless you include it.</p>
      <fieldset className="choices">
        <legend className="sr-only">Transactions</legend>
        {offered.map((choice) => (
          <label key={choice.label} className="row">
            <input type="checkbox" checked={chosen.has(choice.label)} onChange={() => toggle(choice.label)} />
            <strong>
              {choice.label} ({count(inState(job, ...choice.states))})
            </strong>{" "}
            <span className="muted">{choice.note}</span>
          </label>
        ))}
      </fieldset>
      <label className="row">
        <input type="checkbox" checked={again} onChange={(event) => setAgain(event.target.checked)} />
        Also what was sent, resolved or dismissed since
      </label>
      <label className="field">
        Requests per second
        <input type="number" min="0.1" max="100000" step="any" value={rate} onChange={(event) => setRate(event.target.value)} />
      </label>
      {create.isError && <Failure error={create.error} />}
    </Dialog>
  );
}
