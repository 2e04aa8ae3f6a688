// Choice of the columns of the transaction list.

import { Popover } from "@base-ui/react/popover";
import { Icon } from "../ui/icons";
import { COLUMNS, type Column, toggled } from "./columns";

interface Props {
  columns: Column[];
  /** Names of business keys that can be columns. */
  keys: string[];
  onChange: (names: string) => void;
}

export function ColumnChoice({ columns, keys, onChange }: Props) {
  const names = columns.map((column) => column.name);
  const chosen = names.filter((name) => name.startsWith("key.")).map((name) => name.slice(4));
  const all: [string, string][] = [
    ...COLUMNS.filter((column) => column.name !== "path").map((column): [string, string] => [column.name, column.label]),
    ...[...new Set([...keys, ...chosen])].map((key): [string, string] => [`key.${key}`, `key ${key}`]),
  ];
  return (
    <Popover.Root>
      <Popover.Trigger className="button small">
        Columns
        <Icon name="chevron" size={13} />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner align="end" sideOffset={6} className="over">
          <Popover.Popup className="menu column-menu">
            <Popover.Title className="sr-only">Columns</Popover.Title>
            <fieldset className="column-list">
              <legend className="sr-only">Columns of the list</legend>
              {all.map(([name, label]) => (
                <label key={name} className="row">
                  <input type="checkbox" checked={names.includes(name)} onChange={() => onChange(toggled(columns, name))} />
                  {label}
                </label>
              ))}
            </fieldset>
            <button type="button" className="button quiet small" onClick={() => onChange("")}>
              Usual columns
            </button>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
