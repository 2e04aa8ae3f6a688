import { expect, test } from "vitest";
import { wholeId } from "./whole-id";

const id = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";

test("a whole id is found in what is pasted", () => {
  for (const text of [id, ` ${id}\n`, id.toUpperCase(), `id:${id}`, `"${id}"`]) expect(wholeId(text)).toBe(id);
});

test("what is more or less than an id is a search", () => {
  for (const text of ["", id.slice(1), `${id} status:500`, `body:${id}`, `id:${id.slice(0, 12)}`]) expect(wholeId(text)).toBeUndefined();
});
