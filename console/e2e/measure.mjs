// Measures the console: figures are printed, nothing is asserted.
//   WEIR_BIN=target/release/weir node e2e/measure.mjs [TRANSACTIONS]

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { launch, signIn, visit } from "./browser.mjs";
import { send, serve } from "./server.mjs";
import { flow } from "./traffic.mjs";

const COUNT = Number(process.argv[2] ?? 100_000);
const CONSOLES = 10;
const SECONDS = 20;
const ROUNDS = 3;
/** Requests a second while consoles are open. */
const RATE = 5000;

/** Long tasks (over 50 ms) of a page since the last call, in milliseconds. */
async function watchTasks(page) {
  await page.addInitScript(() => {
    globalThis.tasks = [];
    new PerformanceObserver((entries) => globalThis.tasks.push(...entries.getEntries().map((task) => Math.round(task.duration)))).observe({ type: "longtask" });
  });
  return () => page.evaluate(() => globalThis.tasks.splice(0));
}

const summary = (tasks) => (tasks.length > 0 ? `${tasks.length} long tasks, the longest ${Math.max(...tasks)} ms` : "no task over 50 ms");
const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];

async function firstView(browser, server) {
  const times = [];
  let script = 0;
  for (let round = 0; round < 5; round += 1) {
    const { page, context } = await visit(browser);
    const sizes = new Map();
    const session = await context.newCDPSession(page);
    await session.send("Network.enable");
    const names = new Map();
    session.on("Network.responseReceived", ({ requestId, response }) => names.set(requestId, response.url));
    session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => sizes.set(names.get(requestId), encodedDataLength));
    // Signed in, with nothing in the cache.
    const signedIn = await server.session("viewer");
    await context.addCookies([{ name: signedIn.name, value: signedIn.value, url: server.admin }]);
    await context.addInitScript((csrf) => localStorage.setItem("weir.csrf-token", csrf), signedIn.csrf);
    const begun = Date.now();
    await page.goto(`${server.admin}/console/`);
    await page.getByRole("link", { name: "Tracker" }).waitFor();
    await page.getByRole("img", { name: "Requests per second over time" }).waitFor();
    times.push(Date.now() - begun);
    script = [...sizes].filter(([url]) => url?.endsWith(".js")).reduce((sum, [, size]) => sum + size, 0);
    await context.close();
  }
  console.log(`first view: overview with its charts after ${median(times)} ms (median of 5: ${times}), ${(script / 1024).toFixed(0)} KiB of JavaScript as transferred`);
}

async function longList(browser, server) {
  const url = new URL(server.base);
  execFileSync(process.env.WEIR_BIN, ["lab", "hit", "-n", String(COUNT), "-c", "20", "--json", `${url.origin}/hello`], { stdio: "ignore" });
  const { page, context } = await visit(browser);
  const tasks = await watchTasks(page);
  await signIn(page, server, "viewer");
  for (let at = 0; at < 120; at += 1) {
    const counted = await server.call("GET", "/v1/transactions/summary?q=api%3Ahello%20since%3A1h");
    if (JSON.parse(counted.text).matched >= COUNT) break;
    await page.waitForTimeout(500);
  }
  await page.goto(`${server.admin}/console/tracker?q=api%3Ahello&range=1h`);
  await page.getByRole("row").nth(1).waitFor();
  await page.waitForTimeout(1000);
  console.log(`list: opened, ${summary(await tasks())}`);
  const box = page.locator(".hits-scroll");
  let maxRows = 0;
  let last = 0;
  const observed = [];
  // Scrolls through the list in steps of one or two screens, at the speed of a mouse wheel.
  for (let at = 0; at < 300; at += 1) {
    await box.evaluate((element) => element.scrollBy(0, 900));
    await page.waitForTimeout(16);
    maxRows = Math.max(maxRows, await page.locator(".hits-scroll .hit").count());
  }
  observed.push(...(await tasks()));
  console.log(`list: scrolled by screens, ${summary(observed)}`);
  const end = Date.now() + 180_000;
  while (last < COUNT && Date.now() < end) {
    await box.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    await page.waitForTimeout(30);
    const rows = page.locator(".hits-scroll .hit");
    maxRows = Math.max(maxRows, await rows.count());
    last = Number(await rows.last().getAttribute("aria-rowindex")) - 1;
  }
  const far = await tasks();
  for (let at = 0; at < 300; at += 1) {
    await box.evaluate((element, down) => element.scrollBy(0, down ? 900 : -30_000), at % 2 === 0);
    await page.waitForTimeout(16);
    maxRows = Math.max(maxRows, await page.locator(".hits-scroll .hit").count());
  }
  console.log(`list: dragged to row ${last} of ${COUNT} while it was loaded, ${summary(far)}; then back and forth through the list, ${summary(await tasks())}; at most ${maxRows} rows in the document`);
  await context.close();
}

