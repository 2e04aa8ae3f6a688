import { EmptyPanel } from "../ui/parts";

export function MeteringOff() {
  return (
    <EmptyPanel title="Metering is off">
      <p>Calls are metered for plans with a price or a quota, and by rules:</p>
      <pre>{"monitor:\n  count: [{api: orders}]"}</pre>
    </EmptyPanel>
  );
}
