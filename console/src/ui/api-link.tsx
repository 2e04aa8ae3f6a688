// A link to the admin API that the browser opens or downloads itself.
//
// A link sends no header, so a single-use ticket replaces the CSRF token of the session.

import type { MouseEvent, ReactNode } from "react";
import { api, data, type Schemas } from "../api/client";
import { notify } from "./toast";

interface Props {
  /** Path and query below /v1/. */
  target: string;
  /** Name of the downloaded file; without it, a tab is opened. */
  download?: string;
  className: string;
  children: ReactNode;
}

async function open(target: string, download: string | undefined): Promise<void> {
  const url = new URL(target, location.origin);
  const body = { target: url.pathname + url.search };
  const { ticket } = await data<Schemas["Ticket"]>(api.POST("/v1/session/tickets", { body }));
  const link = document.createElement("a");
  link.href = `${body.target}${body.target.includes("?") ? "&" : "?"}ticket=${ticket}`;
  link.rel = "noreferrer";
  if (download === undefined) link.target = "_blank";
  else link.download = download;
  link.click();
}

export function ApiLink({ target, download, className, children }: Props) {
  const follow = (event: MouseEvent) => {
    // The context menu is left to the browser.
    if (event.button > 1) return;
    event.preventDefault();
    open(target, download).catch((error: Error) => notify(error.message, "bad"));
  };
  return (
    <a className={className} href={target} onClick={follow} onAuxClick={follow}>
      {children}
    </a>
  );
}
