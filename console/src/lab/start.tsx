// Dialog that starts a suite against a listener of this server, within limits.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../api/client";
import { span } from "../format/format";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Failure } from "../ui/parts";
import { type LabProgress, type LabState, progressQuery } from "./queries";

const LEVELS = ["quick", "usual", "full"];

export function StartDialog({ lab, onClose }: { lab: LabState; onClose: () => void }) {
  const preselected = lab.suites.find((suite) => suite.missing.length === 0) ?? lab.suites[0];
  const [form, setForm] = useState({ suite: preselected?.name ?? "", level: "quick", target: lab.targets[0] ?? "", rate: "200", seconds: "60" });
  const [confirmed, setConfirmed] = useState(false);
  const queries = useQueryClient();
  const start = useMutation({
    mutationFn: () => data<LabProgress>(api.POST("/v1/lab/run", { body: { ...form, rate: Number(form.rate), seconds: Number(form.seconds) } }) as Promise<{ data?: LabProgress }>),
    onSuccess: (progress) => {
      queries.setQueryData(progressQuery.queryKey, progress);
      onClose();
    },
  });
  const field = (name: keyof typeof form) => ({ value: form[name], onChange: (event: { target: { value: string } }) => setForm({ ...form, [name]: event.target.value }) });
  const suite = lab.suites.find((one) => one.name === form.suite);
  const within = (text: string, max: number) => Number.isInteger(Number(text)) && Number(text) >= 1 && Number(text) <= max;
  const isRight = within(form.rate, lab.most_rate) && within(form.seconds, lab.most_seconds);
  return (
    <Dialog
      title="Start a load test on this server"
      open
      onClose={onClose}
      footer={<DialogButtons action="Start" danger disabled={!confirmed || !isRight || start.isPending} onAction={() => start.mutate()} onCancel={onClose} />}
    >
      <p className="notice warn">
        <strong>This is real load.</strong> The generator uses CPU time of this machine. Its requests are served, recorded and metered like those of clients, whose response times may increase. The results include the effect of the generator itself.
      </p>
      <label className="field">
        Suite
        <select {...field("suite")}>
          {lab.suites.map((one) => (
            <option key={one.name} value={one.name}>
              {one.name}
            </option>
          ))}
        </select>
        <small>{suite?.about}</small>
      </label>
      {suite && suite.missing.length > 0 && (
        <p className="notice bad">
          <strong>This server has no route for {suite.missing.length === suite.requests.length ? "the requests of the suite" : "some requests of the suite"}:</strong> <code className="wrap-any">{suite.missing.join(", ")}</code>{" "}
          <span>Each of them would be an error. The configuration of the suite has the routes.</span>
        </p>
      )}
      <label className="field">
        Length
        <select {...field("level")}>
          {LEVELS.map((level, at) => (
            <option key={level} value={level}>
              {level}, about {suite?.lengths[at]}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        Listener
        <select {...field("target")}>
          {lab.targets.map((target) => (
            <option key={target} value={target}>
              {target}
            </option>
          ))}
        </select>
      </label>
      <div className="row">
        <label className="field grow">
          Maximum requests per second
          <input type="number" min="1" max={lab.most_rate} {...field("rate")} />
          <small>1 to {lab.most_rate}</small>
        </label>
        <label className="field grow">
          Maximum time in seconds
          <input type="number" min="1" max={lab.most_seconds} {...field("seconds")} />
          <small>1 to {lab.most_seconds}, which is {span(lab.most_seconds)}</small>
        </label>
      </div>
      <label className="row">
        <input type="checkbox" checked={confirmed} onChange={(event) => setConfirmed(event.target.checked)} />
        Start this load test on {form.target}
      </label>
      {start.isError && <Failure error={start.error} />}
    </Dialog>
  );
}
