// The system's Chromium, pages that report their errors, and screenshots.

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { extname } from "node:path";
import { chromium } from "playwright-core";

export const OUTPUT = new URL("../test-output/", import.meta.url).pathname;
mkdirSync(OUTPUT, { recursive: true });

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--force-prefers-reduced-motion"],
  });
}

/** A page with an empty profile; `problems` are its errors. */
export async function visit(browser, { theme = "light", size = "wide" } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme, timezoneId: "Europe/Amsterdam", locale: "en-GB" });
  const page = await context.newPage();
  if (process.env.CONSOLE_DIST) await serveFrom(context, process.env.CONSOLE_DIST);
  const problems = [];
  page.on("console", (message) => {
    // A missing session is an expected response.
    if (message.type() === "error" && !/status of (4\d\d|503)/.test(message.text())) problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error.stack ?? error)));
  page.on("request", (request) => {
    const url = request.url();
    if (/^https?:/.test(url) && !url.startsWith("http://127.0.0.1:")) problems.push(`request to ${url}`);
  });
  return { page, context, problems };
}

/** Serves files of a folder in place of the embedded ones, with the headers of the latter. */
async function serveFrom(context, folder) {
  await context.route("**/console/**", async (route) => {
    const path = new URL(route.request().url()).pathname.replace("/console/", "");
    const response = await route.fetch({ url: new URL("/console/", route.request().url()).href });
    const file = existsSync(`${folder}/${path}`) && path !== "" ? path : "index.html";
    const { "content-security-policy": policy } = response.headers();
    await route.fulfill({ path: `${folder}/${file}`, headers: { "content-security-policy": policy, "content-type": TYPES[extname(file)] ?? "" } });
  });
}

export async function signIn(page, server, role) {
  await page.goto(`${server.admin}/console/`);
  await page.getByLabel("Admin token").fill(server.tokens[role]);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}

/** Violations that axe reports for a page. */
export async function violations(page) {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => (await globalThis.axe.run(document, { resultTypes: ["violations"] })).violations);
  return found.map((one) => `${one.id}: ${one.help}\n    ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary?.split("\n")[1]?.trim() ?? ""}`).join("\n    ")}`);
}

export function picture(page, name) {
  return page.screenshot({ path: `${OUTPUT}${name}.png` });
}
