// Entry point of the console: mounts the router and the query cache.

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { CSPProvider } from "@base-ui/react/csp-provider";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiProblem, onSignedOut } from "./api/client";
import { onOtherTab } from "./api/csrf";
import { follow, lose, redeem, takeCode } from "./api/session";
import { makeRouter } from "./router";
import { applyTheme, storedTheme } from "./shell/theme";
import { Toasts } from "./ui/toast";
import "uplot/dist/uPlot.min.css";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/shell.css";
import "./styles/tracker.css";
import "./styles/transaction.css";
import "./styles/pages.css";

applyTheme(storedTheme());

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      refetchOnWindowFocus: false,
      // No retry of an error response; retries if the server is unavailable.
      retry: (failed, error) => failed < 2 && !(error instanceof ApiProblem && error.status >= 400),
    },
  },
});
onSignedOut(() => lose(queries));
// If the server does not respond, the page itself retries.
onOtherTab(() => void follow(queries).catch(() => undefined));

// Before the first page is shown: it is that of the account then.
const code = takeCode();
if (code) await redeem(code).catch((error: unknown) => queries.setQueryData(["session", "failed"], error));

const router = makeRouter(queries);
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
          <Toasts />
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  );
}

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
