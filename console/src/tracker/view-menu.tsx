// Named views: open one, save the current one, delete one.

import { Popover } from "@base-ui/react/popover";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { useMay } from "../api/session";
import { visible } from "../transaction/text";
import { Icon } from "../ui/icons";
import { Failure, Time } from "../ui/parts";
import { notify } from "../ui/toast";
import { addressOf, deleteView, type SavedView, saveView, searchOf, viewsQuery } from "./views";

export function ViewMenu() {
  const [open, setOpen] = useState(false);
  const views = useQuery({ ...viewsQuery, enabled: open });
  const canSave = useMay("operator", "server");
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className="button small">
        Views
        <Icon name="chevron" size={13} />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner align="end" sideOffset={6} className="over">
          <Popover.Popup className="menu view-menu">
            <Popover.Title className="sr-only">Views of all users</Popover.Title>
            {views.isError && <Failure error={views.error} retry={() => void views.refetch()} />}
            {views.data?.length === 0 && <p className="muted">No view is saved yet. Views are for all users.</p>}
            {views.data && views.data.length > 0 && (
              <ul className="view-list" aria-label="Views">
                {views.data.map((view) => (
                  <View key={view.name} view={view} canDelete={canSave} onOpen={() => setOpen(false)} />
                ))}
              </ul>
            )}
            {canSave && <Save all={views.data ?? []} />}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function View({ view, canDelete, onOpen }: { view: SavedView; canDelete: boolean; onOpen: () => void }) {
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => deleteView(view.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: viewsQuery.queryKey }),
    onError: (error) => notify(String(error.message), "bad"),
  });
  return (
    <li>
      <Link to="/tracker" search={((before: object) => ({ ...before, selected: undefined, follow: undefined, ...searchOf(view) })) as never} preload={false} onClick={onOpen} className="wrap-any">
        {visible(view.name)}
      </Link>
      <span className="muted">
        {visible(view.who)}, <Time at={view.at} style="day" />
      </span>
      {canDelete && (
        <button type="button" className="button quiet icon small" disabled={remove.isPending} aria-label={`Delete ${view.name}`} onClick={() => remove.mutate()}>
          <Icon name="close" size={13} />
        </button>
      )}
    </li>
  );
}

function Save({ all }: { all: SavedView[] }) {
  const [name, setName] = useState("");
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () => saveView(name.trim(), addressOf(search)),
    onSuccess: () => {
      setName("");
      notify("The view is saved for all users.");
      void queries.invalidateQueries({ queryKey: viewsQuery.queryKey });
    },
  });
  const replaces = all.some((view) => view.name === name.trim());
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) save.mutate();
  };
  return (
    <form className="stack view-save" onSubmit={submit}>
      <label className="field">
        Save this view as
        <input value={name} maxLength={80} onChange={(event) => setName(event.target.value)} />
        <small className="muted">All users see its name, its query, and yours.</small>
      </label>
      <button type="submit" className="button" disabled={!name.trim() || save.isPending}>
        {replaces ? "Replace" : "Save"}
      </button>
      {save.isError && <Failure error={save.error} />}
    </form>
  );
}
