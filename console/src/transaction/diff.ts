// Difference of two texts by line.

export interface Change {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Above this number of lines the middle is replaced as a whole: the time grows with the square. */
const MAX_LINES = 1500;

export function diff(before: string, after: string): Change[] {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = between(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (text: string): Change => ({ kind: "same", text });
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)];
}

/** By the longest common subsequence of lines. */
function between(a: string[], b: string[]): Change[] {
  const removed = (text: string): Change => ({ kind: "removed", text });
  const added = (text: string): Change => ({ kind: "added", text });
  if (a.length === 0 || b.length === 0 || a.length * b.length > MAX_LINES * MAX_LINES) return [...a.map(removed), ...b.map(added)];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      longest[at] = a[i] === b[j] ? (longest[at + width + 1] ?? 0) + 1 : Math.max(longest[at + width] ?? 0, longest[at + 1] ?? 0);
    }
  }
  const out: Change[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      out.push({ kind: "same", text: a[i] as string });
      i += 1;
      j += 1;
    } else if ((longest[(i + 1) * width + j] ?? 0) >= (longest[i * width + j + 1] ?? 0)) {
      out.push(removed(a[i] as string));
      i += 1;
    } else {
      out.push(added(b[j] as string));
      j += 1;
    }
  }
  return [...out, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}
