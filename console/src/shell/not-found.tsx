import { Link } from "@tanstack/react-router";
import { Empty } from "../ui/parts";

export function NotFound() {
  return (
    <Empty title="Page not found">
      <p>
        Go to the <Link to="/">overview</Link>, or press <kbd>/</kbd> to search.
      </p>
    </Empty>
  );
}