async function largeBody(browser, server) {
  const rows = Array.from({ length: 8800 }, (_, at) => ({ id: at, name: `row number ${at}`, tags: ["a", "b"], price: at * 1.5, note: "lorem ipsum dolor sit amet" }));
  const body = JSON.stringify(rows);
  const response = await send(`${server.base}/mirror/large`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const { page, context } = await visit(browser);
  const tasks = await watchTasks(page);
  await signIn(page, server, "admin");
  await page.goto(`${server.admin}/console/tracker`);
  await tasks();
  await page.goto(`${server.admin}/console/transactions/${response.headers["weir-transaction-id"]}`);
  await page.getByRole("region", { name: "Request body" }).waitFor();
  await page.getByRole("region", { name: "Response body" }).waitFor();
  await page.waitForTimeout(500);
  console.log(`body: two of ${(body.length / 1_048_576).toFixed(2)} MiB of JSON laid out, ${summary(await tasks())}`);
  await context.close();
}

/** Seconds of CPU that a process has used. */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/**
 * What open consoles cost: CPU of a server at a fixed rate of requests, with its own consoles open, and as a comparison with
 * those of another server, because the browser and the load share the machine.
 */
async function manyConsoles(browser, server) {
  const other = await serve(process.env.WEIR_BIN);
  const load = spawn(process.env.WEIR_BIN, ["lab", "hit", "--rate", String(RATE), "-d", "20m", "--json", `${new URL(server.base).origin}/hello`], { stdio: "ignore" });
  const used = async (watched) => {
    const all = [];
    for (let at = 0; at < CONSOLES; at += 1) {
      const one = await visit(browser);
      await signIn(one.page, watched, "viewer");
      all.push(one);
    }
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const before = cpu(server.pid);
    await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
    const millis = ((cpu(server.pid) - before) / SECONDS) * 1000;
    for (const { context } of all) await context.close();
    return millis;
  };
  const [own, others] = [[], []];
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      others.push(await used(other));
      own.push(await used(server));
    }
  } finally {
    load.kill();
    await other.stop();
  }
  const cost = median(own.map((millis, at) => millis - others[at]));
  const perRequest = (all) => ((median(all) * 1000) / RATE).toFixed(1);
  console.log(`consoles: ${CONSOLES} overviews at ${RATE} requests/s: ${cost.toFixed(1)} ms of the server's CPU per second, ${(cost / 10).toFixed(1)} % of a core (${perRequest(own)} us a request with its own consoles, ${perRequest(others)} with those of another server; ms of ${ROUNDS} times ${SECONDS} s: ${own.map(Math.round)} and ${others.map(Math.round)})`);
}

const server = await serve(process.env.WEIR_BIN);
const browser = await launch();
const quiet = flow(server);
try {
  await firstView(browser, server);
  await largeBody(browser, server);
  await manyConsoles(browser, server);
  await quiet();
  await longList(browser, server);
} finally {
  await quiet();
  await browser.close();
  await server.stop();
}
