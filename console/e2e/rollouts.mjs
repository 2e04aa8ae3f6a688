// Versions of the configuration on the page of the fleet: a rollout that fails, and a rollback.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { database, eventually, node, programs } from "./fleet.mjs";
import { send, stop } from "./server.mjs";

function own(url) {
  return `version: 1
listen: [{addr: "127.0.0.1:0"}]
admin: {addr: "\${env:ADMIN}"}
workers: 1
fleet: {name: prod, config: {source: fleet, stage: 3s}, postgres: {url: "${url}"}}
`;
}

function version(reply) {
  return { files: { "weir.yaml": `apis: {x: {base: /, routes: [{get: /, reply: {${reply}}}]}}\n` } };
}

async function push(one, reply, comment) {
  const { version: number } = JSON.parse((await one.call("POST", "/v1/fleet/versions", { comment, ...version(reply) })).text);
  assert.equal((await one.call("POST", "/v1/fleet/rollout", { version: number })).status, 200);
}

async function follow({ browser, one, two }) {
  const state = async () => JSON.parse((await one.call("GET", "/v1/fleet/rollout")).text).rollout?.state;
  await push(one, "text: first", "the first one");
  await eventually("version 1 is in force", async () => (await state()) === "succeeded");
  const { page, context, problems } = await visit(browser);
  await signIn(page, one, "admin");
  await page.goto(`${one.admin}/console/fleet`);
  await page.getByRole("heading", { name: "Configuration: version 1" }).waitFor();
  await page.getByText(": the first one").waitFor();

  // The node that responds drives; the other one is the first to try the version.
  await push(one, "status: 503, text: broken", "a broken one");
  const table = page.getByRole("region", { name: "Versions of the nodes" });
  await table.getByRole("row").filter({ hasText: "two" }).getByText("in the stage").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await picture(page, "rollout-paused");
  assert.deepEqual(await violations(page), []);
  await eventually("it is rolled back", async () => {
    for (let at = 0; at < 50; at += 1) await send(two.base);
    return (await state()) === "failed";
  });
  await page.getByText(/^two responded with 5xx to/).waitFor();
  await page.getByRole("list", { name: "Findings", exact: true }).getByText("rollout-failed").waitFor();
  await picture(page, "rollout-failed");
  assert.deepEqual(await violations(page), []);

  await push(one, "text: third", "the third one");
  await eventually("version 3 is in force", async () => (await state()) === "succeeded");
  await page.getByRole("heading", { name: "Configuration: version 3" }).waitFor();
  await page.getByRole("button", { name: "Roll back…" }).click();
  const dialog = page.getByRole("dialog", { name: "Roll back?" });
  await dialog.getByLabel("Version").selectOption({ label: "1: the first one" });
  assert.deepEqual(await violations(page), []);
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await page.getByRole("heading", { name: "Configuration: version 1" }).waitFor();
  await eventually("both nodes serve it", async () => {
    const texts = await Promise.all([one, two].map(async ({ base }) => (await send(base)).text));
    return texts.every((text) => text === "first");
  });
  // The history has the versions, and leads back to one.
  await page.goto(`${one.admin}/console/configuration`);
  const kept = page.getByRole("row").filter({ has: page.getByRole("cell", { name: "3", exact: true }) });
  await kept.first().getByRole("link", { name: "What changed" }).click();
  await page.getByRole("row").filter({ hasText: "reply.text" }).getByText("third").waitFor();
  await page.getByRole("button", { name: "Roll back to version 3…" }).click();
  assert.deepEqual(await violations(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Roll back", exact: true }).click();
  await eventually("both nodes serve version 3", async () => {
    const texts = await Promise.all([one, two].map(async ({ base }) => (await send(base)).text));
    return texts.every((text) => text === "third");
  });
  assert.deepEqual(problems, []);
  await context.close();

  const viewer = await visit(browser, { theme: "dark", size: "phone" });
  await signIn(viewer.page, one, "viewer");
  await viewer.page.goto(`${one.admin}/console/fleet`);
  await viewer.page.getByRole("heading", { name: "Configuration: version 3" }).waitFor();
  assert.equal(await viewer.page.getByRole("button", { name: "Roll back…" }).count(), 0);
  const [width, viewport] = await viewer.page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(width <= viewport, `a width of ${width}`);
  await viewer.context.close();
}

export async function rollouts({ browser }) {
  const folder = programs();
  if (!folder) return console.log("        skipped: PostgreSQL is not installed");
  const dir = mkdtempSync(join(tmpdir(), "weir-console-rollouts-"));
  const postgres = await database(folder, dir);
  const nodes = [];
  try {
    for (const name of ["one", "two"]) nodes.push(await node(process.env.WEIR_BIN, dir, name, postgres.url, own));
    const [one, two] = nodes;
    const live = async () => JSON.parse((await one.call("GET", "/v1/fleet")).text).nodes.filter((other) => other.state === "live" && other.in_force?.ready).length;
    await eventually("both nodes have joined", async () => (await live()) === 2);
    await follow({ browser, one, two });
  } finally {
    for (const { child } of nodes) await stop(child);
    await postgres.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}
