// A link to something of the admin API that the browser opens or keeps itself.
//
// A link sends no header, so that a ticket stands in for the session's CSRF token, for this one time.

import type { MouseEvent, ReactNode } from "react";
import { api, data, type Schemas } from "../api/client";
import { say } from "./toast";

interface Props {
  /** Path and query below /v1/. */
  target: string;
  /** Name of the file to be kept; a tab is opened otherwise. */
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
    // The menu of a link is its own.
    if (event.button > 1) return;
    event.preventDefault();
    open(target, download).catch((error: Error) => say(error.message, "bad"));
  };
  return (
    <a className={className} href={target} onClick={follow} onAuxClick={follow}>
      {children}
    </a>
  );
}
