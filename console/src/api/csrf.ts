// The CSRF token of a session, the second secret beside the cookie. It is stored by origin, which includes the port.
//
// It is in localStorage: a reloaded page and a second tab have it, servers
// on other ports of this host do not.

const KEY = "weir.csrf-token";

/** For browsers without storage: the session ends with the page. */
let kept: string | undefined;

/** The token of the session; undefined without a session. */
export function csrfToken(): string | undefined {
  try {
    return localStorage.getItem(KEY) ?? kept;
  } catch {
    return kept;
  }
}

/** Stores the token of a new session, or removes the token of an ended one. */
export function keepCsrfToken(token: string | undefined): void {
  kept = token;
  try {
    if (token === undefined) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, token);
  } catch {
    // Only `kept` has it.
  }
}

/** Registers a callback for sign-in and sign-out in another tab. */
export function onOtherTab(call: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) call();
  });
}
