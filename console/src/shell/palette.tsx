// The command palette: every page, and everything with a page of its own, by a few letters of its name.

import { Autocomplete } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, data, type Schemas } from "../api/client";
import { useSession } from "../api/session";
import { counts } from "../tracker/queries";
import { searchOf, viewsQuery } from "../tracker/views";
import { KINDS, type Kind, termOf } from "../traffic/named";
import { useRange } from "../time/use-range";
import { visible } from "../transaction/text";

export interface Place {
  to: string;
  label: string;
}

interface Command {
  value: string;
  label: string;
  note: string;
  open: () => void;
}

/** Fields of the counts with names that have pages. */
const FIELDS: Record<string, Kind> = { consumer: "consumer", receiver: "upstream", upstream_target: "upstream_target", problem: "problem" };

export default function Palette({ places, onClose }: { places: Place[]; onClose: () => void }) {
  const commands = useCommands(places);
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="dialog-back" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <Autocomplete.Root open inline items={commands} autoHighlight="always" keepHighlight itemToStringValue={(command: Command) => `${command.label} ${command.note}`}>
            <Autocomplete.Input placeholder="Page, API, route, consumer, target, problem, view" aria-label="Go to" />
            <Autocomplete.Empty>
              <p className="muted inside">Nothing has this name.</p>
            </Autocomplete.Empty>
            <Autocomplete.List>
              {(command: Command) => (
                <Autocomplete.Item
                  key={command.value}
                  value={command}
                  className="palette-item"
                  onClick={() => {
                    onClose();
                    command.open();
                  }}
                >
                  <span className="cut">{command.label}</span>
                  <span className="muted">{command.note}</span>
                </Autocomplete.Item>
              )}
            </Autocomplete.List>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useCommands(places: Place[]): Command[] {
  const navigate = useNavigate();
  const session = useSession();
  const [range] = useRange();
  const apis = useQuery({ queryKey: ["apis"], queryFn: () => data<Schemas["ApiInfo"][]>(api.GET("/v1/apis")), staleTime: 10_000 });
  const views = useQuery(viewsQuery);
  const recorded = useQuery({ ...counts("", range, false), enabled: session?.recording ?? false });
  const named = (kind: Kind, name: string, within = ""): Command => ({
    value: `${kind} ${within} ${name}`,
    label: name,
    note: within ? `${KINDS[kind]} of ${within}` : KINDS[kind],
    open: () => void navigate({ to: "/traffic/$kind/$name", params: { kind, name }, search: (within ? { within: termOf("api", within) } : {}) as never }),
  });
  const facets = recorded.data?.facets ?? [];
  return [
    ...places.map((place) => ({ value: place.to, label: place.label, note: "Page", open: () => void navigate({ to: place.to }) })),
    { value: "failures", label: "Failures", note: "Tracker", open: () => void navigate({ to: "/tracker", search: { q: "-state:completed" } as never }) },
    ...(apis.data ?? []).flatMap((one) => [named("api", one.api), ...one.routes.map((route) => named("operation", route.operation, one.api))]),
    ...(views.data ?? []).map(
      (view): Command => ({
        value: `view ${view.name}`,
        label: visible(view.name),
        note: `View by ${visible(view.who)}`,
        open: () => void navigate({ to: "/tracker", search: searchOf(view) as never }),
      }),
    ),
    ...facets.flatMap((facet) => {
      const kind = FIELDS[facet.field];
      return kind ? facet.values.filter((one) => one.value).map((one) => named(kind, one.value)) : [];
    }),
  ];
}
