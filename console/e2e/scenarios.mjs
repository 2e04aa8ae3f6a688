// Scenarios of the console: operator workflows, and security properties.

import assert from "node:assert/strict";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { access } from "./accounts.mjs";
import { deployments } from "./deployments.mjs";
import { fleets } from "./fleet.mjs";
import { interrupted } from "./interrupted.mjs";
import { work } from "./jobs.mjs";
import { invoicing } from "./money.mjs";
import { rollouts } from "./rollouts.mjs";
import { send } from "./server.mjs";
import { tasks } from "./tasks.mjs";

const PAGES = {
  overview: "/console/",
  tracker: "/console/tracker?q=status%3A500",
  differs: "/console/tracker?q=status%3A500&differs=1",
  traffic: "/console/traffic/api/orders",
  consumer: "/console/traffic/consumer/acme",
  jobs: "/console/jobs",
  compare: "/console/compare",
  monitor: "/console/monitor",
  apis: "/console/apis",
  description: "/console/apis/described",
  explain: "/console/explain?method=GET&target=%2Fmirror%2Fa",
  pools: "/console/pools",
  lab: "/console/lab",
  configuration: "/console/configuration",
  access: "/console/access",
};

/** Every page in both themes: screenshots, no violations reported by axe, no errors. */
async function pages({ server, browser, ids }) {
  const found = [];
  for (const theme of ["light", "dark"]) {
    const { page, context, problems } = await visit(browser, { theme });
    await page.goto(`${server.admin}/console/`);
    await page.getByLabel("Admin token").waitFor();
    const check = async (name) => {
      await picture(page, `${name}-${theme}`);
      found.push(...(await violations(page)).map((one) => `${name}, ${theme}: ${one}`));
    };
    await check("sign-in");
    await signIn(page, server, "admin");
    const all = { ...PAGES, transaction: `/console/transactions/${ids.failed}?q=wombat`, xml: `/console/tracker?q=api%3Alegacy` };
    for (const [name, path] of Object.entries(all)) {
      await page.goto(server.admin + path);
      await page.getByRole("main").waitFor();
      await page.waitForTimeout(700);
      await check(name);
    }
    found.push(...problems);
    await context.close();
  }
  assert.equal(found.join("\n"), "");
}

/** The same on a phone: no page is wider than the screen. */
async function phone({ server, browser, ids }) {
  const { page, context, problems } = await visit(browser, { size: "phone" });
  await signIn(page, server, "admin");
  for (const [name, path] of Object.entries({ ...PAGES, transaction: `/console/transactions/${ids.failed}` })) {
    await page.goto(server.admin + path);
    await page.waitForTimeout(1200);
    await picture(page, `${name}-phone`);
    const [width, viewport] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(width <= viewport, `${name} has a width of ${width}`);
  }
  assert.deepEqual(problems, []);
  await context.close();
}

