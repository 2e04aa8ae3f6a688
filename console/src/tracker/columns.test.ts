import { describe, expect, it, vi } from "vitest";
import { columnsOf, hasKeys, toggled, usualColumns } from "./columns";

// The client of the admin API is loaded with the components.
vi.hoisted(() => Object.assign(globalThis, { location: { origin: "http://localhost" } }));

const names = (columns: { name: string }[] | undefined) => columns?.map((column) => column.name);

describe("columns", () => {
  it("are those of the URL that exist, with the path and keys", () => {
    expect(names(columnsOf("time,__proto__,key.order,status,time"))).toEqual(["time", "key.order", "status", "path"]);
    expect(columnsOf("")).toBeUndefined();
    expect([hasKeys(columnsOf("key.order")), hasKeys(columnsOf("time"))]).toEqual([true, false]);
  });
  it("are added and removed in a fixed order, and the usual ones need no URL", () => {
    const withPlan = toggled(usualColumns(false), "plan");
    expect(withPlan).toBe("time,status,method,path,operation,consumer,plan,duration");
    expect(toggled(columnsOf(withPlan) ?? [], "plan")).toBe("");
    expect(toggled(columnsOf(withPlan) ?? [], "key.order")).toBe("time,status,method,path,operation,consumer,plan,key.order,duration");
  });
  it("show the values of a key", () => {
    const [column] = columnsOf("key.order,path") ?? [];
    const hit = { keys: [{ name: "order", value: "A-1" }, { name: "other", value: "x" }, { name: "order", value: "A-2" }] };
    expect(column?.cell(hit as never)).toBe("A-1, A-2");
  });
});
