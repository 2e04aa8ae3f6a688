// Line icons of one weight.

const PATHS = {
  overview: "M3 13h4l3-8 4 14 3-6h4",
  apis: "M4 6h16M4 12h10M4 18h13M18 12h2M20 18h0",
  pools: "M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z",
  tracker: "M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l4.500 4.500",
  jobs: "M4 9a8 8 0 0 1 14-3l2 2M20 4v4h-4M20 15a8 8 0 0 1-14 3l-2-2M4 20v-4h4",
  monitor: "M5 20V11M12 20V4M19 20v-6",
  configuration: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.500v5M9 14.500v5",
  access: "M12 3l8 3v5c0 5-3.500 8.500-8 10-4.500-1.500-8-5-8-10V6zM9 12l2 2 4-4",
  explain: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.700.300-1 .800-1 1.700M12 16.500h0",
  fleet: "M12 3a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5zM5.500 16a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5zM18.500 16a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5zM10.800 8l-4 8M13.200 8l4 8M8 18.500h8",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M19 5l-1.500 1.500M6.500 17.500L5 19",
  moon: "M20 14.500A8.500 8.500 0 0 1 9.500 4a8.500 8.500 0 1 0 10.500 10.500z",
  lab: "M9 3h6M10 3v6l-5.500 9.500a1.500 1.500 0 0 0 1.300 2.500h12.400a1.500 1.500 0 0 0 1.300-2.500L14 9V3M7.500 15h9",
  user: "M12 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM4 20c1-4 4.500-5.500 8-5.500s7 1.500 8 5.500",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  close: "M6 6l12 12M18 6L6 18",
  keyboard: "M3 7h18v10H3zM7 10.500h0M11 10.500h0M15 10.500h0M7 14h10",
  download: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M4 20h16",
  chevron: "M6 9l6 6 6-6",
  back: "M15 5l-7 7 7 7",
  warning: "M12 4l9 16H3zM12 10v4M12 17h0",
  error: "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18zM12 7.500v5.500M12 16.500h0",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg width="26" height="26" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0b6e8f" />
      <path d="M5 11c3.500-3 5.500-3 8 0s4.500 3 7 0 4.500-3 7 0M5 20c3.500-3 5.500-3 8 0s4.500 3 7 0 4.500-3 7 0" fill="none" stroke="#fff" strokeWidth="2.6" strokeLinecap="round" />
    </svg>
  );
}
