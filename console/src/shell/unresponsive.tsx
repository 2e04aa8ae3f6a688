// Says that the server does not respond, above whatever is shown: figures on the page are old then.

import { useSilence } from "../api/heartbeat";

export function Unresponsive() {
  const since = useSilence();
  if (since === undefined) return null;
  return (
    <p className="notice bad unresponsive" role="alert">
      <strong>The server does not respond</strong> <span>since {new Date(since).toLocaleTimeString()}. What is shown is from before; this page tries again by itself.</span>
    </p>
  );
}
