// The service of the load test, as a script.
export function GET() {
  return { result: "OK", message: "Hello World" };
}
