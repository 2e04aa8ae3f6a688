// Web worker that lays out long bodies, so that the page stays responsive.

import { type Body, layOut } from "./body-layout";

interface Scope {
  onmessage: ((event: MessageEvent<{ number: number; body: Body }>) => void) | null;
  postMessage(message: unknown, transfer: Transferable[]): void;
}

const scope = self as unknown as Scope;

scope.onmessage = ({ data: { number, body } }) => {
  const shown = layOut(body);
  const { starts, ends, numbers } = shown.lines;
  scope.postMessage({ number, shown }, [starts.buffer, ends.buffer, numbers.buffer] as ArrayBuffer[]);
};
