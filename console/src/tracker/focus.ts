// That the search bar is to have the focus as soon as it is there.

let isAsked = false;

export function askForFocus(): void {
  isAsked = true;
}

/** Whether it was asked for since the last time. */
export function takeFocus(): boolean {
  const was = isAsked;
  isAsked = false;
  return was;
}
