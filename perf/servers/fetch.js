// Mediation in a script that fetches: what `response: {script: map.js}` does beside it.
export async function POST(request) {
  const answer = await fetch("http://backend/open/echo", { method: "POST", body: request.text() });
  const { payload, size } = answer.json();
  return { payload, size };
}
