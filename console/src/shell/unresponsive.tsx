// Banner for a server that does not respond: the figures on the page are outdated.

import { useSilence } from "../api/heartbeat";
import { clock } from "../format/format";

export function Unresponsive() {
  const since = useSilence();
  if (since === undefined) return null;
  return (
    <p className="notice bad unresponsive" role="alert">
      <strong>The server does not respond</strong> <span>since {clock(new Date(since), false)}. The data shown is outdated; this page retries automatically.</span>
    </p>
  );
}
