// The pictures of the README and the documentation, of the real console under real traffic:
//   WEIR_BIN=target/release/weir node e2e/pictures.mjs [FOLDER]

import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { launch, signIn, visit } from "./browser.mjs";
import { send, serve } from "./server.mjs";
import { flow } from "./traffic.mjs";

/** A picture larger than this is too slow to load on the front page of a repository. */
const LIMIT_BYTES = 150_000;
/** How long traffic flows before the first picture, so that the diagrams show more than their start. */
const TRAFFIC_MS = 45_000;
const SIZE = { width: 1280, height: 800 };

const binary = process.env.WEIR_BIN;
if (!binary) {
  console.error("WEIR_BIN (the binary) is not set");
  process.exit(2);
}
const folder = process.argv[2] ?? new URL("../../docs/pictures/", import.meta.url).pathname;
mkdirSync(folder, { recursive: true });

const server = await serve(binary);
const browser = await launch();
const stop = flow(server);
try {
  const failed = await orders();
  await new Promise((resolve) => setTimeout(resolve, TRAFFIC_MS));
  await orders();
  const pages = {
    overview: "/console/",
    search: "/console/tracker?q=wombat",
    transaction: `/console/transactions/${failed}?q=wombat`,
    monitor: "/console/monitor",
  };
  // The front page shows the search in the theme of its reader.
  for (const [theme, names] of [["light", Object.keys(pages)], ["dark", ["search"]]]) {
    const { page, context, problems } = await visit(browser, { theme });
    await page.setViewportSize(SIZE);
    await signIn(page, server, "operator");
    for (const name of names) {
      await page.goto(server.admin + pages[name]);
      await page.getByRole("main").waitFor();
      await page.waitForTimeout(3000);
      const file = join(folder, `${name}${theme === "dark" ? "-dark" : ""}.png`);
      await page.screenshot({ path: file });
      const { size } = statSync(file);
      assert.ok(size <= LIMIT_BYTES, `${file} has ${size} bytes, more than ${LIMIT_BYTES}`);
      console.log(`${file}: ${size} bytes`);
    }
    assert.deepEqual(problems, []);
    await context.close();
  }
} finally {
  await stop();
  await browser.close();
  await server.stop();
}

/** Orders of a shop, one of which fails; returns the ID of its transaction. */
async function orders() {
  const headers = { "content-type": "application/json", "x-api-key": server.keys.acme.key };
  const place = (body) => send(`${server.base}/orders`, { method: "POST", headers, body: JSON.stringify(body) });
  const items = ["tea", "coffee", "cocoa", "mate"];
  for (let at = 0; at < 60; at += 1) {
    const line = { item: items[at % items.length], quantity: 1 + (at % 5) };
    await place({ orderId: `A-${1000 + at}`, customer: "Quokka Ltd", note: at % 7 ? "standard" : "for the wombat", lines: [line] });
  }
  const response = await place({ orderId: "B-17", note: "urgent wombat delivery", lines: [{ item: "tea", quantity: 3 }] });
  return response.headers["weir-transaction-id"];
}
