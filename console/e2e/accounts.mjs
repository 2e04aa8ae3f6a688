// Accounts of an identity provider, scopes, sessions, and who viewed a payload.

import assert from "node:assert/strict";
import { picture, signIn, violations, visit } from "./browser.mjs";
import { CLIENT, provide } from "./provider.mjs";
import { task } from "./task.mjs";

/** Signs in at the provider, from its first page on. */
async function authenticate(page, account) {
  await page.getByPlaceholder("Enter any login").fill(account);
  await page.getByPlaceholder("and password").fill("x");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

/** The provider's own pages load a font: they are not pages of weir. */
const ofWeir = (problems) => problems.filter((one) => !/fonts\.(googleapis|gstatic)|ERR_(FAILED|NAME_NOT_RESOLVED)/.test(one));

/** An account signs in, has the role of its group, and signs out of the provider, too. */
async function accounts({ server, browser }) {
  const provider = await provide([server.admin]);
  const roles = "[{group: ops, role: admin}, {group: support, role: payload-viewer, apis: orders, depth: metadata}]";
  server.configure(`admin: {oidc: {issuer: "${provider.issuer}", name: Example, client_id: ${CLIENT.id}, client_secret: "${CLIENT.secret}", roles: ${roles}}}\n`);
  assert.equal(JSON.parse((await server.call("POST", "/v1/configuration/reload")).text).taken, true);
  try {
    const { page, context, problems } = await visit(browser);
    await context.route("https://**", (route) => route.abort());
    await page.goto(`${server.admin}/console/`);
    await page.getByRole("link", { name: "Sign in with Example" }).waitFor();
    await picture(page, "account-sign-in");
    assert.deepEqual(await violations(page), []);
    await page.getByRole("link", { name: "Sign in with Example" }).click();
    await authenticate(page, "ann+support");
    await page.getByRole("navigation", { name: "Pages" }).waitFor();
    assert.ok(!page.url().includes("sign-in="), page.url());
    // The scope: an API and no server.
    const pages = await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allTextContents();
    assert.deepEqual(pages, ["Overview", "Tracker", "Monitor", "APIs"]);
    await page.getByText("Figures of the whole server are hidden").waitFor();
    await picture(page, "account-narrowed");
    assert.deepEqual(await violations(page), []);
    await page.goto(`${server.admin}/console/tracker?range=1h`);
    await page.getByText(/^\/orders/).first().waitFor();
    assert.equal(await page.getByText(/^\/legacy/).count(), 0);
    await picture(page, "account-tracker");
    await page.getByRole("button", { name: /^Account: ann/ }).click();
    await page.getByText("scope orders; metadata").waitFor();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    // The provider asks whether its own session ends, too, and returns.
    await page.getByRole("button", { name: "Yes, sign me out" }).click();
    await page.getByLabel("Admin token").waitFor();
    await page.getByRole("link", { name: "Sign in with Example" }).click();
    await page.getByPlaceholder("Enter any login").waitFor();
    await authenticate(page, "eve+guests");
    await page.getByRole("heading", { name: "No access" }).waitFor();
    await picture(page, "account-without-role");
    assert.deepEqual(ofWeir(problems), []);
    await context.close();

    // An admin sees the sessions, and ends one.
    const other = await visit(browser);
    await other.context.route("https://**", (route) => route.abort());
    await other.page.goto(`${server.admin}/v1/oidc/start?from=/console/access`);
    await authenticate(other.page, "bob+ops");
    await other.page.getByRole("heading", { name: "Sessions" }).waitFor();
    assert.ok(other.page.url().endsWith("/console/access"), other.page.url());
    await other.page.getByRole("row", { name: /bob.*yours/ }).waitFor();
    await picture(other.page, "access-sessions");
    assert.deepEqual(await violations(other.page), []);
    assert.deepEqual(ofWeir(other.problems), []);
    await other.context.close();
  } finally {
    server.configure("");
    await server.call("POST", "/v1/configuration/reload");
    await provider.close();
  }
}

/** A new colleague may see counts but no payloads; an admin sees who viewed a payload. */
async function colleague({ server, browser, ids }) {
  const admin = await visit(browser);
  await signIn(admin.page, server, "admin");
  await admin.page.goto(`${server.admin}/console/access`);
  const one = task(admin.page, "colleague");
  const dialog = admin.page.getByRole("dialog");
  await one.click(admin.page.getByRole("button", { name: "New token…" }), dialog.waitFor());
  await dialog.getByLabel("Name").fill("new colleague");
  await one.choose(dialog.getByLabel("Depth"), "counts");
  await one.choose(dialog.getByLabel("Expires"), { label: "in 30 days" });
  await picture(admin.page, "token-scope");
  assert.deepEqual(await violations(admin.page), []);
  await one.click(dialog.getByRole("button", { name: "Create" }), dialog.locator("code").waitFor());
  one.done();
  const token = await dialog.locator("code").textContent();
  await admin.page.keyboard.press("Escape");

  const { page, context, problems } = await visit(browser);
  await page.goto(`${server.admin}/console/`);
  await page.getByLabel("Admin token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Requests", { exact: true }).first().waitFor();
  const pages = await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allTextContents();
  assert.ok(!pages.includes("Tracker") && pages.includes("Monitor") && pages.includes("Pools"), pages.join());
  await page.goto(`${server.admin}/console/transactions/${ids.failed}`);
  await page.getByText(/depth counts; this requires metadata/).waitFor();
  await picture(page, "colleague");
  assert.deepEqual(problems, []);
  await context.close();

  await admin.page.goto(`${server.admin}/console/transactions/${ids.failed}`);
  await admin.page.getByRole("link", { name: "Who viewed this payload" }).click();
  await admin.page.getByRole("row", { name: new RegExp(`the admin.*show.*${ids.failed}`) }).first().waitFor();
  assert.equal(await admin.page.getByLabel("Object").inputValue(), ids.failed);
  await picture(admin.page, "who-viewed");
  const [download] = await Promise.all([admin.page.waitForEvent("download"), admin.page.getByRole("link", { name: "CSV" }).click()]);
  assert.equal(download.suggestedFilename(), "audit.csv");
  assert.deepEqual(admin.problems, []);
  await admin.context.close();
}

export const access = { accounts, colleague };
