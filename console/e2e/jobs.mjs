// Jobs with their transactions, retries, transactions side by side; and views with their columns and time zone.

import assert from "node:assert/strict";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { send } from "./server.mjs";

/** Waits for the end of a job. */
async function ended(server, number) {
  for (let at = 0; at < 100; at += 1) {
    const job = JSON.parse((await server.call("GET", `/v1/jobs/${number}`)).text);
    if (["finished", "previewed"].includes(job.state)) return job;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`job ${number} does not end`);
}

async function narrow(page, name) {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 360, height: 780 });
  await page.waitForTimeout(300);
  await picture(page, `${name}-narrow`);
  const [width, viewport] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  const wide = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((one) => !one.closest(".side")).filter((one) => one.getBoundingClientRect().right > innerWidth + 1).slice(0, 8).map((one) => `${one.tagName}.${one.className} ${Math.round(one.getBoundingClientRect().right)}`));
  assert.ok(width <= viewport, `${name} has a width of ${width}: ${wide.join(", ")}`);
  await page.setViewportSize(before);
}

/** Resends what failed but not what was sent since; the result side by side with the original. */
async function jobs({ server, browser }) {
  const json = { "content-type": "application/json", "x-api-key": server.keys.acme.key };
  const order = (body) => send(`${server.base}/orders`, { method: "POST", headers: json, body: JSON.stringify(body) });
  const failed = [];
  for (let at = 0; at < 3; at += 1) failed.push((await order({ orderId: `R-${at}`, note: "retried bandicoot" })).headers["weir-transaction-id"]);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const created = await server.call("POST", "/v1/jobs", { query: "bandicoot state:failed", run: true, rate: 500 });
  const { number } = JSON.parse(created.text);
  assert.equal((await ended(server, number)).transactions.find((one) => one.state === "failed")?.count, 3);
  // One is repaired by hand since.
  const fixed = await server.call("POST", `/v1/transactions/${failed[0]}/resubmit`, { body: '{"orderId":"R-0","customer":"Bandicoot Ltd"}' });
  const attempt = JSON.parse(fixed.text);
  assert.equal(attempt.state, "succeeded", fixed.text);
  for (const theme of ["light", "dark"]) {
    const { page, context, problems } = await visit(browser, { theme });
    await signIn(page, server, "operator");
    await page.goto(`${server.admin}/console/jobs/${number}`);
    const filters = page.getByRole("navigation", { name: "Filter by state" });
    await filters.getByRole("link", { name: "Failed 3" }).click();
    await page.waitForURL(/state=failed/);
    await page.getByRole("row").filter({ hasText: "Compare" }).nth(2).waitFor();
    await picture(page, `job-items-${theme}`);
    assert.deepEqual(await violations(page), [], theme);
    await narrow(page, `job-items-${theme}`);
    await page.goto(`${server.admin}/console/compare?a=${failed[0]}&b=${attempt.id}`);
    await page.getByText("The second transaction is a resubmission of the first one.").waitFor();
    const paths = page.getByRole("region", { name: "Differences by path, Request body" });
    await paths.getByRole("row").filter({ hasText: "$.customer" }).filter({ hasText: "added" }).waitFor();
    await paths.getByRole("row").filter({ hasText: "$.note" }).filter({ hasText: "removed" }).waitFor();
    await picture(page, `compare-${theme}`);
    assert.deepEqual(await violations(page), [], theme);
    await narrow(page, `compare-${theme}`);
    assert.deepEqual(problems, []);
    await context.close();
  }
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.goto(`${server.admin}/console/jobs/${number}`);
  await page.getByRole("button", { name: "Retry…" }).click();
  await page.getByRole("checkbox", { name: "Also what was sent, resolved or dismissed since" }).waitFor();
  await picture(page, "retry");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: "Send 2" }).waitFor();
  await page.getByRole("link", { name: `job ${number}` }).waitFor();
  await page.getByRole("table").filter({ hasText: "Reason" }).first().getByText("settled").first().waitFor();
  await picture(page, "retry-preview");
  await page.getByRole("button", { name: "Send 2" }).click();
  await page.getByText("2 of 2 sent").waitFor();
  await page.getByRole("link", { name: `job ${number}` }).click();
  await page.getByText("Retried by").waitFor();
  // A viewer has no payloads to compare.
  const viewer = await visit(browser);
  await signIn(viewer.page, server, "viewer");
  await viewer.page.goto(`${server.admin}/console/compare?a=${failed[0]}&b=${attempt.id}`);
  await viewer.page.getByText("Headers and bodies are hidden").waitFor();
  assert.equal(await viewer.page.getByText("Bandicoot").count(), 0);
  await viewer.context.close();
  assert.deepEqual(problems, []);
  await context.close();
}