/** Finds a failed transaction by a word in its payload, reads the cause, edits and resubmits it. */
async function repair({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.keyboard.press("/");
  const search = page.getByRole("combobox", { name: "Search transactions" });
  await search.waitFor();
  await search.fill("stat");
  await page.getByRole("option", { name: /status:/ }).waitFor();
  await search.fill("status:>=");
  await search.press("Enter");
  await page.getByRole("alert").filter({ hasText: "Invalid query" }).waitFor();
  await search.fill("wombat state:failed");
  await search.press("Enter");
  await page.getByRole("row").filter({ hasText: "/orders" }).first().waitFor();
  await picture(page, "found");
  await page.locator("h1").first().evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText("the customer of the order is missing").waitFor();
  assert.equal(await page.locator("mark", { hasText: "wombat" }).count() > 0, true, "hits are marked");
  await page.keyboard.press("e");
  const body = page.getByRole("textbox", { name: /^Body/ });
  await body.waitFor();
  await body.fill('{"orderId":"B-1","customer":');
  await page.getByText(/no longer valid JSON/).waitFor();
  await body.fill('{"orderId":"B-1","customer":"Wombat Ltd"}');
  await page.getByRole("region", { name: "Differences" }).getByText("Wombat Ltd").waitFor();
  await picture(page, "edit");
  assert.deepEqual(await violations(page), []);
  await page.getByRole("dialog").getByRole("button", { name: "Resubmit" }).click();
  await page.getByText("Attempt 1 succeeded with 200").waitFor();
  const chain = page.getByRole("table").filter({ hasText: "succeeded" });
  await chain.waitFor();
  await picture(page, "chain");
  await chain.getByRole("link").first().click();
  await page.getByText("This is a resubmission of").waitFor();
  await page.getByText('"Wombat Ltd"').first().waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** Bulk resubmission of twelve transactions with a pause. */
async function bulk({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.goto(`${server.admin}/console/tracker?q=numbat`);
  await page.getByRole("button", { name: "Resubmit all…" }).click();
  await page.getByLabel("Requests per second").fill("4");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: "Send 12" }).click();
  await page.getByText(/^[3-9] of 12 sent/).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  const sent = await page.getByText(/of 12 sent/).textContent();
  await picture(page, "paused");
  await page.waitForTimeout(1200);
  const later = await page.getByText(/of 12 sent/).textContent();
  assert.ok(Math.abs(Number.parseInt(later, 10) - Number.parseInt(sent, 10)) <= 1, `${sent}, then ${later}`);
  await page.getByLabel("per second").fill("100");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByText("12 of 12 sent").waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** A throttled consumer is visible immediately. */
async function throttled({ server, browser }) {
  const { page, context } = await visit(browser);
  await signIn(page, server, "viewer");
  await page.getByText("Requests per second").waitFor();
  let isOn = true;
  const hammer = (async () => {
    while (isOn) await send(`${server.base}/orders`, { headers: { "x-api-key": server.keys.beta.key } });
  })();
  const begun = Date.now();
  await page.getByText("Throttled now:").waitFor({ timeout: 5000 });
  console.log(`        a throttled consumer is shown after ${Date.now() - begun} ms`);
  await page.getByRole("link", { name: "beta", exact: true }).first().click();
  await page.waitForURL(/traffic\/consumer\/beta/);
  await page.getByText("throttled by rate").waitFor();
  await page.goto(`${server.admin}/console/monitor`);
  await page.getByRole("tab", { name: "Limits" }).click();
  await page.waitForURL(/tab=limits/);
  await page.getByText("throttled by rate").waitFor();
  await picture(page, "limits");
  assert.deepEqual(await violations(page), []);
  isOn = false;
  await hammer;
  await context.close();
}

/** An invalid configuration is rejected with the finding on its line; a valid one is put in force. */
async function configuration({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "admin");
  await page.goto(`${server.admin}/console/configuration`);
  await page.getByText("In force since").waitFor();
  // Another user is editing a form.
  const other = await visit(browser);
  await signIn(other.page, server, "operator");
  await other.page.goto(`${server.admin}/console/explain`);
  await other.page.getByLabel("Path or URL").fill("/hello");
  server.configure("upstreams2: {}\n");
  await page.getByText("The last reload was rejected").waitFor();
  await page.getByText("unknown-key").first().waitFor();
  await page.locator("mark.wrong", { hasText: "upstreams2" }).waitFor();
  await picture(page, "rejected");
  assert.deepEqual(await violations(page), []);
  server.configure("");
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByText("In force since").waitFor();
  await other.page.getByRole("button", { name: "Explain", exact: true }).click();
  await other.page.getByText("Response of weir").waitFor();
  await other.page.getByText("Live", { exact: true }).waitFor();
  assert.deepEqual(other.problems, []);
  await other.context.close();
  await page.getByRole("textbox", { name: /^Configuration/ }).fill("version: 1\nlisten: 8080\n");
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("not usable").waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** Actions that a role does not permit are hidden, and rejected by the server. */
async function roles({ server, browser, ids }) {
  const names = ["viewer", "payload-viewer", "operator", "admin"];
  for (const [rank, role] of names.entries()) {
    const { page, context, problems } = await visit(browser);
    await signIn(page, server, role);
    const isVisible = async (name) => (await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).count()) > 0;
    assert.equal(await isVisible("Jobs"), rank >= 2, role);
    assert.equal(await isVisible("Access"), rank >= 3, role);
    await page.goto(`${server.admin}/console/transactions/${ids.failed}`);
    await page.getByRole("heading", { name: "Durations" }).waitFor();
    assert.equal((await page.getByText("Headers and bodies are hidden").count()) > 0, rank < 1, role);
    assert.equal((await page.getByRole("button", { name: "Resubmit", exact: true }).count()) > 0, rank >= 2, role);
    const statusOf = (path, method = "GET", headers = {}) =>
      page.evaluate(async ([path, method, headers]) => (await fetch(path, { method, headers })).status, [path, method, headers]);
    const csrf = { "weir-csrf-token": await page.evaluate(() => localStorage.getItem("weir.csrf-token")) };
    assert.equal((await statusOf("/v1/audit", "GET", csrf)) === 200, rank >= 3, role);
    assert.equal((await statusOf(`/v1/transactions/${ids.failed}/request-body`, "GET", csrf)) === 200, rank >= 1, role);
    assert.equal((await statusOf("/v1/jobs/999/run", "POST", csrf)) === 404, rank >= 2, role);
    // The cookie alone permits neither reads nor actions.
    assert.equal(await statusOf("/v1/session"), 401);
    assert.equal(await statusOf("/v1/session", "DELETE"), 401);
    // A reloaded page and a second tab keep the session; sign-out there ends the session here, too.
    await page.reload();
    await page.getByRole("heading", { name: "Durations" }).waitFor();
    const second = await context.newPage();
    await second.goto(`${server.admin}/console/`);
    await second.getByRole("navigation", { name: "Pages" }).waitFor();
    if (rank === 0) {
      await second.getByRole("button", { name: /Account/ }).click();
      await second.getByRole("menuitem", { name: "Sign out" }).click();
      await page.getByLabel("Admin token").waitFor();
      await signIn(page, server, role);
    }
    await second.close();
    await page.getByRole("button", { name: /Account/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByLabel("Admin token").waitFor();
    assert.equal(await statusOf("/v1/session"), 401, "the session has ended");
    assert.deepEqual(problems, []);
    await context.close();
  }
}

/** Recorded content is shown as data only. */
async function hostile({ server, browser, ids }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "admin");
  await page.addInitScript(() => {
    globalThis.tasks = [];
    new PerformanceObserver((entries) => globalThis.tasks.push(...entries.getEntries().map((task) => Math.round(task.duration)))).observe({ type: "longtask" });
  });
  for (const name of ["script", "svg", "html", "override", "line", "png", "large", "huge"]) {
    await page.goto(`${server.admin}/console/transactions/${ids[name]}`);
    await page.getByRole("heading", { name: "Request", exact: true }).waitFor();
    if (name === "huge") await page.getByText("of 50 MiB were recorded").first().waitFor();
    if (name !== "png") await page.getByRole("region", { name: "Request body" }).waitFor({ timeout: 8000 });
    if (["large", "line", "huge"].includes(name)) console.log(`        ${name}: long tasks of ${await page.evaluate(() => globalThis.tasks)} ms`);
    assert.ok(!/owned|^1$/.test(await page.title()), name);
    assert.equal(await page.locator(".lines script, .lines svg, .lines iframe, .lines img").count(), 0, name);
    const text = await page.locator("body").innerText();
    if (name === "override") assert.ok(text.includes("⟨U+202E⟩") && text.includes("⟨U+0000⟩") && !text.includes("\u202E"), "control characters are visible");
    if (name === "png") await page.getByAltText("The recorded body").first().waitFor();
    await picture(page, `hostile-${name}`);
  }
  assert.ok((await page.locator(".line").count()) < 200, "only visible lines are in the document");
  assert.deepEqual(problems, []);
  await context.close();
}

/** Only visible rows of a long list are in the document. */
async function list({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "viewer");
  const begun = Date.now();
  await page.goto(`${server.admin}/console/tracker`);
  await page.getByRole("row").nth(1).waitFor();
  const shown = Date.now() - begun;
  await page.evaluate(() => {
    globalThis.tasks = [];
    new PerformanceObserver((entries) => globalThis.tasks.push(...entries.getEntries().map((task) => Math.round(task.duration)))).observe({ type: "longtask" });
  });
  const rows = page.locator(".hits-scroll .hit");
  let maxRows = 0;
  for (let at = 0; at < 40; at += 1) {
    await page.locator(".hits-scroll").evaluate((box) => box.scrollBy(0, 2000));
    await page.waitForTimeout(60);
    maxRows = Math.max(maxRows, await rows.count());
  }
  assert.match(await rows.last().getByRole("link").getAttribute("href"), /^\/console\/transactions\/[0-9a-f-]{36}$/);
  const last = Number(await rows.last().getAttribute("aria-rowindex"));
  console.log(`        the list is shown after ${shown} ms; at most ${maxRows} rows, scrolled to ${last}, long tasks: ${await page.evaluate(() => globalThis.tasks)}`);
  assert.ok(maxRows <= 200 && last > 400, `${maxRows} rows, the last is ${last}`);
  assert.deepEqual(problems, []);
  await context.close();
}

/** Explains a request from a route and from a transaction; nothing is sent. */
async function explain({ server, browser, ids }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.goto(`${server.admin}/console/apis`);
  await page.locator("summary", { hasText: "/mirror/" }).click();
  await page.getByRole("link", { name: "Explain or test a request" }).click();
  assert.equal(await page.getByLabel("Path or URL").inputValue(), "/mirror/");
  await page.getByLabel("Headers, one per line").fill("x-a: b\nauthorization: Bearer s3cret");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("Request to upstream shop").waitFor();
  await page.getByText("authorization: ***").first().waitFor();
  assert.equal((await page.getByText("s3cret").count()) <= 1, true, "only in the form");
  await picture(page, "explained");
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Or a curl command").fill("curl --proxy p http://a/");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("the option --proxy is not supported").waitFor();
  await page.goto(`${server.admin}/console/transactions/${ids.failed}`);
  await page.getByRole("main").getByRole("link", { name: "Explain", exact: true }).click();
  await page.getByText("Recorded outcome").waitFor();
  assert.match(await page.getByLabel("Or a curl command").inputValue(), /^curl /);
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("Policies in the order of processing").waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** From an API's OpenAPI document to a test request, which is injected and recorded. */
async function testRequests({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "operator");
  await page.goto(`${server.admin}/console/apis`);
  await page.getByText(/since the start/).first().waitFor();
  await page.getByRole("link", { name: "OpenAPI" }).click();
  await page.getByRole("heading", { name: "Orders", exact: true }).waitFor();
  await page.getByText("Place an order").waitFor();
  await page.getByText("application/json").first().click();
  await page.getByRole("button", { name: "Explain or test POST /orders", exact: true }).click();
  const command = page.getByLabel("Or a curl command");
  assert.match(await command.inputValue(), /^curl -X POST -H 'content-type: application\/json' -d /);
  await page.getByRole("button", { name: "Send test request" }).click();
  await page.getByRole("status").filter({ hasText: "Response" }).getByText("401").waitFor();
  await command.fill(`curl -H 'x-api-key: ${server.keys.acme.key}' -H 'content-type: application/json' -d '{"sku":"A-100","quantity":2}' http://localhost/shop/v1/orders`);
  await page.getByRole("button", { name: "Send test request" }).click();
  await page.getByRole("status").filter({ hasText: "Response" }).getByText("201").waitFor();
  await page.getByRole("region", { name: "Response body" }).getByText("A-100").waitFor();
  await picture(page, "test-response");
  assert.deepEqual(await violations(page), []);
  await page.waitForTimeout(1500);
  await page.getByRole("link", { name: "Show the transaction" }).click();
  await page.getByText("tried-by").waitFor();
  await page.getByText("the operator").first().waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** A load test on a listener of this server: limited, monitored, stopped, its result shown and compared. */
async function lab({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "admin");
  await page.goto(`${server.admin}/console/lab`);
  await page.getByText("No results yet").waitFor();
  assert.deepEqual(await violations(page), []);
  for (const [round, seconds] of [[0, 60], [1, 4]]) {
    await page.getByRole("button", { name: "Start a suite…" }).click();
    assert.equal(await page.getByLabel("Suite").inputValue(), "toro", "a suite with routes on this server is preselected");
    await page.getByLabel("Maximum requests per second").fill("40");
    await page.getByLabel("Maximum time in seconds").fill(String(seconds));
    assert.equal(await page.getByRole("button", { name: "Start", exact: true }).isDisabled(), true, "requires a confirmation");
    await page.getByLabel(/^Start this load test on/).check();
    if (round === 0) {
      await picture(page, "lab-start");
      assert.deepEqual(await violations(page), []);
    }
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("heading", { name: "Running: toro" }).waitFor();
    await page.getByRole("img", { name: "Requests and errors per second" }).waitFor();
    const running = JSON.parse((await server.call("GET", "/v1/lab/run")).text);
    assert.ok(running.seconds.every((second) => second.samples <= 50), JSON.stringify(running.seconds));
    if (round === 0) {
      assert.equal((await server.call("POST", "/v1/lab/run", running.start)).status, 409, "one at a time");
      await page.waitForTimeout(2500);
      await picture(page, "lab-running");
      await page.getByRole("button", { name: "Stop" }).click();
    }
    await page.getByRole("heading", { name: "Last load test: toro" }).waitFor({ timeout: 20_000 });
  }
  await page.getByRole("link", { name: "Result" }).click();
  await page.getByRole("heading", { name: "Case", exact: true }).waitFor();
  await picture(page, "lab-result");
  assert.deepEqual(await violations(page), []);
  const policies = [];
  context.on("response", (response) => {
    if (new URL(response.url()).pathname.endsWith("/report")) policies.push(response.headers()["content-security-policy"]);
  });
  const report = page.getByRole("link", { name: "Open report" });
  const [tab] = await Promise.all([context.waitForEvent("page"), report.click()]);
  await tab.waitForLoadState();
  assert.match(policies[0] ?? "", /^sandbox allow-scripts; default-src 'none'/);
  // Its URL is valid once.
  assert.equal((await (await context.newPage()).goto(tab.url())).status(), 401);
  assert.equal(await tab.evaluate(() => globalThis.origin), "null", "the report has no session");
  assert.match(await tab.evaluate(() => fetch("/v1/session").catch(() => "blocked")), /blocked/);
  await picture(tab, "lab-report");
  await tab.close();
  await page.getByRole("link", { name: "Lab", exact: true }).first().click();
  for (const box of await page.getByRole("checkbox", { name: /^Compare/ }).all()) await box.check();
  await picture(page, "lab-results");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByText("Comparison by case").waitFor();
  await picture(page, "lab-compare");
  assert.deepEqual(await violations(page), []);
  const audit = await server.call("GET", "/v1/audit");
  assert.match(audit.text, /start-load/);
  assert.deepEqual(problems, []);
  await context.close();
}

/** Keyboard only: along the list, to other pages, and the list of shortcuts. */
async function keys({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "payload-viewer");
  await page.goto(`${server.admin}/console/tracker?q=api%3Aorders`);
  const rows = page.getByRole("row").filter({ hasText: "/orders" });
  await rows.nth(2).waitFor();
  await page.locator("h1").first().evaluate(() => document.activeElement?.blur());
  const at = () => page.locator('[role=row][aria-selected="true"]').getAttribute("aria-rowindex");
  await page.keyboard.press("j");
  const first = Number(await at());
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.equal(Number(await at()), first + 2);
  await page.keyboard.press("k");
  assert.equal(Number(await at()), first + 1);
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" });
  await dialog.getByText("next transaction").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("j");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  assert.equal(Number(await at()), first + 1, "shortcuts are off in a dialog");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /orders/ }).first().waitFor();
  await page.keyboard.press("u");
  await rows.first().waitFor();
  // Links and buttons beside the list are activated as on any page.
  await page.getByRole("button", { name: "Keyboard shortcuts" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  // Menus: Enter opens them, Escape closes them, their button closes them, too, and has the focus again.
  for (const [button, menu] of [
    [page.getByRole("button", { name: /^Last 15 minutes/ }).first(), page.getByRole("dialog", { name: "Time range" })],
    [page.getByRole("button", { name: /^Account/ }), page.getByRole("menu")],
  ]) {
    await button.focus();
    await page.keyboard.press("Enter");
    await menu.waitFor();
    await page.keyboard.press("Escape");
    await menu.waitFor({ state: "hidden" });
    assert.ok(await button.evaluate((element) => element === document.activeElement), "the focus returns");
    await button.click();
    await menu.waitFor();
    await button.click();
    await menu.waitFor({ state: "hidden" });
  }
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "APIs" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/console\/apis/);
  await page.keyboard.press("g");
  await page.keyboard.press("m");
  await page.getByRole("tab", { name: "Limits" }).waitFor();
  await page.keyboard.press("/");
  const search = page.getByRole("combobox", { name: "Search transactions" });
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "combobox");
  await page.keyboard.type("gm?j");
  assert.equal(await search.inputValue(), "gm?j", "shortcuts are off in a text field");
  assert.deepEqual(problems, []);
  await context.close();
}

/** Printed invoices: without the frame of the page, in black on white. */
async function printed({ server, browser }) {
  const { page, context, problems } = await visit(browser, { theme: "dark" });
  await signIn(page, server, "viewer");
  await page.goto(`${server.admin}/console/monitor`);
  await page.getByRole("tab", { name: "Invoices" }).click();
  await page.getByRole("heading", { name: "acme" }).waitFor();
  await page.evaluate(() => {
    globalThis.print = () => {
      globalThis.printed = (globalThis.printed ?? 0) + 1;
    };
  });
  await page.getByRole("button", { name: "Print" }).click();
  assert.equal(await page.evaluate(() => globalThis.printed), 1);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.getByRole("heading", { name: "acme" }).isVisible(), true);
  assert.equal(await page.getByRole("navigation", { name: "Pages" }).isVisible(), false);
  assert.equal(await page.getByRole("button", { name: "Print" }).isVisible(), false);
  const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(paper, "rgb(255, 255, 255)");
  await picture(page, "invoice-printed");
  assert.deepEqual(problems, []);
  await context.close();
}

/** Audit log, filtered by actor and action. */
async function audited({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "admin");
  await page.goto(`${server.admin}/console/access`);
  const filters = page.getByRole("form", { name: "Filter the audit log" });
  await filters.getByLabel("Action", { exact: true }).fill("sign-in");
  await filters.getByLabel("Actor", { exact: true }).fill("the admin");
  await filters.getByRole("button", { name: "Show" }).click();
  const lines = page.getByRole("table").filter({ hasText: "Object" }).locator("tbody tr");
  await lines.filter({ hasNotText: "sign-in" }).first().waitFor({ state: "detached" });
  await lines.first().waitFor();
  for (const line of await lines.allTextContents()) assert.match(line, /the admin.*sign-in/);
  await filters.getByLabel("Actor", { exact: true }).fill("nobody at all");
  await filters.getByRole("button", { name: "Show" }).click();
  await page.getByText("No entries").waitFor();
  await picture(page, "audit-empty");
  assert.deepEqual(await violations(page), []);
  await filters.getByRole("button", { name: "All" }).click();
  await lines.filter({ hasText: "make-token" }).first().waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** The first view with an empty cache: complete, and without requests to other hosts. */
async function first({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  const begun = Date.now();
  await page.goto(`${server.admin}/console/`);
  await page.getByLabel("Admin token").waitFor();
  console.log(`        sign-in after ${Date.now() - begun} ms`);
  await signIn(page, server, "viewer");
  const again = Date.now();
  await page.reload();
  await page.getByText("Requests per second").waitFor();
  console.log(`        overview after ${Date.now() - again} ms`);
  assert.deepEqual(problems, []);
  await context.close();
}

/** From a figure to its transactions: what distinguishes failures, the traffic of each name, the ejected target. */
async function drill({ server, browser }) {
  const { page, context, problems } = await visit(browser);
  await signIn(page, server, "payload-viewer");
  await page.goto(`${server.admin}/console/tracker?range=1h&q=status%3A502`);
  await page.getByRole("button", { name: "What differs" }).click();
  const differs = page.getByRole("region", { name: "What differs" });
  await differs.getByText("compared with").waitFor();
  assert.match(await differs.locator("dt").first().textContent(), /API|Route|Operation|Upstream|Target/);
  await differs.getByRole("button", { name: "legacy" }).first().click();
  await page.waitForURL(/api%3Alegacy/);
  assert.match(page.url(), /differs=1/, "the view is in the address");

  // The status strip leads to the target, and that to its transactions.
  const strip = page.locator(".status-strip");
  await strip.getByText("Target 127.0.0.1:1 of gone is ejected").waitFor();
  await strip.getByRole("link", { name: "Its traffic" }).first().click();
  await page.waitForURL(/traffic\/upstream\/gone/);
  await page.getByRole("row").filter({ hasText: "ejected: failures" }).first().waitFor();
  await page.getByRole("heading", { name: "Health over time" }).waitFor();
  await page.getByRole("link", { name: "127.0.0.1:1", exact: true }).first().click();
  await page.waitForURL(/traffic\/upstream_target/);
  await page.getByRole("heading", { name: "Requests per second, by status" }).waitFor();
  await page.getByRole("link", { name: "Failures" }).click();
  await page.waitForURL(/tracker\?.*state%3Acompleted/);

  // A pool.
  await page.goto(`${server.admin}/console/pools?range=1h`);
  await page.getByRole("link", { name: "workers", exact: true }).click();
  await page.waitForURL(/traffic\/pool\/workers/);
  await page.getByRole("heading", { name: "Slowest transactions" }).waitFor();

  // An API, its route within it, a consumer.
  await page.goto(`${server.admin}/console/apis?range=1h`);
  await page.getByRole("heading", { name: /^orders/ }).getByRole("link", { name: "orders", exact: true }).click();
  await page.waitForURL(/traffic\/api\/orders/);
  for (const title of ["Durations over time", "Time by stage", "Slowest transactions", "By consumer"]) await page.getByRole("heading", { name: title }).waitFor();
  assert.ok((await page.locator(".heatmap rect").count()) > 0);
  await page.getByRole("link", { name: "place", exact: true }).first().click();
  await page.waitForURL(/traffic\/operation\/place\?.*within=api%3Aorders/);
  await page.goBack();
  await page.waitForURL(/traffic\/api\/orders/);
  await page.getByRole("link", { name: "acme", exact: true }).first().click();
  await page.waitForURL(/traffic\/consumer\/acme/);
  const cell = page.locator(".heatmap rect").first();
  await cell.waitFor();
  const told = Number((await cell.locator("title").textContent()).replace(/\D.*/, ""));
  await cell.dispatchEvent("click");
  await page.waitForURL(/took%3A/);
  await page.getByRole("heading", { name: new RegExp(`^${told} transactions?$`) }).waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

export const scenarios = { first, list, keys, drill, repair, bulk, throttled, ...invoicing, printed, audited, explain, testRequests, lab, roles, hostile, configuration, pages, phone, ...work, ...access, ...fleets, rollouts, deployments, tasks, ...interrupted };
