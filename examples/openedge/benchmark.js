// So many records of so many fields, after a pause: what the published test has agents do.
const pause = (time) => new Promise((done) => setTimeout(done, time));

const text = (field, record) => `value of field ${field} in record ${record}`.padEnd(32, ".");

export async function GET(request) {
  const number = (name, least, most) =>
    Math.max(least, Math.min(most, parseInt(request.query.get(name)) || least));
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
