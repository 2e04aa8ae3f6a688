import { expect, it } from "vitest";
import { position } from "./stages";

it("puts stages in sequence, and parts at the start of their stage", () => {
  const stages = [
    { name: "auth", took_us: 10 },
    { name: "limit", took_us: 5 },
    { name: "connect", took_us: 30 },
    { name: "first-byte", took_us: 50 },
    { name: "response-map", took_us: 8 },
    { name: "answer", took_us: 20 },
    { name: "total", took_us: 100 },
  ];
  expect(position(stages, 100).map((stage) => [stage.name, stage.from])).toEqual([
    ["auth", 0],
    ["limit", 10],
    ["connect", 30],
    ["first-byte", 30],
    ["response-map", 80],
    ["answer", 80],
  ]);
  expect(position([{ name: "auth", took_us: 3 }], 9)).toEqual([{ name: "auth", took_us: 3, from: 0 }]);
});
