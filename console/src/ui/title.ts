// Title of the page.

import { useEffect } from "react";

export function useTitle(title: string) {
  useEffect(() => {
    document.title = `${title} · weir`;
  }, [title]);
}
