// The keyboard shortcuts in a dialog, loaded when opened.

import { Dialog } from "../ui/dialog";

const KEYS: [string[], string][] = [
  [["Ctrl K"], "go to a page, or to anything with a name"],
  [["/"], "search"],
  [["j"], "next transaction"],
  [["k"], "previous transaction"],
  [["Enter"], "open the transaction"],
  [["e"], "edit and resubmit (transaction)"],
  [["r"], "resolve (transaction)"],
  [["u"], "back to the list"],
  [["g", "o"], "overview"],
  [["g", "t"], "Tracker"],
  [["g", "m"], "Monitor"],
  [["g", "a"], "APIs"],
  [["g", "e"], "Explain"],
  [["g", "l"], "Lab"],
  [["g", "c"], "configuration"],
  [["?"], "keyboard shortcuts"],
];

export default function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" open onClose={onClose}>
      <table className="data">
        <thead className="sr-only">
          <tr>
            <th>Key</th>
            <th>Action</th>
          </tr>
        </thead>
        <tbody>
          {KEYS.map(([keys, what]) => (
            <tr key={what}>
              <td>
                {keys.map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Dialog>
  );
}
