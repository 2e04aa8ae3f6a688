// Switch for the comparison with the range before.

import { useComparison } from "./previous";

export function CompareButton() {
  const [compares, set] = useComparison();
  return (
    <button type="button" className="button small" aria-pressed={compares} title="Draw the range of the same length before this one, dashed" onClick={() => set(!compares)}>
      Previous range
    </button>
  );
}
