// Tasks of operators from the question to the answer, with the clicks and seconds that they take. The deployment is in
// deployments.mjs, the colleague in accounts.mjs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { eventually } from "./fleet.mjs";
import { send, start, stop } from "./server.mjs";
import { task } from "./task.mjs";

const SLOW_MS = 120;

function config({ targets, billing, keys }) {
  const consumers = Object.entries(keys).map(([name, { hash, plan }]) => `  ${name}: {plan: ${plan}, api_keys: ["${hash}"]}`);
  return `version: 1
listen: [{addr: "127.0.0.1:0"}]
workers: 1
auth: {keys: {api_key: {header: x-api-key}}}
plans:
  gold: {rate: 5000/s, price: {per_call: "0.125", currency: EUR}}
  free: {rate: 1/m, burst: 5}
consumers:
${consumers.join("\n")}
upstreams:
  shop: {targets: [${targets.map((port) => `"http://127.0.0.1:${port}"`).join(", ")}], health: {failures: 0}}
  billing: {targets: ["http://127.0.0.1:${billing}"], health: {failures: 0}}
apis:
  orders: {base: /orders, auth: keys, routes: [{op: place, post: /, proxy: billing}, {op: list, get: /, proxy: shop}]}
tracker: {enabled: true, keys: {order: "$.orderId"}}
monitor: {enabled: true}
`;
}

/** A server on a free port. */
async function upstream(respond) {
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => respond(response));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

function end(response, status, text) {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(text);
}

