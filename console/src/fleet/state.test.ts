import { expect, test } from "vitest";
import { configurations, type FleetNode, remedy } from "./state";

const node = (name: string, digest: string, state: FleetNode["state"] = "live") => ({ name, digest, state }) as FleetNode;

test("configurations of nodes that serve are grouped, that of most nodes first", () => {
  const nodes = [node("a", "1"), node("b", "2"), node("c", "2"), node("d", "3", "down"), node("e", "3", "draining")];
  expect(configurations(nodes)).toEqual([
    { digest: "2", nodes: ["b", "c"] },
    { digest: "1", nodes: ["a"] },
  ]);
  expect(configurations([])).toEqual([]);
});

test("known findings have a remedy", () => {
  expect(remedy("node-down")).toMatch(/retire/);
  expect(remedy("of-a-later-version")).toBeUndefined();
});
