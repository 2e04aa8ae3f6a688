import { expect, test } from "vitest";
import { asked, type Form } from "./request";

const empty: Form = { method: "", target: "", headers: "", body: "", curl: "", client: "" };

test("headers are read line by line", () => {
  const request = asked({ ...empty, target: " /a ", headers: "A: b:c\n\nX-Y:z\n", body: "{}" });
  expect(request).toEqual({ method: "GET", target: "/a", body: "{}", headers: [{ name: "A", value: "b:c" }, { name: "X-Y", value: "z" }] });
});

test("a curl command stands instead of everything else", () => {
  expect(asked({ ...empty, target: "/a", headers: "nonsense", curl: "curl /b", client: "192.0.2.1" })).toEqual({ curl: "curl /b", client: "192.0.2.1" });
});

test("what is wrong is said", () => {
  expect(asked(empty)).toMatch(/path/);
  expect(asked({ ...empty, target: "/a", headers: "a: b\nnonsense" })).toMatch(/Line 2/);
});
