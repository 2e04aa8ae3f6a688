import { expect, test } from "vitest";
import { byConsumer } from "./consumers";

test("rows of a consumer are merged, by result", () => {
  const row = (consumer: string | undefined, status: string, calls: number) => ({ consumer, status, calls }) as never;
  expect(byConsumer([row("acme", "2xx", 5), row("beta", "2xx", 9), row("acme", "4xx", 2), row("acme", "5xx", 1), row(undefined, "2xx", 1)])).toEqual([
    { consumer: "beta", calls: 9, clientErrors: 0, failed: 0 },
    { consumer: "acme", calls: 8, clientErrors: 2, failed: 1 },
    { consumer: "", calls: 1, clientErrors: 0, failed: 0 },
  ]);
  expect(byConsumer([])).toEqual([]);
});
