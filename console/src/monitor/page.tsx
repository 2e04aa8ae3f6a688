// Usage, limits and invoices.

import { Tabs } from "@base-ui/react/tabs";
import { useTitle } from "../ui/title";
import { Invoices } from "./invoices";
import { LimitsView } from "./limits";
import { Usage } from "./usage";

export function MonitorPage() {
  useTitle("Monitor");
  return (
    <Tabs.Root defaultValue="usage" className="stack">
      <div className="page-head no-print">
        <h1>Monitor</h1>
        <Tabs.List className="tabs">
          <Tabs.Tab value="usage" className="tab">
            Usage
          </Tabs.Tab>
          <Tabs.Tab value="limits" className="tab">
            Limits
          </Tabs.Tab>
          <Tabs.Tab value="invoices" className="tab">
            Invoices
          </Tabs.Tab>
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
