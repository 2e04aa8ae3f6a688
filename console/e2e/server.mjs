// Starts the real binary with a configuration that uses every feature, on free ports.

import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROLES = ["viewer", "payload-viewer", "operator", "admin"];

/** An order without a customer fails. */
const SCRIPT = `export function POST(request) {
  const order = request.json();
  if (!order.customer) throw Response.json({ error: "the customer of the order is missing" }, { status: 500 });
  return { booked: order.orderId, customer: order.customer };
}
`;

function config(upstream, mirror, keys, extra) {
  return `version: 1
listen: [{addr: "127.0.0.1:0"}]
workers: 1
limits: {body: 64MiB}
auth:
  keys: {api_key: {header: x-api-key}}
plans:
  gold: {rate: 2000/s, burst: 4000, quota: {calls: 1000000, per: month, zone: UTC}, price: {per_call: "0.0004", currency: EUR}}
  free: {rate: 1/s, burst: 5}
  metered: {rate: 5/d, price: {per_call: "0.125", currency: EUR}}
consumers:
  acme: {plan: gold, api_keys: ["${keys.acme.hash}"]}
  beta: {plan: free, api_keys: ["${keys.beta.hash}"]}
  gamma: {plan: metered, api_keys: ["${keys.gamma.hash}"]}
pools:
  workers: {protocol: http, command: [python3, agent.py], agents: {min: 1, initial: 2, max: 3}, queue: {max: 20, wait: 5s}}
upstreams:
  shop: {targets: ["http://${upstream}"]}
  large: {targets: ["http://127.0.0.1:${mirror}"]}
  gone: {targets: ["http://127.0.0.1:1"]}
apis:
  hello:
    base: /hello
    routes: [{op: hello, get: /, reply: {json: {hello: world}}}]
  orders:
    base: /orders
    auth: keys
    routes:
      - {op: place, post: /, script: order.js}
      - {op: list, get: /, proxy: {upstream: shop, path: "/delay/3ms"}}
  mirror:
    base: /mirror
    routes: [{op: mirror, path: "/*", proxy: shop}]
  legacy:
    base: /legacy
    routes: [{op: book, post: /book, proxy: gone}]
  large:
    base: /large
    routes: [{op: large, path: "/*", proxy: large}]
  pooled:
    base: /pooled
    routes: [{op: pooled, path: "/*", pool: workers}]
  examples:
    base: /api/examples-services
    routes: [{get: /sayHello, reply: {value: {result: OK, message: Hello World}, as: [json], indent: 4}}]
  described:
    base: /shop/v1
    openapi: {file: orders.openapi.yaml, except: quote}
    auth: {apiKey: keys}
    routes:
      - {op: listOrders, mock: true}
      - {op: placeOrder, mock: true}
      - {op: getOrder, mock: true}
      - {op: cancelOrder, mock: true}
tracker:
  enabled: true
  body_limit: 2MiB
  keys: {order: "$.orderId"}
  mask: {headers: [x-secret]}
monitor: {enabled: true, count: [{api: orders}, {api: hello}], counts: {rejected: true}}
${extra}`;
}

/** Starts a command and waits for its ready line. */
export function start(binary, args, options) {
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  return new Promise((resolve, reject) => {
    let text = "";
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}`)));
    child.stdout.on("data", (data) => {
      text += data;
      const line = text.split("\n").find((one) => one.includes('"ready"'));
      if (line) resolve({ child, ready: JSON.parse(line) });
    });
  });
}

/** Ends a process, and waits for its end. */
export function stop(child, signal = "SIGTERM") {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", resolve);
    child.kill(signal);
    setTimeout(() => child.kill("SIGKILL"), 5000).unref();
  });
}

/** Sends a request; returns status, headers and text. */
export function send(url, { method = "GET", headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(parts).toString() }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

export async function serve(binary) {
  const dir = mkdtempSync(join(tmpdir(), "weir-console-"));
  const key = () => {
    const text = execFileSync(binary, ["key", "new"], { encoding: "utf8" });
    return { key: /key:\s+(\S+)/.exec(text)[1], hash: /hash:\s+(\S+)/.exec(text)[1] };
  };
  const keys = { acme: key(), beta: key(), gamma: key() };
  const echo = await start(binary, ["echo", "--json", "--workers", "1", "--listen", "127.0.0.1:0"], { cwd: dir });
  const upstream = echo.ready.listen[0];
  // Echoes bodies of any size, unlike `weir echo`.
  const large = createServer((request, response) => request.pipe(response));
  await new Promise((resolve) => large.listen(0, "127.0.0.1", resolve));
  const mirror = large.address().port;
  const path = join(dir, "weir.yaml");
  writeFileSync(join(dir, "order.js"), SCRIPT);
  copyFileSync(new URL("../../examples/openapi/orders.openapi.yaml", import.meta.url), join(dir, "orders.openapi.yaml"));
  copyFileSync(new URL("../../examples/python/agent.py", import.meta.url), join(dir, "agent.py"));
  writeFileSync(path, config(upstream, mirror, keys, ""));
  const weir = await start(binary, ["serve", "--json", "--admin", "127.0.0.1:0", "weir.yaml"], { cwd: dir });
  const admin = `http://${weir.ready.admin}`;
  const first = readFileSync(join(dir, "data/admin.token"), "utf8").trim();
  const call = (method, where, body) =>
    send(admin + where, { method, headers: { authorization: `Bearer ${first}` }, body: body && JSON.stringify(body) });
  const tokens = {};
  for (const role of ROLES) {
    const created = await call("POST", "/v1/tokens", { name: `the ${role}`, role });
    tokens[role] = JSON.parse(created.text).token;
  }
  return {
    admin,
    base: `http://${weir.ready.listen[0]}`,
    pid: weir.child.pid,
    data: join(dir, "data"),
    keys,
    tokens,
    call,
    /** The cookie and the CSRF token of a new session. */
    async session(role) {
      const response = await send(`${admin}/v1/session`, { method: "POST", headers: { authorization: `Bearer ${tokens[role]}` } });
      const [, name, value] = /^([^=]+)=([^;]+)/.exec(response.headers["set-cookie"][0]);
      return { name, value, csrf: JSON.parse(response.text).csrf_token };
    },
    /** Replaces the configuration by the initial one with this text appended. */
    configure(extra) {
      writeFileSync(`${path}.new`, config(upstream, mirror, keys, extra));
      renameSync(`${path}.new`, path);
    },
    async stop() {
      await stop(weir.child);
      await stop(echo.child);
      large.closeAllConnections();
      large.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
