// Sets long bodies out beside the page, which goes on answering meanwhile.

import { type Body, setOut } from "./set-out";

interface Scope {
  onmessage: ((event: MessageEvent<{ number: number; body: Body }>) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

const scope = self as unknown as Scope;

scope.onmessage = ({ data: { number, body } }) => {
  const shown = setOut(body);
  const { starts, ends, numbers } = shown.lines;
  scope.postMessage({ number, shown }, [starts.buffer, ends.buffer, numbers.buffer] as ArrayBuffer[]);
};
