// The search bar, with completion and errors at their position.

import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import type { ApiProblem } from "../api/client";
import { complete, type Known, type Suggestion, insertSuggestion } from "../query/complete";
import { Icon } from "../ui/icons";
import { consumeFocusRequest } from "./focus";

interface Props {
  query: string;
  known: Known;
  onSearch: (query: string) => void;
  error?: ApiProblem;
  /** Position of the error in the query. */
  position?: [number, number];
}

export function SearchBar({ query, known, onSearch, error, position }: Props) {
  const [text, setText] = useState(query);
  const [caret, setCaret] = useState(query.length);
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => setText(query), [query]);
  useEffect(() => {
    if (consumeFocusRequest()) input.current?.focus();
  }, []);

  const completion = useMemo(() => complete(text, caret, known), [text, caret, known]);
  const { suggestions } = completion;
  const isOpen = open && suggestions.length > 0;

  const accept = (one: Suggestion) => {
    const next = insertSuggestion(text, completion, one);
    setText(next.query);
    setCaret(next.caret);
    setChosen(-1);
    setOpen(one.open);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(next.caret, next.caret);
    });
  };
  const search = () => {
    setOpen(false);
    onSearch(text.trim());
  };
  const pressed = (event: KeyboardEvent) => {
    const one = suggestions[chosen];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      const step = event.key === "ArrowDown" ? 1 : -1;
      const length = suggestions.length + 1;
      setChosen((before) => ((before + 1 + step + length) % length) - 1);
    } else if (event.key === "Tab" && isOpen && !event.shiftKey && (one ?? suggestions.length === 1)) {
      event.preventDefault();
      accept(one ?? (suggestions[0] as Suggestion));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isOpen && one) accept(one);
      else search();
    } else if (event.key === "Escape") {
      if (isOpen) setOpen(false);
      else input.current?.blur();
    }
  };
  return (
    <search className="search">
      <div className={`search-box ${error ? "wrong" : ""}`}>
        <Icon name="tracker" size={17} />
        <input
          ref={input}
          data-search
          type="text"
          role="combobox"
          aria-label="Search transactions"
          aria-expanded={isOpen}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={isOpen && chosen >= 0 ? `${id}-${chosen}` : undefined}
          aria-invalid={error !== undefined}
          aria-describedby={error ? `${id}-error` : undefined}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          maxLength={4000}
          placeholder='Any word, or status:>=500 api:orders body:"acme corp"'
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setCaret(event.target.selectionStart ?? event.target.value.length);
            setOpen(true);
            setChosen(-1);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onKeyDown={pressed}
        />
        <kbd className="hide-small" aria-hidden="true">
          /
        </kbd>
        {text !== "" && (
          <button
            type="button"
            className="button quiet icon small"
            aria-label="Clear the search"
            onClick={() => {
              setText("");
              onSearch("");
              input.current?.focus();
            }}
          >
            <Icon name="close" size={15} />
          </button>
        )}
        <button type="button" className="button primary small" onClick={search}>
          Search
        </button>
      </div>
      {isOpen && (
        <ul className="menu suggestions" id={`${id}-list`} role="listbox" aria-label="Completions">
          {suggestions.map((one, index) => (
            <li
              key={one.insert}
              id={`${id}-${index}`}
              role="option"
              aria-selected={index === chosen}
              className="menu-item"
              {...(index === chosen ? { "data-highlighted": "" } : {})}
              onMouseDown={(event) => {
                event.preventDefault();
                accept(one);
              }}
            >
              <code>{one.label}</code>
              <span className="muted cut">{one.help}</span>
            </li>
          ))}
        </ul>
      )}
      {error && (
        <div className="search-error" id={`${id}-error`} role="alert">
          {position && (
            <code className="wrap-any">
              {text.slice(0, position[0])}
              <mark className="wrong">{text.slice(position[0], Math.max(position[1], position[0] + 1)) || " "}</mark>
              {text.slice(Math.max(position[1], position[0] + 1))}
            </code>
          )}
          <span>
            {error.title}: {error.detail.replace(/^at \d+: /, "")}
          </span>
        </div>
      )}
    </search>
  );
}
