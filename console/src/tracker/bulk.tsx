// Dialog for a bulk resubmission of the result of a search, which starts with a preview.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data, type Job } from "../api/client";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Failure } from "../ui/parts";

export function BulkDialog({ query, onClose }: { query: string; onClose: () => void }) {
  const [rate, setRate] = useState("10");
  const [again, setAgain] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: () => data<Job>(api.POST("/v1/jobs", { body: { query, rate: Number(rate), again, run: false, to: null } })),
    onSuccess: (job) => {
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void navigate({ to: "/jobs/$number", params: { number: String(job.number) } });
    },
  });
  const isRate = Number(rate) > 0;
  return (
    <Dialog
      title="Resubmit all results"
      open
      onClose={onClose}
      footer={<DialogButtons action="Preview" disabled={!isRate || create.isPending} onAction={() => create.mutate()} onCancel={onClose} />}
    >
      <p>Nothing is sent yet: the preview shows the transactions that can be sent, and the rejection reasons of the others. Run the job from there.</p>
      <p>
        <code className="wrap-any">{query}</code>
      </p>
      <label className="field">
        Requests per second
        <input type="number" min="0.1" max="100000" step="any" value={rate} onChange={(event) => setRate(event.target.value)} />
      </label>
      <label className="row">
        <input type="checkbox" checked={again} onChange={(event) => setAgain(event.target.checked)} />
        Include transactions that are settled, succeeded, or were possibly sent already
      </label>
      {create.isError && <Failure error={create.error} />}
    </Dialog>
  );
}
