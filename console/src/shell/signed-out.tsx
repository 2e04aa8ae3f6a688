// Sign-in on top of the page after the session has expired, so that edits on
// the page are not lost. The page is covered until then.

import { useEffect, useRef } from "react";
import { createPortal } from "react-dom";
import { SignIn } from "./sign-in";

export function SignedOut() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    if (!element) return;
    element.showModal();
    // Escape closes neither this dialog nor a dialog of the page below.
    const stay = (event: Event) => event.preventDefault();
    const pressed = (event: KeyboardEvent) => {
      event.stopPropagation();
      if (event.key === "Escape") event.preventDefault();
    };
    element.addEventListener("cancel", stay);
    element.addEventListener("keydown", pressed);
    return () => {
      element.removeEventListener("cancel", stay);
      element.removeEventListener("keydown", pressed);
      element.close();
    };
  }, []);
  return createPortal(
    <dialog ref={dialog} className="signed-out" aria-label="Sign in again">
      <p className="notice warn" role="alert">
        <strong>Your session has ended.</strong> <span>Sign in again to continue: your edits are kept.</span>
      </p>
      <SignIn again />
    </dialog>,
    document.body,
  );
}
