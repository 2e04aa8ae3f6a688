import { afterEach, expect, test, vi } from "vitest";
import { csrfToken, keepCsrfToken } from "./csrf";

afterEach(() => {
  keepCsrfToken(undefined);
  vi.unstubAllGlobals();
});

test("the token is kept for all tabs of an origin", () => {
  const stored = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value),
    removeItem: (key: string) => void stored.delete(key),
  });
  expect(csrfToken()).toBeUndefined();
  keepCsrfToken("a");
  expect([...stored.values()]).toEqual(["a"]);
  // Another tab has signed in.
  stored.set([...stored.keys()][0] ?? "", "b");
  expect(csrfToken()).toBe("b");
  keepCsrfToken(undefined);
  expect(stored.size).toBe(0);
});

test("without storage the token is kept as long as the page", () => {
  const no = () => {
    throw new Error("denied");
  };
  vi.stubGlobal("localStorage", { getItem: no, setItem: no, removeItem: no });
  keepCsrfToken("a");
  expect(csrfToken()).toBe("a");
  keepCsrfToken(undefined);
  expect(csrfToken()).toBeUndefined();
});
