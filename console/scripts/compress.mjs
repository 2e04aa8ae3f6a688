// Writes a gzip variant of every file of dist/ that becomes smaller, and prints how much
// JavaScript a browser loads first.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
/** Compressed JavaScript of the first load, in bytes. */
const MAX_FIRST_LOAD_BYTES = 170 * 1024;

const files = readdirSync(dist, { recursive: true })
  .map((name) => join(dist, String(name)))
  .filter((path) => statSync(path).isFile() && !path.endsWith(".gz"));

let first = 0;
const page = readFileSync(join(dist, "index.html"), "utf8");
for (const path of files) {
  const plain = readFileSync(path);
  const packed = gzipSync(plain, { level: 9 });
  if (packed.length < plain.length) writeFileSync(`${path}.gz`, packed);
  if (path.endsWith(".js") && page.includes(path.slice(dist.length))) first += packed.length;
}
console.log(`first load: ${(first / 1024).toFixed(1)} KiB of compressed JavaScript`);
if (first > MAX_FIRST_LOAD_BYTES) {
  console.error(`more than the limit of ${MAX_FIRST_LOAD_BYTES / 1024} KiB`);
  process.exit(1);
}
