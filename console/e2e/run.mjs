// The console in a browser, against the real binary under real traffic:
//   WEIR_BIN=target/debug/weir node e2e/run.mjs [NAME…]

import { launch } from "./browser.mjs";
import { scenarios } from "./scenarios.mjs";
import { serve } from "./server.mjs";
import { flow, record } from "./traffic.mjs";

const binary = process.env.WEIR_BIN;
if (!binary) {
  console.error("WEIR_BIN (the binary to be tested) is not set");
  process.exit(2);
}
const wanted = process.argv.slice(2);
const server = await serve(binary);
const browser = await launch();
const quiet = flow(server);
let failed = 0;
try {
  const ids = await record(server);
  for (const [name, run] of Object.entries(scenarios)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const begun = Date.now();
    try {
      await run({ server, browser, ids });
      console.log(`ok      ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}: ${error.stack ?? error}`);
    }
  }
} finally {
  await quiet();
  await browser.close();
  await server.stop();
}
process.exit(failed === 0 ? 0 : 1);
