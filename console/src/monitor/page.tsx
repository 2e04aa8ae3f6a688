// Usage, limits and invoices.

import { Tabs } from "@base-ui/react/tabs";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMay } from "../api/session";
import { useTitle } from "../ui/title";
import { Invoices } from "./invoices";
import { LimitsView } from "./limits";
import { Usage } from "./usage";

export function MonitorPage() {
  const { tab = "usage" } = useSearch({ strict: false }) as { tab?: string };
  const navigate = useNavigate();
  const seesServer = useMay("viewer", "server");
  useTitle("Monitor");
  const select = (next: unknown) => void navigate({ to: "/monitor", search: ((before: object) => ({ ...before, tab: next === "usage" ? undefined : next })) as never });
  return (
    <Tabs.Root value={tab} onValueChange={select} className="stack">
      <div className="page-head no-print">
        <h1>Monitor</h1>
        <Tabs.List className="tabs">
          <Tabs.Tab value="usage" className="tab">
            Usage
          </Tabs.Tab>
          {seesServer && (
            <>
              <Tabs.Tab value="limits" className="tab">
                Limits
              </Tabs.Tab>
              <Tabs.Tab value="invoices" className="tab">
                Invoices
              </Tabs.Tab>
            </>
          )}
        </Tabs.List>
      </div>
      <Tabs.Panel value="usage" className="stack">
        <Usage />
      </Tabs.Panel>
      <Tabs.Panel value="limits" className="stack">
        <LimitsView />
      </Tabs.Panel>
      <Tabs.Panel value="invoices" className="stack">
        <Invoices />
      </Tabs.Panel>
    </Tabs.Root>
  );
}
