// Resubmission of a transaction, unchanged or edited, with its differences. Also sets the resolution.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, type Attempt, data, type Schemas, type Transaction } from "../api/client";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Failure } from "../ui/parts";
import { notify } from "../ui/toast";
import { diff, linesOf } from "./diff";
import { Diff } from "./diff-view";
import { prettyJson } from "./text";

type Edits = Schemas["ResubmitBody"];
type Line = Schemas["HeaderLine"];

/** Headers that cannot be edited: credentials, and headers set by weir. */
const FIXED = /^(host|authorization|proxy-authorization|cookie|content-length|transfer-encoding|connection|forwarded|x-forwarded-.*|weir-.*|te|trailer|upgrade|keep-alive|expect)$/i;

export function useResubmit(id: string, done?: (attempt: Attempt) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (edits: Partial<Edits>) => {
      const body = { headers: { set: [], remove: [] }, again: false, ...edits } as Edits;
      return data<Attempt>(api.POST("/v1/transactions/{id}/resubmit", { params: { path: { id } }, body }));
    },
    onSuccess: (attempt) => {
      const words = attempt.words || attempt.reason;
      notify(`Attempt ${attempt.number} ${attempt.state}${attempt.status ? ` with ${attempt.status}` : ""}${words ? `: ${words}` : ""}.`, attempt.state === "succeeded" ? "good" : "bad");
      done?.(attempt);
    },
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["transaction", id] });
      void queries.invalidateQueries({ queryKey: ["transactions"] });
    },
  });
}

interface Draft {
  query: string;
  headers: Line[];
  body: string;
}

function draftOf(transaction: Transaction): Draft {
  const { payload } = transaction;
  const target = payload?.target ?? "";
  const text = payload?.request_body.text ?? "";
  return {
    query: target.includes("?") ? target.slice(target.indexOf("?") + 1) : "",
    headers: (payload?.request_headers ?? []).filter((field) => !FIXED.test(field.name) && !field.value.includes("***")),
    body: text,
  };
}

/** The edits of a draft: only differences are sent. */
function editsOf(before: Draft, after: Draft, again: boolean, to: string): Partial<Edits> {
  const name = (line: Line) => line.name.toLowerCase();
  const kept = after.headers.filter((line) => line.name.trim() !== "");
  const set = kept.filter((line) => !before.headers.some((old) => name(old) === name(line) && old.value === line.value));
  const remove = before.headers.filter((old) => !kept.some((line) => name(line) === name(old))).map((old) => old.name);
  return {
    headers: { set, remove },
    again,
    ...(after.query !== before.query ? { query: after.query } : {}),
    ...(after.body !== before.body ? { body: after.body } : {}),
    ...(to ? { to } : {}),
  };
}

function asText(draft: Draft): string {
  const headers = draft.headers.filter((line) => line.name).map((line) => `${line.name}: ${line.value}`);
  return [`?${draft.query}`, ...headers, "", prettyJson(draft.body) ?? draft.body].join("\n");
}