/** A shared link shows the same view: columns, time zone, selection, comparison; and views have names. */
async function views({ server, browser }) {
  const headers = { "content-type": "application/json", "x-api-key": server.keys.acme.key };
  await send(`${server.base}/orders`, { method: "POST", headers, body: '{"orderId":"V-1"}' });
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.goto(`${server.admin}/console/tracker?q=api%3Aorders+status%3A500`);
  await page.getByRole("row").filter({ hasText: "/orders" }).first().waitFor();
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByRole("checkbox", { name: "key order" }).check();
  await page.getByRole("checkbox", { name: "Plan" }).check();
  await page.keyboard.press("Escape");
  await page.waitForURL(/columns=/);
  await page.getByRole("columnheader", { name: "order", exact: true }).waitFor();
  await page.getByRole("cell", { name: "V-1" }).first().waitFor();
  await page.locator("h1").first().evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("j");
  await page.waitForURL(/selected=/);
  await page.getByRole("button", { name: /Last 15 minutes/ }).click();
  await page.getByLabel("Time zone").selectOption("Asia/Tokyo");
  await page.keyboard.press("Escape");
  await page.waitForURL(/tz=Asia/);
  await page.getByText("UTC+09:00").first().waitFor();
  await picture(page, "columns");
  assert.deepEqual(await violations(page), []);
  await narrow(page, "columns");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByLabel("Save this view as").fill("Orders that fail");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("link", { name: "Orders that fail" }).waitFor();
  await picture(page, "views");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  const shared = page.url();
  // Back undoes one step after the other.
  await page.goBack();
  await page.waitForFunction(() => !location.search.includes("tz="));

  const other = await visit(browser, { theme: "dark" });
  await signIn(other.page, server, "viewer");
  await other.page.goto(shared);
  await other.page.getByText("UTC+09:00").first().waitFor();
  await other.page.getByRole("columnheader", { name: "Plan" }).waitFor();
  await other.page.locator('[role=row][aria-selected="true"]').waitFor();
  assert.equal(await other.page.getByRole("cell", { name: "V-1" }).count(), 0, "keys are payload");
  assert.deepEqual(await violations(other.page), []);
  await other.page.goto(`${server.admin}/console/compare?a=x&b=y&compare=previous`);
  await other.page.getByRole("button", { name: /^Go to/ }).click();
  await other.page.getByRole("combobox", { name: "Go to" }).fill("Orders that");
  await other.page.getByRole("option", { name: /Orders that fail/ }).click();
  await other.page.waitForURL(/columns=.*key\.order/);
  const opened = new URL(other.page.url()).searchParams;
  assert.equal(opened.get("q"), "api:orders status:500");
  assert.deepEqual(["a", "b", "compare", "selected"].filter((name) => opened.has(name)), [], "of the page before");
  assert.deepEqual(other.problems, []);
  await other.context.close();

  await page.goto(`${server.admin}/console/traffic/api/orders?range=5m&compare=previous`);
  await page.getByText("all, range before").waitFor();
  const now = Math.floor(Date.now() / 1000) * 1000;
  const at = (before) => encodeURIComponent(new Date(now - before).toISOString());
  await page.goto(`${server.admin}/console/traffic/api/orders?from=${at(6000)}&to=${at(0)}&compare=previous`);
  await page.getByText("compared with the range before").waitFor();
  assert.match(await page.locator(".numbers").first().textContent(), /Number[\d\s]+\([+−±][\d.]+ %\)/);
  await picture(page, "previous");
  assert.deepEqual(await violations(page), []);
  // The heatmap by keyboard.
  const cells = page.locator(".heatmap rect");
  await cells.first().waitFor();
  await page.locator('.heatmap rect[tabindex="0"]').focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
  assert.match(await focused(), /took .* to .* at /);
  await picture(page, "heatmap-focus");
  await page.keyboard.press("Enter");
  await page.waitForURL(/tracker\?.*took/);
  await page.getByRole("row").nth(1).waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

export const work = { jobs, views };
