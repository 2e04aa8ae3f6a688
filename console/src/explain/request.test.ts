import { expect, test } from "vitest";
import { requestOf, type Form } from "./request";

const empty: Form = { method: "", target: "", headers: "", body: "", curl: "", client: "" };

test("headers are read line by line", () => {
  const request = requestOf({ ...empty, target: " /a ", headers: "A: b:c\n\nX-Y:z\n", body: "{}" });
  expect(request).toEqual({ method: "GET", target: "/a", body: "{}", headers: [{ name: "A", value: "b:c" }, { name: "X-Y", value: "z" }] });
});

test("a curl command replaces all other fields", () => {
  expect(requestOf({ ...empty, target: "/a", headers: "nonsense", curl: "curl /b", client: "192.0.2.1" })).toEqual({ curl: "curl /b", client: "192.0.2.1" });
});

test("errors of the form are reported", () => {
  expect(requestOf(empty)).toMatch(/path/);
  expect(requestOf({ ...empty, target: "/a", headers: "a: b\nnonsense" })).toMatch(/Line 2/);
});
