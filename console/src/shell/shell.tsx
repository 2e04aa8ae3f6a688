// Navigation, time range, account and keyboard shortcuts.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useRef, useState } from "react";
import { may, type Reach, type Role, type Session } from "../api/client";
import { fleetQuery } from "../fleet/queries";
import { LiveSign } from "../overview/live";
import { zoneBetween } from "../format/format";
import { RangePicker } from "../time/picker";
import { resolveRange } from "../time/range";
import { useRange } from "../time/use-range";
import { useZone } from "../time/zone";
import { requestFocus } from "../tracker/focus";
import { Icon, type IconName, Logo } from "../ui/icons";
import { useKeys } from "./keys";
import { StatusStrip } from "./status";
import { toggleTheme, useTheme } from "./theme";

const AccountMenu = lazy(() => import("./account-menu"));
const Palette = lazy(() => import("./palette"));
const Shortcuts = lazy(() => import("./shortcuts"));

interface Place {
  to: string;
  label: string;
  icon: IconName;
  role: Role;
  reach: Reach;
  /** Only for a node of a fleet. */
  fleet?: boolean;
}

const PLACES: Place[] = [
  { to: "/", label: "Overview", icon: "overview", role: "viewer", reach: "own" },
  { to: "/tracker", label: "Tracker", icon: "tracker", role: "viewer", reach: "transactions" },
  { to: "/jobs", label: "Jobs", icon: "jobs", role: "operator", reach: "jobs" },
  { to: "/monitor", label: "Monitor", icon: "monitor", role: "viewer", reach: "apis" },
  { to: "/apis", label: "APIs", icon: "apis", role: "viewer", reach: "apis" },
  { to: "/explain", label: "Explain", icon: "explain", role: "operator", reach: "records" },
  { to: "/pools", label: "Pools", icon: "pools", role: "viewer", reach: "server" },
  { to: "/lab", label: "Lab", icon: "lab", role: "viewer", reach: "server" },
  { to: "/fleet", label: "Fleet", icon: "fleet", role: "viewer", reach: "server", fleet: true },
  { to: "/configuration", label: "Configuration", icon: "configuration", role: "operator", reach: "server" },
  { to: "/access", label: "Access", icon: "access", role: "admin", reach: "administration" },
];

export function Shell({ session, children }: { session: Session; children: ReactNode }) {
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(false);
  const navigate = useNavigate();
  const seesServer = may(session, "viewer", "server");
  const { data: fleet } = useQuery({ ...fleetQuery, enabled: seesServer });
  const places = PLACES.filter((place) => may(session, place.role, place.reach) && (!place.fleet || fleet));
  useKeys({
    "?": () => setHelp(true),
    "Mod+k": () => setPalette(true),
    "/": () => {
      const bar = document.querySelector<HTMLInputElement>("[data-search]");
      if (bar) bar.focus();
      else {
        requestFocus();
        void navigate({ to: "/tracker" });
      }
    },
    "g o": () => void navigate({ to: "/" }),
    "g t": () => void navigate({ to: "/tracker" }),
    "g a": () => void navigate({ to: "/apis" }),
    "g e": () => void navigate({ to: "/explain" }),
    "g l": () => void navigate({ to: "/lab" }),
    "g c": () => void navigate({ to: "/configuration" }),
    "g m": () => void navigate({ to: "/monitor" }),
  });
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <aside className="side" aria-label="weir">
        <Link to="/" className="brand" aria-label="weir, overview">
          <Logo />
          weir
        </Link>
        <nav aria-label="Pages">
          {places.map((place) => (
            <Link key={place.to} to={place.to} activeOptions={{ exact: place.to === "/", includeSearch: false }}>
              <Icon name={place.icon} />
              {place.label}
            </Link>
          ))}
        </nav>
        <div className="foot">weir {session.version}</div>
      </aside>
      <div className="grow">
        <header className="top">
          {seesServer && <LiveSign />}
          <span className="grow" />
          <button type="button" className="button quiet" onClick={() => setPalette(true)}>
            Go to <kbd className="hide-small">Ctrl K</kbd>
          </button>
          <RangePicker />
          <button type="button" className="button quiet icon hide-small" onClick={() => setHelp(true)} aria-label="Keyboard shortcuts">
            <Icon name="keyboard" />
          </button>
          <ThemeButton />
          <Account session={session} />
        </header>
        <main id="main" className="page" tabIndex={-1}>
          {seesServer && <StatusStrip />}
          {children}
          <ZoneNote />
        </main>
      </div>
      <Suspense fallback={null}>
        {help && <Shortcuts onClose={() => setHelp(false)} />}
        {palette && <Palette places={places} onClose={() => setPalette(false)} />}
      </Suspense>
    </div>
  );
}

/** Where the menu of the time range has no room for it. */
function ZoneNote() {
  useZone();
  const [range] = useRange();
  const { from, to } = resolveRange(range, new Date());
  return <p className="muted zone-note no-print">Times are {zoneBetween(from, to)}.</p>;
}

function ThemeButton() {
  const theme = useTheme();
  const label = theme === "dark" ? "Light theme" : "Dark theme";
  return (
    <button type="button" className="button quiet icon" onClick={toggleTheme} aria-label={label}>
      <Icon name={theme === "dark" ? "sun" : "moon"} />
    </button>
  );
}

function Account({ session }: { session: Session }) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  return (
    <>
      <button ref={button} type="button" className="button quiet" aria-label={`Account: ${session.name}, ${session.role}`} aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="user" />
        <span className="hide-small">{session.name}</span>
      </button>
      <Suspense fallback={null}>{open && <AccountMenu session={session} anchor={button} onClose={() => setOpen(false)} />}</Suspense>
    </>
  );
}
