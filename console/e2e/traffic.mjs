// Requests of all kinds until stopped, and hostile payloads.

import { send } from "./server.mjs";

export const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAGUlEQVR4nGNgYGD4TyKmsmqG/6NOonFIAwCPr/4CBWYSOgAAAABJRU5ErkJggg==", "base64");

export const HOSTILE = {
  script: '<script>document.title="owned"</script><img src=x onerror="document.title=1">',
  svg: '<svg xmlns="http://www.w3.org/2000/svg" onload="document.title=1"><script>document.title="owned"</script></svg>',
  html: "<!doctype html><body onload=alert(1)><iframe src=javascript:alert(1)></iframe>",
  override: "safe \u202Egnp.exe\u2066 \u0000 null \u001b[31mred",
};

export async function record(server) {
  const json = { "content-type": "application/json", "x-api-key": server.keys.acme.key };
  const order = (body) => send(`${server.base}/orders`, { method: "POST", headers: json, body: JSON.stringify(body) });
  for (let at = 0; at < 20; at += 1) await order({ orderId: `A-${at}`, customer: "Quokka Ltd", card: "4111", lines: [{ sku: "tea", quantity: at }] });
  const failed = await order({ orderId: "B-1", note: "urgent wombat delivery", card: "4111 1111" });
  for (let at = 0; at < 12; at += 1) await order({ orderId: `C-${at}`, note: "bulk numbat" });
  for (let at = 0; at < 3; at += 1) await send(`${server.base}/legacy/book`, { method: "POST", headers: { "content-type": "text/xml" }, body: "<booking><id>7</id><room kind=\"sea\">12</room></booking>" });
  const mirror = (name, body, headers = {}) =>
    send(`${server.base}/mirror/${name}?name=${name}`, { method: "POST", headers: { "content-type": "text/plain", ...headers }, body });
  const ids = {};
  for (const [name, text] of Object.entries(HOSTILE)) {
    const kind = { svg: "image/svg+xml", html: "text/html" }[name] ?? "text/plain";
    const response = await mirror(name, text, { "content-type": kind, "x-evil": "<script>1</script>" });
    ids[name] = response.headers["weir-transaction-id"];
  }
  ids.line = (await mirror("line", "x".repeat(900_000))).headers["weir-transaction-id"];
  ids.png = (await mirror("png", PNG, { "content-type": "image/png" })).headers["weir-transaction-id"];
  const rows = Array.from({ length: 9000 }, (_, at) => ({ id: at, name: `row number ${at}`, tags: ["a", "b"], price: at * 1.5, note: "lorem ipsum dolor sit amet" }));
  ids.large = (await mirror("large", JSON.stringify(rows).slice(0, 1_040_000 - 2) && JSON.stringify(rows.slice(0, 8800)), { "content-type": "application/json" })).headers["weir-transaction-id"];
  // Lines of markup, recorded partially.
  ids.huge = (await send(`${server.base}/large/huge`, { method: "POST", headers: { "content-type": "text/plain" }, body: Buffer.alloc(50 << 20, `<script>document.title="owned"</script>${"x".repeat(90)}\n`) })).headers["weir-transaction-id"];
  ids.failed = failed.headers["weir-transaction-id"];
  return ids;
}

/** Sends requests continuously until stopped. */
export function flow(server) {
  let isOn = true;
  let at = 0;
  const step = async () => {
    while (isOn) {
      at += 1;
      const key = { "x-api-key": server.keys.acme.key };
      await send(`${server.base}/hello`).catch(() => {});
      if (at % 2 === 0) await send(`${server.base}/orders`, { headers: key }).catch(() => {});
      if (at % 17 === 0) await send(`${server.base}/orders`).catch(() => {});
      if (at % 5 === 0) await send(`${server.base}/pooled/a`).catch(() => {});
      if (at % 29 === 0) await send(`${server.base}/legacy/book`, { method: "POST", body: "x" }).catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, 4));
    }
  };
  const running = [step(), step()];
  return async () => {
    isOn = false;
    await Promise.all(running);
  };
}
