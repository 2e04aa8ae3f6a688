// Interruptions: of the server, a session, or the recording. Also the search by id.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { send } from "./server.mjs";

/** A server that hangs is reported within five seconds on every page, and so is its return. */
async function silent({ server, browser }) {
  const { page, context } = await visit(browser);
  await signIn(page, server, "viewer");
  const banner = page.getByRole("alert").filter({ hasText: "The server does not respond" });
  for (const path of ["/console/", "/console/tracker"]) {
    await page.goto(server.admin + path);
    await page.getByText("Live", { exact: true }).waitFor();
    assert.equal(await banner.count(), 0);
    process.kill(server.pid, "SIGSTOP");
    const begun = Date.now();
    try {
      await banner.waitFor({ timeout: 10_000 });
      const took = Date.now() - begun;
      console.log(`        a server that hangs is reported after ${took} ms`);
      assert.ok(took <= 5000, `${took} ms`);
      assert.match(await banner.textContent(), /since \d/);
      await picture(page, "silent");
      assert.deepEqual(await violations(page), []);
    } finally {
      process.kill(server.pid, "SIGCONT");
    }
    await banner.waitFor({ state: "detached", timeout: 10_000 });
  }
  await context.close();
}

/** A revoked token does not lose edits: the page is covered until the next sign-in. */
async function revoked({ server, browser, ids }) {
  const { page, context, problems } = await visit(browser);
  const create = async (name, role) => JSON.parse((await server.call("POST", "/v1/tokens", { name, role })).text);
  const first = await create("first operator", "operator");
  await page.goto(`${server.admin}/console/`);
  await page.getByLabel("Admin token").fill(first.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
  await page.goto(`${server.admin}/console/transactions/${ids.failed}`);
  await page.getByRole("button", { name: "Edit and resubmit…" }).click();
  const body = page.getByRole("textbox", { name: /^Body/ });
  const edited = '{"orderId":"R-1","customer":"an edit of a quarter of an hour"}';
  await body.fill(edited);
  assert.equal((await server.call("DELETE", `/v1/tokens/${first.id}`)).status, 204);
  await page.getByRole("dialog", { name: "Edit and resubmit" }).getByRole("button", { name: "Resubmit", exact: true }).click();
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.getByText("Your session has ended").waitFor();
  await picture(page, "revoked");
  await page.keyboard.press("Escape");
  assert.equal(await again.isVisible(), true, "Escape does not close the dialog");
  await again.getByText("Your session has ended").click();
  await again.getByLabel("Admin token").fill(server.tokens.operator);
  await again.getByRole("button", { name: "Sign in" }).click();
  await again.waitFor({ state: "detached" });
  assert.equal(await body.inputValue(), edited);
  await page.getByRole("dialog", { name: "Edit and resubmit" }).getByRole("button", { name: "Cancel" }).click();

  // A lower role sees nothing of the page.
  const second = await create("second operator", "operator");
  const other = await visit(browser);
  await other.page.goto(`${server.admin}/console/explain`);
  await other.page.getByLabel("Admin token").fill(second.token);
  await other.page.getByRole("button", { name: "Sign in" }).click();
  await other.page.getByLabel("Path or URL").fill("/mirror/kept");
  assert.equal((await server.call("DELETE", `/v1/tokens/${second.id}`)).status, 204);
  await other.page.getByRole("button", { name: "Explain", exact: true }).click();
  const cover = other.page.getByRole("dialog", { name: "Sign in again" });
  await cover.getByLabel("Admin token").fill(server.tokens.viewer);
  await cover.getByRole("button", { name: "Sign in" }).click();
  await cover.waitFor({ state: "detached" });
  await other.page.getByText("/mirror/kept").waitFor({ state: "detached" });
  assert.deepEqual(problems, []);
  await other.context.close();
  await context.close();
}

/** An id in the search, complete or its first characters, finds its transaction, even outside of the time range. */
async function pasted({ server, browser }) {
  const sent = await send(`${server.base}/mirror/pasted`, {});
  const id = sent.headers["weir-transaction-id"];
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "viewer");
  const until = Date.now() + 20_000;
  while ((await server.call("GET", `/v1/transactions/${id}`)).status !== 200) {
    assert.ok(Date.now() < until, "the transaction is indexed");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  await page.goto(`${server.admin}/console/tracker?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z`);
  const search = page.getByRole("combobox", { name: "Search transactions" });
  await search.fill(` ${id.toUpperCase()} `);
  await search.press("Enter");
  await page.getByRole("heading", { name: /mirror\/pasted/ }).waitFor();
  assert.match(page.url(), new RegExp(`/console/transactions/${id}`));
  // So do its first characters, if no other id begins so.
  await page.goto(`${server.admin}/console/tracker?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z`);
  await search.fill(id.slice(0, 30));
  await search.press("Enter");
  await page.getByRole("heading", { name: /mirror\/pasted/ }).waitFor();
  // An unknown id is a search.
  await page.goto(`${server.admin}/console/tracker`);
  await search.fill("019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55");
  await search.press("Enter");
  await page.waitForURL(/q=019a9e3c/);
  assert.deepEqual(problems, []);
  await context.close();
}

/** Gaps of recording and metering are shown at the top of every page. */
async function missing({ server, browser }) {
  const gap = "import sqlite3, sys; base = sqlite3.connect(sys.argv[1], timeout=20); base.execute('INSERT INTO gap VALUES (unixepoch() - unixepoch() % 60, 4711, 0, 13)'); base.commit()";
  execFileSync("python3", ["-c", gap, join(server.data, "weir.db")]);
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "viewer");
  for (const path of ["/console/", "/console/tracker", "/console/monitor", "/console/apis", "/console/explain"]) {
    await page.goto(server.admin + path);
    const strip = page.locator(".status-strip");
    await strip.getByText("4711 requests were not recorded").waitFor();
    assert.match(await strip.textContent(), /4711 requests were not recorded.*13 calls of the last 24 hours were not metered/s);
  }
  assert.deepEqual(problems, []);
  await context.close();
}

export const interrupted = { silent, revoked, pasted, missing };
