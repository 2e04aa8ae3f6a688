import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// Everything is a file of its own: the policy of the admin listener allows nothing inline.
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/v1": process.env.WEIR_ADMIN ?? "http://127.0.0.1:9080" } },
  test: { include: ["src/**/*.test.ts"] },
});
