// The theme: the reader's system decides, a button overrides it. Paper is light, and shows what is folded.

/** A colour of the page's style, as it is now. */
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** Shows the button and calls `changed` whenever colours are others. */
function initTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    changed();
  });
  system.addEventListener("change", () => { label(); changed(); });
  label();
  // Paper is white, and nobody can unfold anything on it.
  let before;
  let unfolded = [];
  addEventListener("beforeprint", () => {
    before = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    unfolded = [...document.querySelectorAll(":is(#failures, #details) details:not([open])")];
    for (const folded of unfolded) folded.open = true;
    changed();
  });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    for (const folded of unfolded) folded.open = false;
    changed();
  });
}
