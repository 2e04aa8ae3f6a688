// Navigation, time range, account and keyboard shortcuts.

import { Menu } from "@base-ui/react/menu";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { may, type Role, type Session } from "../api/client";
import { switchSession, signOut } from "../api/session";
import { fleetQuery } from "../fleet/queries";
import { LiveSign } from "../overview/live";
import { zone } from "../format/format";
import { RangePicker } from "../time/picker";
import { useZone } from "../time/zone";
import { requestFocus } from "../tracker/focus";
import { Icon, type IconName, Logo } from "../ui/icons";
import { Shortcuts, useKeys } from "./keys";
import { StatusStrip } from "./status";
import { toggleTheme, useTheme } from "./theme";

const Palette = lazy(() => import("./palette"));

interface Place {
  to: string;
  label: string;
  icon: IconName;
  role: Role;
  /** Only for a node of a fleet. */
  fleet?: boolean;
}

const PLACES: Place[] = [
  { to: "/", label: "Overview", icon: "overview", role: "viewer" },
  { to: "/tracker", label: "Tracker", icon: "tracker", role: "viewer" },
  { to: "/jobs", label: "Jobs", icon: "jobs", role: "operator" },
  { to: "/monitor", label: "Monitor", icon: "monitor", role: "viewer" },
  { to: "/apis", label: "APIs", icon: "apis", role: "viewer" },
  { to: "/explain", label: "Explain", icon: "explain", role: "operator" },
  { to: "/pools", label: "Pools", icon: "pools", role: "viewer" },
  { to: "/lab", label: "Lab", icon: "lab", role: "viewer" },
  { to: "/fleet", label: "Fleet", icon: "fleet", role: "viewer", fleet: true },
  { to: "/configuration", label: "Configuration", icon: "configuration", role: "operator" },
  { to: "/access", label: "Access", icon: "access", role: "admin" },
];

export function Shell({ session, children }: { session: Session; children: ReactNode }) {
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(false);
  const navigate = useNavigate();
  const { data: fleet } = useQuery(fleetQuery);
  const places = PLACES.filter((place) => may(session, place.role) && (!place.fleet || fleet));
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
          <LiveSign />
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
          <StatusStrip />
          {children}
          <ZoneNote />
        </main>
      </div>
      <Shortcuts open={help} onClose={() => setHelp(false)} />
      {palette && (
        <Suspense fallback={null}>
          <Palette places={places} onClose={() => setPalette(false)} />
        </Suspense>
      )}
    </div>
  );
}

/** Where the menu of the time range has no room for it. */
function ZoneNote() {
  useZone();
  return <p className="muted zone-note no-print">Times are {zone(new Date())}.</p>;
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
  const queries = useQueryClient();
  const leave = async () => {
    await signOut();
    switchSession(queries, null);
  };
  return (
    <Menu.Root modal={false}>
      <Menu.Trigger className="button quiet" aria-label={`Account: ${session.name}, ${session.role}`}>
        <Icon name="user" />
        <span className="hide-small">{session.name}</span>
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={6}>
          <Menu.Popup className="menu">
            <div className="menu-note">
              {session.name}
              <br />
              role {session.role}
            </div>
            <Menu.Item className="menu-item" onClick={() => void leave()}>
              Sign out
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
