// Which charts a case has.

/** Colours of kinds of failures, of processes and of gauges, in the order in which they come. */
const TURN = ["c4", "c1", "c3", "c6", "c5", "c7", "c2", "c0"];

/** Where a round ends and the next one does not follow at once: nothing, so that lines are interrupted. */
function withGaps(cell) {
  const gap = (at) => at > 0 && cell.time[at] - cell.time[at - 1] > 2.5 * cell.every;
  const spread = (values, none) => values.flatMap((value, at) => (gap(at) ? [none, value] : [value]));
  const all = (lists) => Object.fromEntries(Object.entries(lists).map(([name, values]) => [name, spread(values, null)]));
  return {
    ...cell,
    time: cell.time.flatMap((time, at) => (gap(at) ? [cell.time[at - 1] + 0.01, time] : [time])),
    heat: spread(cell.heat, {}),
    labels: cell.labels.map((label) => ({ ...label, values: all(label.values), errors: all(label.errors) })),
  };
}

/** What was observed, between two moments. */
function between(observed, from, to) {
  const found = {};
  for (const [name, subject] of Object.entries(observed)) {
    const keep = subject.time.map((time) => time >= from - 1 && time <= to + 1);
    const pick = (values) => values.filter((value, at) => keep[at]);
    found[name] = { time: pick(subject.time), values: {} };
    for (const [key, values] of Object.entries(subject.values)) found[name].values[key] = pick(values);
  }
  return found;
}

/** Lines of one figure of several subjects on one time axis. */
function together(observed, figure, wanted) {
  const subjects = Object.entries(observed).filter(([name, subject]) => subject.values[figure] && wanted(name));
  const time = [...new Set(subjects.flatMap(([, subject]) => subject.time))].sort((a, b) => a - b);
  const lines = subjects.map(([name, subject], at) => {
    const values = new Map(subject.time.map((moment, at) => [moment, subject.values[figure][at]]));
    return { name, color: TURN[(at + 7) % TURN.length], values: time.map((moment) => (values.has(moment) ? values.get(moment) : undefined)) };
  });
  return [time, lines];
}

/** Draws a band behind what was measured, where that is not all of it. */
function measured(cell) {
  const is = (at) => (cell.recorded.length > 0 ? cell.recorded.includes(cell.round[at]) : cell.stage[at] === "measuring");
  const points = cell.time.map((time, at) => is(at));
  if (points.every((found) => found) || !points.some((found) => found)) return null;
  return (u) => {
    u.ctx.save();
    u.ctx.fillStyle = color("band");
    points.forEach((found, at) => {
      const left = Math.max(u.valToPos(cell.time[at] - cell.every, "x", true), u.bbox.left);
      const right = Math.min(u.valToPos(cell.time[at], "x", true), u.bbox.left + u.bbox.width);
      if (found && right > left) u.ctx.fillRect(Math.floor(left), u.bbox.top, Math.ceil(right - Math.floor(left)), u.bbox.height);
    });
    u.ctx.restore();
  };
}

/** Labels that are drawn in one chart. */
const MAX_LINES = 8;

/** Draws every chart of a case; those of requests for one of its labels, of which the first is all of them. */
function drawCell(parent, whole, at, observed) {
  const cell = withGaps(whole);
  const key = uPlot.sync("time");
  const label = cell.labels[at];
  const v = label.values;
  const drawn = [];
  const shade = measured(whole);
  const chart = (...rest) => drawn.push(timeChart(parent, key, ...rest));
  // Iterations of an unknown number of requests.
  const iterations = v.offered_iterations;
  const unit = iterations ? "a second: offered iterations, answered requests" : "requests a second, offered and answered";
  chart("Throughput", unit, cell.time, [
    { name: iterations ? "Offered iterations" : "Offered", values: iterations || v.offered, color: "c5", dash: [6, 4] },
    { name: "Answered", values: v.rate, color: "c0", fill: !shade },
  ], short, { wide: true, shade });
  chart("Response time", "percentiles of each moment; logarithmic", cell.time, [
    { name: "p50", values: v.p50, color: "p50" }, { name: "p95", values: v.p95, color: "p95" },
    { name: "p99", values: v.p99, color: "p99" }, { name: "Largest", values: v.max, color: "max" },
  ], milliseconds, { log: true, wide: true, shade });
  if (at === 0) {
    drawn.push(heatChart(parent, key, cell));
    drawLabels(chart, cell);
  }
  const kinds = Object.entries(label.errors).map(([name, values], turn) => ({ name, values, color: TURN[turn % TURN.length] }));
  chart("Failures", "samples a second, by kind", cell.time, kinds, short, { wide: true });
  drawn.push(histogramChart(parent, label.histogram));
  drawn.push(spectrumChart(parent, spectra(cell, at)));
  const all = cell.labels[0].values;
  chart("Under way", "requests in flight, users", cell.time, [
    { name: "In flight", values: all.in_flight, color: "c0" }, { name: "Users", values: all.users, color: "c5", dash: [6, 4] },
  ], short);
  chart("On the wire", "bytes a second", cell.time, [
    { name: "Received", values: v.received, color: "c0" }, { name: "Bodies, decoded", values: v.decoded, color: "c2", dash: [6, 4] },
    { name: "Sent", values: v.sent, color: "c1" },
  ], sizes);
  drawObserved(chart, between(observed, cell.time[0], cell.time[cell.time.length - 1]));
  return drawn.filter((found) => found !== null);
}

/** Lines of the labels with the most requests. */
function ofLabels(cell, line) {
  return cell.labels.slice(1, 1 + MAX_LINES).map((label, turn) => ({ name: label.name, color: "c" + turn, ...line(label) }));
}

/** Compares the labels over time. */
function drawLabels(chart, cell) {
  if (cell.labels.length < 3) return;
  chart("Throughput by name", "requests a second", cell.time, ofLabels(cell, (label) => ({ values: label.values.rate })), short);
  chart("95th percentile by name", "of the response time; logarithmic", cell.time,
    ofLabels(cell, (label) => ({ values: label.values.p95 })), milliseconds, { log: true });
}

/** Spectra of a label; of all requests also those of each label. */
function spectra(cell, at) {
  const label = cell.labels[at];
  const response = label.response.length > 0;
  const lines = [
    { name: response ? "Service time" : "Response time", points: label.service, color: "c0" },
    { name: "Response time, from the due time", points: label.response, color: "c1", dash: [6, 4] },
  ];
  if (at > 0 || cell.labels.length < 3) return lines;
  const others = ofLabels(cell, (found) => ({ points: found.response.length > 0 ? found.response : found.service }));
  return [{ ...lines[response ? 1 : 0], name: "All", color: "text", dash: undefined }, ...others];
}

function drawObserved(chart, observed) {
  const any = () => true;
  const seen = (title, unit, figure, show, wanted) => {
    const [time, lines] = together(observed, figure, wanted || any);
    chart(title, unit, time, lines, show);
  };
  seen("CPU", "cores in use", "cpu", short);
  seen("Busiest thread", "share of a core", "busiest_thread", percents);
  seen("Memory", "resident", "memory", sizes, (name) => name !== "host");
  seen("Descriptors", "open", "descriptors", short);
  seen("Sockets", "established TCP connections", "sockets", short);
  seen("Context switches", "a second", "switches", short, (name) => name !== "host");
  seen("Time taken away by the hypervisor", "share", "steal", percents);
  for (const [name, subject] of Object.entries(observed)) {
    if (subject.values.gauge) {
      chart(name, "gauge", subject.time, [{ name, values: subject.values.gauge, color: "c3" }], short);
    }
  }
}
