// The program of the published test: a given number of records and fields, after a pause.
const pause = (time) => new Promise((done) => setTimeout(done, time));

const text = (field, record) => `value of field ${field} in record ${record}`.padEnd(32, ".");

export async function GET(request) {
  const number = (name, min, max) =>
    Math.max(min, Math.min(max, parseInt(request.query.get(name)) || min));
  const fields = number("numFields", 1, 100);
  const count = number("numRecords", 1, 100);
  const delay = number("msdelay", 0, 10000);
  if (delay > 0) await pause(delay);
  const records = [];
  for (let r = 1; r <= count; r++) {
    const record = {};
    for (let f = 1; f <= fields; f++) record[`field${f}`] = text(f, r);
    records.push(record);
  }
  return { records };
}
