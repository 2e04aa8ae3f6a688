// Retires a node that has ended, after a confirmation.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { span } from "../format/format";
import { Dialog, DialogButtons } from "../ui/dialog";
import { Failure } from "../ui/parts";
import { notify } from "../ui/toast";
import { fleetQuery, retire } from "./queries";
import type { FleetNode } from "./state";

export function RetireDialog({ node, onClose }: { node: FleetNode; onClose: () => void }) {
  const queries = useQueryClient();
  const [lost, setLost] = useState<boolean>();
  const run = useMutation({
    mutationFn: (lost: boolean) => retire(node.id, lost),
    onSuccess: () => {
      notify(`${node.name} was retired.`);
      void queries.invalidateQueries({ queryKey: fleetQuery.queryKey });
      onClose();
    },
  });
  return (
    <Dialog
      title={`Retire ${node.name}?`}
      open
      onClose={onClose}
      footer={<DialogButtons action="Retire" danger disabled={lost === undefined || run.isPending} onAction={() => run.mutate(lost ?? false)} onCancel={onClose} />}
    >
      <div className="stack">
        <p>
          The last heartbeat was {span(node.silent_seconds)} ago. Invoices no longer wait for calls that this node has counted. If it starts again, it is a member again and reports its calls.
        </p>
        <label className="row">
          <input type="radio" name="lost" checked={lost === false} onChange={() => setLost(false)} />
          The data folder is kept, or all calls were reported
        </label>
        <label className="row">
          <input type="radio" name="lost" checked={lost === true} onChange={() => setLost(true)} />
          The data folder is lost, with all calls that were not reported
        </label>
        {run.isError && <Failure error={run.error} />}
      </div>
    </Dialog>
  );
}
