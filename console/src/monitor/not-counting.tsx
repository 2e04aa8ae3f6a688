import { Empty } from "../ui/parts";

export function NotCounting() {
  return (
    <section className="panel">
      <Empty title="No calls are counted here">
        <p>Calls are counted for plans with a price or a quota, or by a rule:</p>
        <pre>{"monitor:\n  count: [{api: orders}]"}</pre>
      </Empty>
    </section>
  );
}
