import { expect, test } from "vitest";
import { addMonths, evidence, type Invoice, isZone, monthOf, sum, totals } from "./billing";

test("months follow the calendar of their zone", () => {
  const newYear = new Date("2026-12-31T23:30:00Z");
  expect([monthOf(newYear, "UTC"), monthOf(newYear, "Europe/Berlin"), monthOf(newYear, "America/New_York")]).toEqual(["2026-12", "2027-01", "2026-12"]);
  expect([addMonths("2026-12", 1), addMonths("2026-01", -1), addMonths("2026-03", -14)]).toEqual(["2027-01", "2025-12", "2025-01"]);
  expect([isZone("Europe/Berlin"), isZone("Mars")]).toEqual([true, false]);
});

test("decimals are added exactly", () => {
  expect(sum(["0.1", "0.2"])).toBe("0.3");
  expect(sum(["1.05", "-2.1", "0"])).toBe("-1.05");
  expect(sum(["99999999999999999999", "1"])).toBe("100000000000000000000");
  expect(sum(["0.000000000000000001", "3"])).toBe("3.000000000000000001");
  expect(sum([])).toBe("0");
});

test("each invoice is paid by itself", () => {
  const invoice = (due: string, exact: string) => ({ totals: [{ currency: "EUR", due, exact }] }) as Invoice;
  expect(totals([invoice("0.00", "0.004"), invoice("0.00", "0.004"), invoice("1.00", "1")])).toEqual([{ currency: "EUR", due: "1.00", exact: "1.008" }]);
});

test("the query of a line finds its transactions, without what is not billed", () => {
  const line = { plan: "gold", api: "orders", operation: "GET /a b" };
  const names = 'consumer:acme plan:gold api:orders operation:"GET /a b"';
  const invoice = { consumer: "acme" } as Invoice;
  expect(evidence(invoice, line)).toBe(`${names} -(problem:* (status:429 OR status:5xx))`);
  expect(evidence(invoice, { ...line, gateway_errors: true })).toBe(names);
  expect(evidence(invoice, { ...line, operation: "(other)" })).toBeUndefined();
  expect(evidence(invoice, { ...line, status: 429 })).toBe(`${names} problem:* status:429`);
});
