import { expect, test } from "vitest";
import { errorShare, isActive, type Rollout, rows, shown, stage } from "./rollout";
import type { FleetNode } from "./state";

const rollout: Rollout = { id: 7, version: 4, base: 3, stage: "one", state: "running", nodes: ["id-b"], stage_seconds: 12, by: "ops", time: "2026-11-27T06:00:00Z", compared: { nodes: { "id-b": { calls: 400, errors: 3 } }, others: { calls: 900, errors: 0 } } };

const node = (name: string, version: number | undefined, rejected?: { version: number; rollout: number; reason: string }) =>
  ({ id: `id-${name}`, name, in_force: { version, rejected, ready: true, calls: 0, errors: 0 } }) as FleetNode;

test("nodes of the stage come first, with the calls that are compared", () => {
  const own = { id: "id-d", name: "d" } as FleetNode;
  const all = rows({ version: 3, rollout }, [node("a", 3), node("b", 4), own]);
  expect(all.map((row) => [row.node.name, row.version, row.tries])).toEqual([
    ["b", "4", true],
    ["a", "3", false],
  ]);
  expect(all[0]?.calls).toEqual({ calls: 400, errors: 3 });
  expect(all[1]?.calls).toBeUndefined();
});

test("the reason of a rejection is shown for the last rollout, and as long as the node lacks the version of the fleet", () => {
  const rejected = (version: number, rollout: number) => ({ version, rollout, reason: "no a.pass" });
  const reason = (version: number, fleet: number, before: ReturnType<typeof rejected>) => rows({ version: fleet, rollout }, [node("a", version, before)])[0]?.rejected;
  expect(reason(3, 3, rejected(4, 7))).toBe("no a.pass");
  expect(reason(2, 3, rejected(3, 6))).toBe("no a.pass");
  expect(reason(3, 3, rejected(2, 5))).toBeUndefined();
  expect(reason(3, 3, rejected(3, 6))).toBeUndefined();
});

test("versions, stages and shares for people", () => {
  expect([shown(4), shown(0), shown(null), shown(undefined)]).toEqual(["4", "0", "none", "none"]);
  expect(stage({ ...rollout, stage: "tenth" })).toBe("10 % of the nodes");
  expect(errorShare({ calls: 400, errors: 3 })).toBe("0.8 %");
  expect(errorShare({ calls: 0, errors: 0 })).toBe("none");
  expect([isActive(rollout), isActive({ ...rollout, state: "failed" }), isActive(null)]).toEqual([true, false, false]);
});
