import { describe, expect, it } from "vitest";
import { clock, day, zone, zoneBetween } from "../format/format";
import { asLocal, editedTime, offset, parseWall, wallClock, wallText, zoneOf } from "./zone";

const at = new Date("2026-07-01T22:30:05.120Z");

describe("time zone", () => {
  it("is one that the browser knows", () => {
    expect([zoneOf("local"), zoneOf("UTC"), zoneOf("Asia/Kolkata")]).toEqual(["local", "UTC", "Asia/Kolkata"]);
    expect([zoneOf("Mars/Olympus"), zoneOf("<script>"), zoneOf(7), zoneOf("")]).toEqual([undefined, undefined, undefined, undefined]);
  });
  it("gives the clock and the day there", () => {
    expect(wallClock(at, "UTC")).toEqual([2026, 7, 1, 22, 30, 5]);
    expect(wallClock(at, "Asia/Kolkata")).toEqual([2026, 7, 2, 4, 0, 5]);
    expect([clock(at, true, "Asia/Kolkata"), day(at, "Asia/Kolkata")]).toEqual(["04:00:05.120", "2026-07-02"]);
    expect([zone(at, "Asia/Kolkata"), zone(at, "America/Los_Angeles"), zone(at, "UTC")]).toEqual(["UTC+05:30", "UTC−07:00", "UTC"]);
  });
  it("reads a clock, also where it changes", () => {
    for (const time of ["2026-03-29T00:59:00Z", "2026-03-29T01:01:00Z", "2026-10-25T02:30:00Z"]) {
      const date = new Date(time);
      const text = `${day(date, "Europe/Berlin")}T${clock(date, false, "Europe/Berlin")}`;
      expect(new Date(parseWall(text, "Europe/Berlin")).toISOString()).toBe(date.toISOString());
    }
    expect(offset(new Date("2026-01-01T00:00:00Z"), "Europe/Berlin")).toBe(60);
    expect(parseWall("soon", "UTC")).toBeNaN();
  });
  it("keeps a time of an hour that is there twice while its text is unchanged", () => {
    for (const time of ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]) {
      const text = wallText(new Date(time), "Europe/Berlin");
      expect(text).toBe("2026-10-25T02:30:00");
      expect(new Date(editedTime(text, new Date(time), "Europe/Berlin")).toISOString()).toBe(time);
    }
    const edited = editedTime("2026-10-25T04:00:00", new Date("2026-10-25T00:30:00Z"), "Europe/Berlin");
    expect(new Date(edited).toISOString()).toBe("2026-10-25T03:00:00.000Z");
  });
  it("is named by its offsets in a range", () => {
    const between = (from: string, to: string) => zoneBetween(new Date(from), new Date(to), "Europe/Berlin");
    expect(between("2026-07-01T00:00:00Z", "2026-07-02T00:00:00Z")).toBe("UTC+02:00");
    expect(between("2026-10-24T00:00:00Z", "2026-10-26T00:00:00Z")).toBe("UTC+02:00, later UTC+01:00");
  });
  it("has the same parts in the zone of the browser", () => {
    const there = asLocal(at, "Asia/Kolkata");
    expect([there.getDate(), there.getHours(), there.getMinutes(), there.getMilliseconds()]).toEqual([2, 4, 0, 120]);
  });
});
