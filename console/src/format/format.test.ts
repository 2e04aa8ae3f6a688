import { describe, expect, it } from "vitest";
import { ago, bytes, clock, count, day, duration, percent, short, span } from "./format";

const plain = (text: string) => text.replaceAll(" ", " ");

describe("numbers", () => {
  it("groups digits", () => {
    expect(plain(count(1234567))).toBe("1 234 567");
    expect(count(999)).toBe("999");
  });
  it("keeps three digits that matter", () => {
    const cases: [number, string][] = [
      [0, "0"],
      [0.1234, "0.12"],
      [1.5, "1.5"],
      [12.34, "12.3"],
      [999, "999"],
      [1234, "1.23 k"],
      [999_950, "1 M"],
      [12_345_678, "12.3 M"],
      [Number.NaN, "–"],
    ];
    for (const [value, text] of cases) expect(plain(short(value))).toBe(text);
  });
  it("has binary sizes", () => {
    expect(plain(bytes(1023))).toBe("1023 B");
    expect(plain(bytes(1024))).toBe("1 KiB");
    expect(plain(bytes(1024 * 1024 * 3.5))).toBe("3.5 MiB");
  });
  it("does not round small shares to zero", () => {
    expect(plain(percent(1, 1_000_000))).toBe("< 0.01 %");
    expect(plain(percent(0, 10))).toBe("0 %");
    expect(plain(percent(5, 1000))).toBe("0.5 %");
    expect(plain(percent(999, 1000))).toBe("99.9 %");
    expect(plain(percent(10, 10))).toBe("100 %");
    expect(percent(1, 0)).toBe("–");
  });
});

describe("time", () => {
  it("uses a suitable unit", () => {
    expect(plain(duration(999))).toBe("999 µs");
    expect(plain(duration(1500))).toBe("1.5 ms");
    expect(plain(duration(2_500_000))).toBe("2.5 s");
    expect(plain(duration(61_000_000))).toBe("1 min 1 s");
    expect(plain(span(90_000))).toBe("1 d 1 h");
    expect(plain(span(3600))).toBe("1 h");
    expect(plain(span(0.2))).toBe("0 s");
  });
  it("contains the time zone", () => {
    const at = new Date(2026, 10, 2, 3, 4, 5, 6);
    expect(clock(at)).toBe("03:04:05.006");
    expect(clock(at, false)).toBe("03:04:05");
    expect(day(at)).toBe("2026-11-02");
    expect(plain(ago(at, new Date(at.getTime() + 125_000)))).toBe("2 min 5 s ago");
  });
});