/** weir before two targets, one of which becomes slow, and a billing system that fails for a while. */
async function bench(binary) {
  const dir = mkdtempSync(join(tmpdir(), "weir-console-tasks-"));
  const state = { isSlow: false, isDown: false };
  const quick = await upstream((response) => end(response, 200, "[]"));
  const slow = await upstream((response) => setTimeout(() => end(response, 200, "[]"), state.isSlow ? SLOW_MS : 0));
  const billing = await upstream((response) => (state.isDown ? end(response, 503, '{"error":"billing is down"}') : end(response, 201, '{"booked":true}')));
  const key = () => {
    const text = execFileSync(binary, ["key", "new"], { encoding: "utf8" });
    return { key: /key:\s+(\S+)/.exec(text)[1], hash: /hash:\s+(\S+)/.exec(text)[1] };
  };
  const keys = { acme: { ...key(), plan: "gold" }, beta: { ...key(), plan: "free" } };
  const targets = [quick, slow].map((one) => one.address().port);
  writeFileSync(join(dir, "weir.yaml"), config({ targets, billing: billing.address().port, keys }));
  const weir = await start(binary, ["serve", "--json", "--admin", "127.0.0.1:0", "weir.yaml"], { cwd: dir });
  const [admin, base] = [`http://${weir.ready.admin}`, `http://${weir.ready.listen[0]}`];
  const first = readFileSync(join(dir, "data/admin.token"), "utf8").trim();
  const call = (method, where, body) => send(admin + where, { method, headers: { authorization: `Bearer ${first}` }, body: body && JSON.stringify(body) });
  const viewer = JSON.parse((await call("POST", "/v1/tokens", { name: "Vera", role: "payload-viewer" })).text).token;
  return {
    admin,
    base,
    call,
    keys,
    state,
    slow: `127.0.0.1:${targets[1]}`,
    tokens: { admin: first, "payload-viewer": viewer },
    get: (name) => send(`${base}/orders`, { headers: { "x-api-key": keys[name].key } }),
    order: async (order) => (await send(`${base}/orders`, { method: "POST", headers: { "x-api-key": keys.acme.key, "content-type": "application/json" }, body: JSON.stringify(order) })).headers["weir-transaction-id"],
    async stop() {
      await stop(weir.child);
      for (const one of [quick, slow, billing]) {
        one.closeAllConnections();
        one.close();
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Length of the intervals that the pages show of 15 minutes. */
const INTERVAL_MS = 10_000;

async function traffic(weir) {
  // All of it within one interval: the slow requests are then one cell of the heatmap.
  await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS - (Date.now() % INTERVAL_MS)));
  for (let at = 0; at < 60; at += 1) await weir.get("acme");
  weir.state.isSlow = true;
  for (let at = 0; at < 60; at += 1) await weir.get("acme");
  weir.state.isSlow = false;
  for (let at = 0; at < 8; at += 1) await weir.get("beta");
  await weir.order({ orderId: "4710" });
  weir.state.isDown = true;
  const failed = [];
  for (const orderId of ["4711", "4712", "4713"]) failed.push(await weir.order({ orderId }));
  weir.state.isDown = false;
  // One was sent again since.
  assert.equal(JSON.parse((await weir.call("POST", `/v1/transactions/${failed[2]}/resubmit`, {})).text).state, "succeeded");
  const found = async () => JSON.parse((await weir.call("GET", "/v1/transactions/summary?q=api%3Aorders")).text).matched;
  await eventually("all are indexed", async () => (await found()) >= 133);
  return failed;
}

/** "p99 doubled, why?": one target is slow. */
async function slowTarget({ page, weir }) {
  await page.goto(`${weir.admin}/console/`);
  const one = task(page, "p99-doubled");
  await one.click(page.getByRole("link", { name: "orders", exact: true }).first(), page.locator(".heatmap rect").first().waitFor());
  const slowest = page.locator(".heatmap rect").filter({ hasText: /to [12]\d\d(\.\d+)? ms/ });
  // The one with most transactions.
  const numbers = (await slowest.allTextContents()).map((text) => Number.parseInt(text, 10));
  await slowest.nth(numbers.indexOf(Math.max(...numbers))).focus();
  await one.press("Enter", page.waitForURL(/took%3A/));
  await one.click(page.getByRole("button", { name: "What differs" }), page.getByRole("region", { name: "What differs" }).getByText("compared with").waitFor());
  await page.getByRole("region", { name: "What differs" }).getByRole("button", { name: weir.slow }).waitFor();
  one.done();
}

/** "Is it weir, the network or the upstream?": time by stage. */
async function whoIsSlow({ page, weir }) {
  await page.goto(`${weir.admin}/console/`);
  const one = task(page, "weir-network-upstream");
  const stages = page.getByRole("region", { name: "Time by stage" });
  await one.click(page.getByRole("link", { name: "orders", exact: true }).first(), stages.waitFor());
  const share = async (name) => Number.parseFloat((await stages.getByRole("row").filter({ hasText: name }).getByRole("cell").nth(2).textContent()).replace(",", "."));
  assert.ok((await share("Upstream, to the first byte")) > 80);
  one.done();
}

/** "acme says we dropped order 4711." */
async function lostOrder({ page, weir, failed }) {
  await page.goto(`${weir.admin}/console/`);
  const one = task(page, "order-4711");
  await one.click(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Tracker" }), page.getByRole("combobox", { name: /Search/ }).waitFor());
  await page.getByRole("combobox", { name: /Search/ }).fill("key.order:4711 consumer:acme");
  const hit = page.locator(".hits-scroll .hit");
  await one.press("Enter", page.waitForURL(/4711/));
  await eventually("one is left", async () => (await hit.count()) === 1);
  await one.click(hit.getByRole("link").first(), page.getByText("billing is down").first().waitFor());
  assert.match(page.url(), new RegExp(failed[0]));
  one.done();
}

/** "Which consumers got 429 yesterday?" */
async function throttled({ page, weir }) {
  await page.goto(`${weir.admin}/console/?range=24h`);
  const one = task(page, "who-got-429");
  await one.click(page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Tracker" }), page.getByRole("combobox", { name: /Search/ }).waitFor());
  await page.getByRole("combobox", { name: /Search/ }).fill("status:429");
  await one.press("Enter", page.getByRole("heading", { name: "3 transactions" }).waitFor());
  await page.getByRole("button", { name: /^beta/ }).first().waitFor();
  one.done();
}

/** "Resend what failed while billing was down, but not what was sent since." */
async function resend({ page, weir }) {
  await page.goto(`${weir.admin}/console/tracker?q=${encodeURIComponent("upstream:billing resolution:open")}`);
  await page.getByRole("heading", { name: "2 transactions" }).waitFor();
  const one = task(page, "resend-failed");
  await one.click(page.getByRole("button", { name: "Resubmit all…" }), page.getByRole("dialog").waitFor());
  await one.click(page.getByRole("dialog").getByRole("button", { name: "Preview" }), page.getByText("previewed", { exact: true }).waitFor());
  await one.click(page.getByRole("button", { name: "Send 2", exact: true }), page.getByText("finished", { exact: true }).waitFor());
  const job = JSON.parse((await weir.call("GET", "/v1/jobs")).text)[0];
  assert.equal(job.transactions.find((each) => each.state === "succeeded")?.count, 2);
  one.done();
}

/** "The invoice of acme, with evidence." */
async function invoice({ page, weir }) {
  await page.goto(`${weir.admin}/console/monitor`);
  const one = task(page, "invoice");
  await one.click(page.getByRole("tab", { name: "Invoices" }), page.getByRole("article", { name: "Invoice of acme" }).waitFor());
  await one.click(page.getByRole("link", { name: "Transactions of orders place", exact: true }), page.locator(".hits-scroll .hit").first().waitFor());
  one.done();
}

/** "Who read this payload?" */
async function whoRead({ page, weir, failed, browser }) {
  const vera = await visit(browser);
  await signIn(vera.page, weir, "payload-viewer");
  await vera.page.goto(`${weir.admin}/console/transactions/${failed[1]}`);
  await vera.page.getByText("billing is down").first().waitFor();
  await vera.context.close();
  await page.goto(`${weir.admin}/console/transactions/${failed[1]}`);
  const one = task(page, "who-read");
  await one.click(page.getByRole("link", { name: "Who viewed this payload" }), page.getByRole("row", { name: /Vera/ }).first().waitFor());
  one.done();
}

/** "This key leaked: who used it, since when? Revoke it." */
async function leaked({ page, weir, browser }) {
  await page.goto(`${weir.admin}/console/traffic/consumer/acme`);
  const one = task(page, "leaked-key");
  const key = page.getByRole("link", { name: /^sha256:[0-9a-f]{8}$/ }).first();
  await one.click(key, page.getByRole("heading", { name: /^Principal/ }).waitFor());
  await page.locator(".heatmap rect").first().waitFor();
  await one.click(page.getByRole("link", { name: "Transactions", exact: true }), page.waitForURL(/principal/));
  await page.locator(".hits-scroll .hit").first().waitFor();
  await page.goBack();
  await one.click(page.getByRole("button", { name: /^Revoke/ }), page.getByRole("dialog").waitFor());
  await page.getByLabel("Reason").fill("in a public repository");
  await one.click(page.getByRole("button", { name: "Revoke", exact: true }), page.getByText("revoked", { exact: true }).waitFor());
  const rejected = await weir.get("acme");
  assert.deepEqual([rejected.status, JSON.parse(rejected.text).type], [401, "urn:weir:problem:api-key-revoked"]);
  one.done();
  await stillUsed({ page, weir, browser });
}

/** Who uses the key after its revocation is seen; an admin restores it, and a viewer is not offered to. */
async function stillUsed({ page, weir, browser }) {
  await eventually("the use of the revoked key", async () => {
    await page.reload();
    await page.locator(".heatmap rect, .panel").first().waitFor();
    return (await page.getByRole("link", { name: "Rejected requests" }).count()) > 0;
  });
  await picture(page, "key-revoked");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("link", { name: "Rejected requests" }).click();
  await page.locator(".hits-scroll .hit").first().waitFor();
  await page.goto(`${weir.admin}/console/traffic/consumer/acme`);
  await page.getByText("in a public repository").waitFor();
  await picture(page, "key-revoked-consumer");
  assert.deepEqual(await violations(page), []);
  const vera = await visit(browser, { size: "phone" });
  await signIn(vera.page, weir, "payload-viewer");
  await vera.page.goto(page.url());
  await vera.page.getByText("in a public repository").waitFor();
  assert.equal(await vera.page.getByRole("button", { name: /^Restore/ }).count(), 0);
  await vera.page.getByRole("heading", { name: "Credentials" }).scrollIntoViewIfNeeded();
  await picture(vera.page, "key-revoked-phone");
  assert.equal(await vera.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
  await vera.context.close();
  await page.getByRole("button", { name: /^Restore/ }).click();
  await page.getByRole("dialog").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Restore" }).click();
  await page.getByRole("button", { name: /^Revoke/ }).waitFor();
  assert.equal((await weir.get("acme")).status, 200);
}

export async function tasks({ browser }) {
  const weir = await bench(process.env.WEIR_BIN);
  try {
    const failed = await traffic(weir);
    const { page, context, problems } = await visit(browser);
    await signIn(page, weir, "admin");
    for (const run of [slowTarget, whoIsSlow, lostOrder, throttled, resend, invoice, whoRead, leaked]) await run({ page, weir, failed, browser });
    assert.deepEqual(problems, []);
    await context.close();
  } finally {
    await weir.stop();
  }
}
