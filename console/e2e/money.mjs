// The invoice of a consumer, with evidence.

import assert from "node:assert/strict";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { send } from "./server.mjs";

/** From a consumer to its invoice of the month, to the transactions of a line, and back. */
async function money({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  const statuses = [];
  for (let at = 0; at < 7; at += 1) statuses.push((await send(`${server.base}/orders`, { headers: { "x-api-key": server.keys.gamma.key } })).status);
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429]);
  await signIn(page, server, "viewer");
  // The index and the counts are behind by about a second.
  await page.waitForTimeout(2500);
  await page.goto(`${server.admin}/console/traffic/consumer/gamma`);
  const month = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "This month" }) });
  await month.getByText("0.63 EUR").waitFor();
  await month.getByText("2 calls not billed").waitFor();
  const limits = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "Limits hit" }) });
  await limits.getByRole("link", { name: "rate-limited", exact: true }).waitFor();
  await limits.getByRole("link", { name: "metered", exact: true }).click();
  await page.getByRole("heading", { name: 'Limit or rule limit "metered" is exhausted' }).waitFor();
  await page.getByText("Requests per second, by status").waitFor();
  await page.goBack();
  const credentials = page.locator("section.panel").filter({ has: page.getByRole("heading", { name: "Credentials" }) });
  const key = credentials.getByRole("row").filter({ hasText: "API key" });
  await key.getByRole("link", { name: /^sha256:[0-9a-f]{8}$/ }).waitFor();
  await key.getByRole("link", { name: /^\d\d:\d\d:/ }).waitFor();
  await picture(page, "consumer-money");
  assert.deepEqual(await violations(page), []);

  await month.getByRole("link", { name: "Invoice" }).click();
  await page.waitForURL(/consumer=gamma/);
  const invoice = page.getByRole("article", { name: "Invoice of gamma" });
  await invoice.waitFor();
  assert.equal(await invoice.getByTitle("exactly 0.625 EUR").first().innerText().then((text) => text.split("\n")[0].slice(0, 8)), "0.63 EUR");
  await invoice.getByText("Not billed in all").waitFor();
  await picture(page, "invoice");
  assert.deepEqual(await violations(page), []);
  const address = page.url();

  // Each line has its transactions.
  const rows = page.locator(".hits-scroll .hit");
  for (const [name, number] of [["Transactions of orders list with 429", 2], ["Transactions of orders list", 5]]) {
    await invoice.getByRole("link", { name, exact: true }).click();
    await page.waitForURL(/tracker/);
    await rows.first().waitFor();
    assert.equal(await rows.count(), number, name);
    await picture(page, `evidence-${number}`);
    await page.goBack();
    await invoice.waitFor();
    assert.equal(page.url(), address, "Back shows the same invoice");
  }

  // Other months and zones are in the address.
  await page.getByRole("button", { name: "Previous month" }).click();
  await page.getByText("No amounts due for this period").waitFor();
  assert.match(page.url(), /period=/);
  await page.getByRole("button", { name: "Next month" }).click();
  await invoice.waitFor();
  assert.equal(await page.getByRole("button", { name: "Next month" }).isDisabled(), true);
  await page.getByLabel("Time zone").selectOption("Asia/Tokyo");
  await page.waitForURL(/zone=Asia/);
  await page.getByLabel("Time zone").selectOption("UTC");
  await page.getByRole("button", { name: "Only gamma: show all" }).click();
  const all = page.getByRole("article", { name: "All consumers" });
  await all.getByText("EUR", { exact: true }).waitFor();
  await picture(page, "invoices-all");
  await page.getByRole("tab", { name: "Usage" }).click();
  await page.getByRole("columnheader", { name: "Not billed" }).waitFor();
  await page.getByRole("cell", { name: "In all" }).waitFor();
  await picture(page, "usage-money");
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(problems, []);
  await context.close();

  const printable = await server.call("GET", `/v1/invoices?period=${new Date().toISOString().slice(0, 7)}&consumer=gamma&format=html`);
  const paper = await browser.newPage();
  await paper.setContent(printable.text);
  await paper.emulateMedia({ media: "print" });
  await picture(paper, "invoice-html");
  await paper.close();
}

export const invoicing = { money };
