// Amounts: rounded, with the exact value in the title and for screen readers.

import type { Schemas } from "../api/client";

export function Amount({ rounded, exact, currency }: { rounded: string; exact: string; currency: string }) {
  return (
    <span className="mono nowrap" title={`exactly ${exact} ${currency}`}>
      {rounded} {currency}
      <span className="sr-only"> (exactly {exact})</span>
    </span>
  );
}

/** Amounts of several currencies. */
export function Amounts({ all }: { all: Schemas["Money"][] | undefined }) {
  return (
    <>
      {(all ?? []).map((one) => (
        <div key={one.currency}>
          <Amount {...one} />
        </div>
      ))}
    </>
  );
}
