import { expect, test } from "vitest";
import { Heartbeat, SILENT } from "./heartbeat";

/** Ticks twice a second; when silence was first told. */
function silence(heartbeat: Heartbeat, from: number, to: number): number | undefined {
  for (let now = from; now <= to; now += 500) if (heartbeat.tick(now).since !== undefined) return now;
  return undefined;
}

test("silence is told within five seconds, with when it began", () => {
  const heartbeat = new Heartbeat(0);
  heartbeat.hear(1000);
  const told = silence(heartbeat, 500, 10_000);
  expect(told).toBe(1000 + SILENT);
  expect(SILENT).toBeLessThan(5000);
  expect(heartbeat.tick(5500).since).toBe(1000);
  heartbeat.hear(5600);
  expect(heartbeat.tick(6000).since).toBeUndefined();
});

test("the server is asked before it counts as silent", () => {
  const heartbeat = new Heartbeat(0);
  expect(heartbeat.tick(1500).ask).toBe(false);
  expect(heartbeat.tick(2000).ask).toBe(true);
  expect(heartbeat.tick(2000).since).toBeUndefined();
});

test("a machine that slept says nothing about the server", () => {
  const heartbeat = new Heartbeat(0);
  heartbeat.tick(500);
  expect(heartbeat.tick(3_600_000).since).toBeUndefined();
  expect(silence(heartbeat, 3_600_500, 3_610_000)).toBe(3_600_000 + SILENT);
});
