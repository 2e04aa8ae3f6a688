// The menu of the account, loaded when opened.

import { Menu } from "@base-ui/react/menu";
import { useQueryClient } from "@tanstack/react-query";
import type { RefObject } from "react";
import { scopeWords } from "../access/scope";
import type { Session } from "../api/client";
import { signOut, switchSession } from "../api/session";
import { isInside } from "../ui/anchor";

/** Below `anchor`, the button that opened the menu. */
export default function AccountMenu({ session, anchor, onClose }: { session: Session; anchor: RefObject<HTMLElement | null>; onClose: () => void }) {
  const queries = useQueryClient();
  const leave = async () => {
    const provider = await signOut();
    if (provider) location.assign(provider);
    switchSession(queries, null);
  };
  return (
    <Menu.Root modal={false} open onOpenChange={(open, { event }) => !open && !isInside(event, anchor) && onClose()}>
      <Menu.Portal>
        <Menu.Positioner anchor={anchor} align="end" sideOffset={6}>
          <Menu.Popup className="menu" finalFocus={anchor}>
            <div className="menu-note">
              {session.name}
              <br />
              role {session.role}
              <ScopeNote scope={session.scope} />
            </div>
            <Menu.Item className="menu-item" onClick={() => void leave()}>
              Sign out
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

/** What narrows the role. */
function ScopeNote({ scope }: { scope: Session["scope"] }) {
  const words = scopeWords(scope);
  if (words === "everything") return null;
  return (
    <>
      <br />
      scope {words}
    </>
  );
}
