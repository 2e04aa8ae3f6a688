// What an operator does, and what must never happen.

import assert from "node:assert/strict";
import { picture, signIn, violations, visit } from "./browser.mjs";

const PAGES = {
  overview: "/console/",
  tracker: "/console/tracker?q=status%3A500",
  jobs: "/console/jobs",
  monitor: "/console/monitor",
  access: "/console/access",
};

/** Every page in both themes: pictures of it, nothing for axe, no error. */
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
      await page.waitForTimeout(1500);
      await check(name);
    }
    found.push(...problems);
    await context.close();
  }
  assert.equal(found.join("\n"), "");
}

/** The same on a phone: nothing is wider than it. */
async function phone({ server, browser, ids }) {
  const { page, context, problems } = await visit(browser, { size: "phone" });
  await signIn(page, server, "admin");
  for (const [name, path] of Object.entries({ ...PAGES, transaction: `/console/transactions/${ids.failed}` })) {
    await page.goto(server.admin + path);
    await page.waitForTimeout(1200);
    await picture(page, `${name}-phone`);
    const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= seen, `${name} is ${wide} wide`);
  }
  assert.deepEqual(problems, []);
  await context.close();
}

export const scenarios = { pages, phone };
