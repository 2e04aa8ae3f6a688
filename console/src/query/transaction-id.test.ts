import { expect, test } from "vitest";
import { transactionId } from "./transaction-id";

const id = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";

test("a complete id is recognized in pasted text", () => {
  for (const text of [id, ` ${id}\n`, id.toUpperCase(), `id:${id}`, `"${id}"`]) expect(transactionId(text)).toBe(id);
});

test("more or less than an id is a search", () => {
  for (const text of ["", id.slice(1), `${id} status:500`, `body:${id}`, `id:${id.slice(0, 12)}`]) expect(transactionId(text)).toBeUndefined();
});
