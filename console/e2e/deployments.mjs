// "Did the deployment break anything? Roll it back": the history of the configuration.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { signIn, violations, visit } from "./browser.mjs";
import { eventually } from "./fleet.mjs";
import { send, start, stop } from "./server.mjs";
import { task } from "./task.mjs";

const GOOD = `version: 1
listen: [{addr: "127.0.0.1:0"}]
workers: 1
tracker: {enabled: true}
apis:
  shop:
    base: /shop
    routes:
      - {op: book, post: /book, reply: {text: booked}}
      - {op: list, get: /list, reply: {text: none}}
`;

/** A typical mistake: one route answers with an error. */
const BAD = GOOD.replace("reply: {text: booked}", "reply: {status: 500, text: broken}");

async function requests(base, number) {
  for (let at = 0; at < number; at += 1) {
    await send(`${base}/shop/book`, { method: "POST", body: "{}" });
    await send(`${base}/shop/list`);
  }
}

async function findAndReturn({ browser, server, path }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "admin");
  await page.getByText(/^Configuration changed:/).waitFor();
  const one = task(page, "deployment");
  await one.shot();
  const bad = page.locator(".changes").getByRole("link").last();
  await one.click(bad, page.getByRole("heading", { name: "Before and after" }).waitFor());
  const failed = page.getByRole("row").filter({ hasText: "Failed" });
  await failed.getByText(/^5\d(\.\d)? %/).waitFor();
  const row = page.getByRole("row").filter({ hasText: "apis.shop.routes[op book].reply.status" });
  assert.match(await row.textContent(), /500/);
  assert.deepEqual(await violations(page), []);
  await one.click(page.getByRole("button", { name: /^How to return to/ }), page.getByRole("dialog").getByRole("row").filter({ hasText: "removed" }).waitFor());
  assert.deepEqual(await violations(page), []);
  writeFileSync(path, GOOD);
  await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
  await eventually("it is in force again", async () => (await send(`${server.base}/shop/book`, { method: "POST" })).status === 200);
  one.done();

  // What the failures have in common.
  await page.getByRole("link", { name: "what they have in common" }).last().click();
  const differs = page.getByRole("region", { name: "What differs" });
  await differs.getByText("compared with").waitFor();
  await differs.getByRole("button", { name: "book" }).first().waitFor();
  assert.deepEqual(problems, []);
  await context.close();

  const viewer = await visit(browser, { theme: "dark", size: "phone" });
  await signIn(viewer.page, server, "operator");
  await viewer.page.goto(`${server.admin}/console/configuration/2`);
  await viewer.page.getByRole("heading", { name: "Before and after" }).waitFor();
  const [width, viewport] = await viewer.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(width <= viewport, `a width of ${width}`);
  assert.deepEqual(await violations(viewer.page), []);
  assert.deepEqual(viewer.problems, []);
  await viewer.context.close();
}

export async function deployments({ browser }) {
  const dir = mkdtempSync(join(tmpdir(), "weir-console-deployments-"));
  const path = join(dir, "weir.yaml");
  writeFileSync(path, GOOD);
  const weir = await start(process.env.WEIR_BIN, ["serve", "--json", "--admin", "127.0.0.1:0", "weir.yaml"], { cwd: dir });
  try {
    const [admin, base] = [`http://${weir.ready.admin}`, `http://${weir.ready.listen[0]}`];
    const first = readFileSync(join(dir, "data/admin.token"), "utf8").trim();
    const made = await send(`${admin}/v1/tokens`, { method: "POST", headers: { authorization: `Bearer ${first}` }, body: JSON.stringify({ name: "the operator", role: "operator" }) });
    await requests(base, 30);
    writeFileSync(path, BAD);
    await eventually("it is in force", async () => (await send(`${base}/shop/book`, { method: "POST" })).status === 500);
    await requests(base, 30);
    await findAndReturn({ browser, server: { admin, base, tokens: { admin: first, operator: JSON.parse(made.text).token } }, path });
  } finally {
    await stop(weir.child);
    rmSync(dir, { recursive: true, force: true });
  }
}
