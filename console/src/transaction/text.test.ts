import { describe, expect, it } from "vitest";
import type { Transaction } from "../api/client";
import { curl, shellWord } from "./curl";
import { diff } from "./diff";
import { hex, lineAt, lines, layOut } from "./body-layout";
import { fromBase64, hitPattern, imageType, spans, prettyJson, prettyXml, visible } from "./text";

describe("bodies", () => {
  it("prints JSON with unchanged tokens", () => {
    const text = '{"a":1.0e400,"a":[],"b":[1,{"c":"x\\"},"}],"n":12345678901234567890}';
    expect(prettyJson(text)).toBe(
      '{\n  "a": 1.0e400,\n  "a": [],\n  "b": [\n    1,\n    {\n      "c": "x\\"},"\n    }\n  ],\n  "n": 12345678901234567890\n}',
    );
    expect(prettyJson('["a\\\\","b\\\\\\"c"]')).toBe('[\n  "a\\\\",\n  "b\\\\\\"c"\n]');
    expect(prettyJson('{"a":{"b":[]},"c":[{}]}')).toBe('{\n  "a": {\n    "b": []\n  },\n  "c": [\n    {}\n  ]\n}');
    expect(prettyJson('{"a":')).toBeUndefined();
    expect(prettyJson(" 7 ")).toBe("7");
  });
  it("prints complete XML", () => {
    expect(prettyXml('<?xml version="1.0"?><a><b x="1">t</b><c/></a>')).toBe('<?xml version="1.0"?>\n<a>\n  <b x="1">t</b>\n  <c/>\n</a>');
    expect(prettyXml("<a><b></a>")).toBeUndefined();
    expect(prettyXml("no")).toBeUndefined();
  });
  it("makes control characters visible", () => {
    expect(visible("a\0b\x1b[31m\u202Ec\uFEFF\x7f\ttab")).toBe("a⟨U+0000⟩b⟨U+001B⟩[31m⟨U+202E⟩c⟨U+FEFF⟩⟨U+007F⟩\ttab");
  });
  it("continues long lines", () => {
    const of = (text: string) => {
      const all = lines(text);
      return Array.from({ length: all.count }, (_, at) => lineAt(all, at));
    };
    const all = of(`${"x".repeat(2000)}\nshort\r\n`);
    expect(all.map((line) => line.number)).toEqual([1, undefined, undefined, 2, 3]);
    expect(all.map((line) => line.text.length)).toEqual([800, 800, 400, 5, 0]);
    expect(of(`${"x".repeat(799)}😀y`)[0]?.text.endsWith("😀")).toBe(true);
  });
  it("is laid out by view, with the lines of matches", () => {
    const json = layOut({ text: '{"a":1,"b":"quokka"}', hits: ["quokka"] });
    expect([json.views, json.view, json.kind, json.lines.count, json.found]).toEqual([["pretty", "raw", "hex"], "pretty", "json", 4, [2]]);
    expect(layOut({ text: "a\nb", view: "pretty", hits: [] })).toMatchObject({ views: ["raw", "hex"], view: "raw", kind: "text" });
    expect(layOut({ base64: "iVBORw0KGgo=", hits: [] })).toMatchObject({ views: ["image", "hex"], view: "image", type: "image/png" });
    expect(layOut({ base64: "iVBORw0KGgo=", isCut: true, hits: [] })).toMatchObject({ views: ["hex"], view: "hex" });
    expect(layOut({ hits: [] }).views).toEqual([]);
  });
  it("shows bytes", () => {
    expect(lineAt(hex(fromBase64("AAECaGk=")), 0).text).toBe("00000000  00 01 02 68 69                                    ···hi");
    expect(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0]))).toBe("image/png");
    expect(imageType(new TextEncoder().encode("<svg/>"))).toBeUndefined();
  });
});

describe("hits", () => {
  it("are complete words in sequence", () => {
    const found = (text: string, ...words: string[]) => [...text.matchAll(hitPattern(words) ?? /$^/g)].map((one) => one[0]);
    expect(found("Acme, Corp. acmecorp", "acme corp")).toEqual(["Acme, Corp"]);
    expect(found("refund refunds REFUND", "refund")).toEqual(["refund", "REFUND"]);
    expect(hitPattern(["***"])).toBeUndefined();
  });
  it("are separate spans", () => {
    const all = spans('"name": "quokka 1"', "json", hitPattern(["quokka"]));
    expect(all.map((span) => span.text).join("")).toBe('"name": "quokka 1"');
    expect(all.find((span) => span.isHit)).toEqual({ text: "quokka", kind: "string", isHit: true });
    expect(all[0]?.kind).toBe("key");
  });
});

describe("differences", () => {
  it("are lines", () => {
    expect(diff("a\nb\nc", "a\nx\nc\nd").map((one) => `${one.kind[0]}${one.text}`)).toEqual(["sa", "rb", "ax", "sc", "ad"]);
    expect(diff("a", "a").every((one) => one.kind === "same")).toBe(true);
    const long = Array.from({ length: 3000 }, (_, at) => `${at}`).join("\n");
    expect(diff(`x\n${long}`, `y\n${long}`).length).toBe(3002);
  });
});

describe("curl", () => {
  const transaction = (headers: [string, string][], body: string): Transaction =>
    ({
      method: "POST",
      request: { length: body.length, stored: body.length, truncated: false, aborted: false, masked: false },
      payload: {
        target: "/orders?x=1",
        request_headers: headers.map(([name, value]) => ({ name, value })),
        request_body: { text: body, cut: false },
      },
    }) as unknown as Transaction;
  it("is quoted for a shell", () => {
    expect(shellWord("a b'c")).toBe(`'a b'\\''c'`);
    const command = curl(transaction([["Host", "example.com"], ["X-A", "$(id)"]], "it's"));
    expect(command?.command).toBe(
      "curl \\\n  -i \\\n  --path-as-is \\\n  -X POST \\\n  'http://example.com/orders?x=1' \\\n  -H 'X-A: $(id)' \\\n  --data-binary 'it'\\''s'",
    );
    expect(command?.missing).toEqual([]);
  });
  it("reports differences", () => {
    const command = curl(transaction([["Authorization", "***"]], ""));
    expect(command?.command).not.toContain("Authorization");
    expect(command?.missing).toEqual(["the header Authorization is redacted"]);
  });
});
