// A dialog over the page: focus stays in it, Escape closes it.

import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import { Icon } from "./icons";

interface Props {
  title: string;
  open: boolean;
  onClose: () => void;
  wide?: boolean;
  footer?: ReactNode;
  children: ReactNode;
}

export function Dialog({ title, open, onClose, wide, footer, children }: Props) {
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="dialog-back" />
        <Base.Popup className={`dialog ${wide ? "wide" : ""}`}>
          <header>
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet icon" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </header>
          <div className="inside">{children}</div>
          {footer && <footer>{footer}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** The buttons of a dialog: cancel, and its action. */
export function DialogButtons({ action, danger, disabled, onAction, onCancel }: { action: string; danger?: boolean; disabled: boolean; onAction: () => void; onCancel: () => void }) {
  return (
    <>
      <button type="button" className="button" onClick={onCancel}>
        Cancel
      </button>
      <button type="button" className={`button ${danger ? "danger" : "primary"}`} disabled={disabled} onClick={onAction}>
        {action}
      </button>
    </>
  );
}