export function EditDialog({ transaction, onClose }: { transaction: Transaction; onClose: () => void }) {
  const before = useMemo(() => draftOf(transaction), [transaction]);
  const [draft, setDraft] = useState(before);
  const [again, setAgain] = useState(transaction.resolution !== "" && transaction.resolution !== "open" && transaction.resolution !== undefined);
  const [to, setTo] = useState("");
  const send = useResubmit(transaction.id, onClose);
  const wasJson = prettyJson(before.body) !== undefined;
  const isWrong = wasJson && draft.body.trim() !== "" && prettyJson(draft.body) === undefined;
  const changes = useMemo(() => diff(asText(before), asText(draft)), [before, draft]);
  const changed = changes.filter((change) => change.kind !== "same").length;
  const masked = transaction.request.masked || transaction.request.truncated || transaction.request.withheld;
  return (
    <Dialog
      title="Edit and resubmit"
      open
      wide
      onClose={onClose}
      footer={
        <>
          <label className="row">
            <input type="checkbox" checked={again} onChange={(event) => setAgain(event.target.checked)} />
            Even if settled, or possibly sent already
          </label>
          <span className="grow" />
          <DialogButtons action={send.isPending ? "Sending…" : "Resubmit"} disabled={send.isPending} onAction={() => send.mutate(editsOf(before, draft, again, to.trim()))} onCancel={onClose} />
        </>
      }
    >
      {masked && <p className="notice warn">The recorded body is redacted or not complete, so a resubmission requires a complete body.</p>}
      <label className="field">
        Query string
        <input className="mono" value={draft.query} spellCheck={false} onChange={(event) => setDraft({ ...draft, query: event.target.value })} />
      </label>
      <HeaderEditor lines={draft.headers} onChange={(headers) => setDraft({ ...draft, headers })} />
      <label className="field">
        Body
        <textarea rows={12} value={draft.body} spellCheck={false} aria-invalid={isWrong} onChange={(event) => setDraft({ ...draft, body: event.target.value })} />
        <small role={isWrong ? "alert" : undefined}>{isWrong ? `The body is no longer valid JSON: ${jsonError(draft.body)}` : "The body is sent without a content coding."}</small>
      </label>
      <label className="field">
        Send to another route (operation)
        <input className="mono" value={to} placeholder="one of resubmit.targets of the route" onChange={(event) => setTo(event.target.value)} />
      </label>
      <section className="stack">
        <h3>{changed > 0 ? "Differences" : "No differences: the request is sent unchanged"}</h3>
        {changed > 0 && <Diff lines={linesOf(changes)} />}
      </section>
      {send.isError && <Failure error={send.error} />}
    </Dialog>
  );
}

function jsonError(text: string): string {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : "";
  }
}

function HeaderEditor({ lines, onChange }: { lines: Line[]; onChange: (lines: Line[]) => void }) {
  const set = (at: number, line: Line) => onChange(lines.map((old, index) => (index === at ? line : old)));
  return (
    <fieldset className="header-editor">
      <legend>Headers</legend>
      {lines.map((line, at) => (
        <div key={at} className="header-line">
          <input className="mono" aria-label={`Name of header ${at + 1}`} value={line.name} spellCheck={false} onChange={(event) => set(at, { ...line, name: event.target.value })} />
          <input className="mono" aria-label={`Value of header ${at + 1}`} value={line.value} spellCheck={false} onChange={(event) => set(at, { ...line, value: event.target.value })} />
          <button type="button" className="button quiet small" aria-label={`Remove header ${line.name || at + 1}`} onClick={() => onChange(lines.filter((_, index) => index !== at))}>
            Remove
          </button>
        </div>
      ))}
      <button type="button" className="button small" onClick={() => onChange([...lines, { name: "", value: "" }])}>
        Add a header
      </button>
      <small className="muted">Credentials and headers set by weir cannot be edited.</small>
    </fieldset>
  );
}

export function ResolveDialog({ transaction, onClose }: { transaction: Transaction; onClose: () => void }) {
  const queries = useQueryClient();
  const [state, setState] = useState("resolved");
  const [comment, setComment] = useState("");
  const resolve = useMutation({
    mutationFn: () => data(api.POST("/v1/transactions/{id}/resolution", { params: { path: { id: transaction.id } }, body: { state, comment } })),
    onSuccess: () => {
      notify(`The resolution is ${state} now.`);
      void queries.invalidateQueries({ queryKey: ["transaction", transaction.id] });
      void queries.invalidateQueries({ queryKey: ["transactions"] });
      onClose();
    },
  });
  const choices: [string, string][] = [
    ["resolved", "corrected in another way"],
    ["dismissed", "no action required"],
    ["open", "action required"],
  ];
  return (
    <Dialog
      title="Resolution"
      open
      onClose={onClose}
      footer={<DialogButtons action="Save" disabled={resolve.isPending} onAction={() => resolve.mutate()} onCancel={onClose} />}
    >
      <fieldset className="choices">
        <legend className="sr-only">Resolution</legend>
        {choices.map(([value, what]) => (
          <label key={value} className="row">
            <input type="radio" name="resolution" value={value} checked={state === value} onChange={() => setState(value)} />
            <strong>{value}</strong> <span className="muted">{what}</span>
          </label>
        ))}
      </fieldset>
      <label className="field">
        Comment
        <input value={comment} maxLength={900} onChange={(event) => setComment(event.target.value)} />
        <small>Stored in the history, with your name.</small>
      </label>
      {resolve.isError && <Failure error={resolve.error} />}
    </Dialog>
  );
}
