import { expect, test } from "vitest";
import { idPrefix, transactionId } from "./transaction-id";

const id = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";

test("a complete id is recognized in pasted text", () => {
  for (const text of [id, ` ${id}\n`, id.toUpperCase(), `id:${id}`, `"${id}"`]) expect(transactionId(text)).toBe(id);
});

test("more or less than an id is a search", () => {
  for (const text of ["", id.slice(1), `${id} status:500`, `body:${id}`, `id:${id.slice(0, 12)}`]) expect(transactionId(text)).toBeUndefined();
});

test("the first characters of an id are recognized", () => {
  expect(idPrefix(id.slice(0, 8))).toBe("019a9e3c");
  expect(idPrefix(` ${id.slice(0, 13).toUpperCase()}… `)).toBe("019a9e3c-4c5e");
  expect(idPrefix("id:019a")).toBe("019a");
  expect(idPrefix("deadbeef-")).toBe("deadbeef-");
});

test("words are not the first characters of an id", () => {
  for (const text of ["", id, "019a9e3", "deadbeef", "id:019", "A-17", "019a9e3c status:500", "body:019a9e3c"]) expect(idPrefix(text)).toBeUndefined();
});
