import { expect, test } from "vitest";
import { Heartbeat, SILENT_AFTER_MS } from "./heartbeat";

/** Ticks twice a second; returns the time when silence was first reported. */
function silence(heartbeat: Heartbeat, from: number, to: number): number | undefined {
  for (let now = from; now <= to; now += 500) if (heartbeat.tick(now).since !== undefined) return now;
  return undefined;
}

test("silence is reported within five seconds, with its start", () => {
  const heartbeat = new Heartbeat(0);
  heartbeat.received(1000);
  const reported = silence(heartbeat, 500, 10_000);
  expect(reported).toBe(1000 + SILENT_AFTER_MS);
  expect(SILENT_AFTER_MS).toBeLessThan(5000);
  expect(heartbeat.tick(5500).since).toBe(1000);
  heartbeat.received(5600);
  expect(heartbeat.tick(6000).since).toBeUndefined();
});

test("the server is probed before it counts as silent", () => {
  const heartbeat = new Heartbeat(0);
  expect(heartbeat.tick(1500).probe).toBe(false);
  expect(heartbeat.tick(2000).probe).toBe(true);
  expect(heartbeat.tick(2000).since).toBeUndefined();
});

test("sleep of the machine does not count as silence", () => {
  const heartbeat = new Heartbeat(0);
  heartbeat.tick(500);
  expect(heartbeat.tick(3_600_000).since).toBeUndefined();
  expect(silence(heartbeat, 3_600_500, 3_610_000)).toBe(3_600_000 + SILENT_AFTER_MS);
});
