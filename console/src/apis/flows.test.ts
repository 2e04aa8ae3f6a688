import { expect, test } from "vitest";
import { flows } from "./flows";

const route = (operation: string, requests: number, server_errors = 0) => ({ api: "a", operation, requests, client_errors: 0, server_errors });

test("rates are differences over time, and an API has the sum of its routes", () => {
  const first = { at_ms: 1000, routes: [route("x", 10)], more: false };
  expect(flows(first, undefined).get("a x")?.rate).toBeUndefined();
  const all = flows({ at_ms: 3000, routes: [route("x", 30), route("y", 4, 1)], more: false }, first);
  expect(all.get("a x")?.rate).toBe(10);
  expect(all.get("a y")?.rate).toBe(2);
  expect(all.get("a")).toMatchObject({ requests: 34, server_errors: 1, rate: 12 });
});

test("a restart does not lead to a negative rate", () => {
  const before = { at_ms: 1000, routes: [route("x", 30)], more: false };
  expect(flows({ at_ms: 2000, routes: [route("x", 3)], more: false }, before).get("a x")?.rate).toBe(0);
});
