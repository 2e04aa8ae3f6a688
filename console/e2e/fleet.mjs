// The fleet: two nodes and a real PostgreSQL.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { send, start, stop } from "./server.mjs";

const DEBIAN = "/usr/lib/postgresql";
/** PostgreSQL does not run as root. */
const NOBODY = 65534;
const WAIT_MS = 30_000;

/** The folder with the programs of the newest PostgreSQL of Debian's packages, if there is one. */
export function programs() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).map(Number).sort((a, b) => b - a) : [];
  return versions.map((version) => join(DEBIAN, String(version), "bin")).find((folder) => existsSync(join(folder, "initdb")));
}

function freePort() {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export async function eventually(what, isTrue) {
  const until = Date.now() + WAIT_MS;
  while (!(await isTrue())) {
    assert.ok(Date.now() < until, what);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Starts PostgreSQL with its data in a folder. */
export async function database(folder, dir) {
  const user = process.getuid() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const data = join(dir, "pg");
  mkdirSync(data);
  chmodSync(dir, 0o755);
  if (user.uid) chownSync(data, NOBODY, NOBODY);
  execFileSync(join(folder, "initdb"), ["-D", data, "--username=weir", "--auth=trust", "--no-sync"], { ...user, cwd: data, stdio: "ignore" });
  const port = await freePort();
  const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", `port=${port}`, "shared_buffers=32MB", "dynamic_shared_memory_type=mmap"];
  const child = spawn(join(folder, "postgres"), ["-D", data, ...settings.flatMap((one) => ["-c", one])], { ...user, cwd: data, stdio: "ignore" });
  // Without waiting for clients.
  return { stop: () => stop(child, "SIGINT"), url: `postgres://weir@127.0.0.1:${port}/postgres` };
}

function config(url, more) {
  return `version: 1
listen: [{addr: "127.0.0.1:0"}]
admin: {addr: "\${env:ADMIN}"}
workers: 1
fleet: {name: prod, key: "a key of the fleet with 32 characters", advertise: "http://\${env:ADMIN}", postgres: {url: "${url}"}}
monitor: {count: all}
tracker: {enabled: true}
apis: {x: {base: /, routes: [{get: /, reply: {text: hi}}]}}
${more}`;
}

/** Starts a node whose configuration `text` returns, given the URL of the database. */
export async function node(binary, dir, name, url, text = config) {
  const folder = join(dir, name);
  mkdirSync(folder);
  // Name and address are no part of the file, which is the same for all nodes.
  const configure = (more) => writeFileSync(join(folder, "weir.yaml"), text(url, more));
  configure("");
  const address = `127.0.0.1:${await freePort()}`;
  const env = { ...process.env, ADMIN: address };
  const weir = await start(binary, ["serve", "--json", "--set", `fleet.node=${name}`, "weir.yaml"], { cwd: folder, env });
  const admin = `http://${weir.ready.admin}`;
  const first = readFileSync(join(folder, "data/admin.token"), "utf8").trim();
  const call = (method, where, body) => send(admin + where, { method, headers: { authorization: `Bearer ${first}` }, body: body && JSON.stringify(body) });
  const viewer = JSON.parse((await call("POST", "/v1/tokens", { name: "viewer", role: "viewer" })).text).token;
  return { admin, call, configure, child: weir.child, base: `http://${weir.ready.listen[0]}`, tokens: { admin: first, viewer } };
}

/** The page of the fleet through drift, a rejected configuration, loss and retirement of a node, and an outage. */
async function follow({ browser, postgres, one, two }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, one, "admin");
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Fleet" }).click();
  await page.getByRole("heading", { name: "2 of 2 nodes are live" }).waitFor();
  await page.getByText("the same on all live nodes").waitFor();
  assert.equal(await page.getByRole("button", { name: /^Retire/ }).count(), 0, "a live node cannot be retired");

  const reload = () => two.call("POST", "/v1/configuration/reload");
  two.configure("drain: {delay: 1s}\n");
  await reload();
  await page.getByText("nodes differ").waitFor();
  two.configure("listen: 5\n");
  await reload();
  await page.getByRole("list", { name: "Findings", exact: true }).getByText("configuration-rejected").waitFor();
  await page.getByText("Correct the file, and reload.").waitFor();
  await page.getByRole("region", { name: "Findings of the configuration of two" }).getByText("weir.yaml").first().waitFor();
  await picture(page, "fleet-findings");
  assert.deepEqual(await violations(page), []);

  await usageByNode(page, one, two);
  await stop(two.child);
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Fleet" }).click();
  await page.getByRole("button", { name: "Retire two" }).click();
  const dialog = page.getByRole("dialog", { name: "Retire two?" });
  const confirm = dialog.getByRole("button", { name: "Retire" });
  assert.equal(await confirm.isDisabled(), true, "requires a choice");
  await dialog.getByLabel(/^The data folder is lost/).check();
  await picture(page, "fleet-retire");
  assert.deepEqual(await violations(page), []);
  await confirm.click();
  await page.getByRole("row").filter({ hasText: "two" }).getByText("lost", { exact: true }).waitFor();
  assert.match((await one.call("GET", "/v1/audit")).text, /retire-node/);
  await page.getByRole("link", { name: "Monitor" }).click();
  await page.getByText(/Node two is lost/).first().waitFor();

  await postgres.stop();
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Fleet" }).click();
  await page.getByText("postgres-down").waitFor();
  await page.getByText(/^as of/).waitFor();
  await picture(page, "fleet-outage");
  await page.getByRole("link", { name: "Monitor" }).click();
  await page.getByText("The database of the fleet cannot be used").waitFor();
  await page.getByLabel("Node").selectOption("here");
  await page.getByRole("heading", { name: "4 calls", exact: true }).waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** Usage of all nodes, and of one. */
async function usageByNode(page, one, two) {
  for (const [base, calls] of [[one.base, 3], [two.base, 2]]) {
    for (let at = 0; at < calls; at += 1) assert.equal((await send(base)).status, 200);
  }
  await eventually("usage of both nodes", async () => /"calls":7\b/.test((await one.call("GET", "/v1/usage?by=api")).text));
  await page.getByRole("link", { name: "Monitor" }).click();
  await page.getByRole("heading", { name: "7 calls", exact: true }).waitFor();
  await page.getByLabel("Node").selectOption({ label: "two" });
  await page.getByRole("heading", { name: "3 calls", exact: true }).waitFor();
  await page.getByRole("tab", { name: "Invoices" }).click();
  await page.getByLabel("Node").selectOption({ label: "two" });
  await page.getByText("No amounts due for this period").waitFor();
}

/** The Tracker finds the transactions of all nodes, says which node has each, and which does not respond. */
async function search({ browser, one, two }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, one, "admin");
  for (const { base } of [one, two]) assert.equal((await send(`${base}?word=wallaby`)).status, 200);
  const found = async () => JSON.parse((await one.call("GET", "/v1/transactions?q=api%3Ax")).text).transactions.length;
  await eventually("both transactions are found", async () => (await found()) === 2);
  await page.goto(`${one.admin}/console/tracker?q=api%3Ax`);
  await page.getByRole("columnheader", { name: "Node" }).waitFor();
  await page.getByRole("cell", { name: "one", exact: true }).waitFor();
  await page.getByRole("cell", { name: "two", exact: true }).waitFor();
  await picture(page, "fleet-tracker");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("row").filter({ hasText: "two" }).getByRole("link").click();
  await page.getByText("Node", { exact: true }).waitFor();
  await page.goBack();
  // One node alone: its transactions, and its page.
  await page.getByLabel("Node").selectOption({ label: "two" });
  await page.getByRole("cell", { name: "one", exact: true }).waitFor({ state: "detached" });
  assert.match(page.url(), /node=/);
  await page.goto(`${one.admin}/console/fleet`);
  await page.getByRole("region", { name: "Nodes" }).getByRole("link", { name: "two", exact: true }).click();
  await page.waitForURL(/traffic\/node\/two/);
  await page.getByText("By API").waitFor();
  await page.getByRole("link", { name: "Transactions", exact: true }).click();
  await page.waitForURL(/tracker\?.*node=two/);
  await page.getByRole("heading", { name: "1 transaction", exact: true }).waitFor();
  await page.goto(`${one.admin}/console/tracker?q=api%3Ax`);
  await page.getByRole("cell", { name: "two", exact: true }).waitFor();
  two.child.kill("SIGSTOP");
  try {
    await page.reload();
    await page.getByText("1 of 2 nodes responded.").waitFor();
    await page.getByRole("cell", { name: "two", exact: true }).waitFor({ state: "detached" });
    await picture(page, "fleet-silent");
    assert.deepEqual(await violations(page), []);
  } finally {
    two.child.kill("SIGCONT");
  }
  assert.deepEqual(problems, []);
  await context.close();
}

/** Viewers see the fleet, and cannot retire. The page fits on a phone. */
async function viewers({ browser, one, two }) {
  for (const size of ["wide", "phone"]) {
    const { page, context, problems } = await visit(browser, { theme: "dark", size });
    await signIn(page, one, "viewer");
    await page.goto(`${one.admin}/console/fleet`);
    await page.getByRole("heading", { name: "2 of 2 nodes are live" }).waitFor();
    await picture(page, `fleet-${size}`);
    assert.deepEqual(await violations(page), []);
    const [width, viewport] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(width <= viewport, `a width of ${width}`);
    assert.deepEqual(problems, []);
    await context.close();
  }
  const { id } = JSON.parse((await one.call("GET", "/v1/fleet")).text).nodes.find(({ name }) => name === "two");
  const denied = await send(`${one.admin}/v1/fleet/nodes/${id}/retire`, { method: "POST", headers: { authorization: `Bearer ${one.tokens.viewer}` } });
  assert.equal(denied.status, 403);
  assert.equal((await two.call("POST", `/v1/fleet/nodes/${id}/retire`)).status, 409, "it is live");
}

async function fleet({ server, browser }) {
  // A single node has no such page.
  const single = await visit(browser);
  await signIn(single.page, server, "admin");
  await single.page.goto(`${server.admin}/console/fleet`);
  await single.page.getByText("No fleet").waitFor();
  assert.equal(await single.page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Fleet" }).count(), 0);
  await single.context.close();

  const folder = programs();
  if (!folder) return console.log("        skipped: PostgreSQL is not installed");
  const dir = mkdtempSync(join(tmpdir(), "weir-console-fleet-"));
  const postgres = await database(folder, dir);
  const nodes = [];
  try {
    for (const name of ["one", "two"]) nodes.push(await node(process.env.WEIR_BIN, dir, name, postgres.url));
    const [one, two] = nodes;
    const live = async () => JSON.parse((await one.call("GET", "/v1/fleet")).text).nodes.filter(({ state }) => state === "live").length;
    await eventually("both nodes have joined", async () => (await live()) === 2);
    await viewers({ browser, one, two });
    await search({ browser, one, two });
    await eventually("both nodes are live", async () => (await live()) === 2);
    await follow({ browser, postgres, one, two });
  } finally {
    for (const { child } of nodes) await stop(child);
    await postgres.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

export const fleets = { fleet };
