// The second secret of a session, beside the cookie: kept by origin, of which the port is a part.
//
// It is in localStorage, so that a page that is loaded again and a second tab have it, and what
// listens on another port of this host does not.

const KEY = "weir.csrf-token";

/** For browsers that keep nothing: the session ends with the page. */
let kept: string | undefined;

/** The token of the session; none if nobody is signed in. */
export function csrfToken(): string | undefined {
  try {
    return localStorage.getItem(KEY) ?? kept;
  } catch {
    return kept;
  }
}

/** Keeps the token of a session that has begun, or forgets that of one that is over. */
export function keepCsrfToken(token: string | undefined): void {
  kept = token;
  try {
    if (token === undefined) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, token);
  } catch {
    // It is kept here.
  }
}

/** Calls when another tab signs in or out. */
export function onOtherTab(call: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) call();
  });
}
