// Mediation in a script: what `response: {map: …}` does beside it.
export default (answer) => {
  const { payload, size } = answer.json();
  return { payload, size };
};
