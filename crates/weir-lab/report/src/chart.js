// Charts over time: uPlot with our colours, formats and one shared time axis.

const HEIGHT = 210;

/** A number as people read it. */
function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toPrecision(4) + " G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(4) + " M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(4) + " k";
  return String(+value.toPrecision(4));
}

/** Milliseconds, or another unit where that reads better. */
function milliseconds(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value >= 1e4) return +(value / 1e3).toPrecision(3) + " s";
  if (value >= 1 || value === 0) return +value.toPrecision(3) + " ms";
  return +(value * 1e3).toPrecision(3) + " µs";
}

/** Bytes, in powers of 1024. */
function sizes(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(value) >= 1024 && at + 1 < units.length) { value /= 1024; at += 1; }
  return +value.toPrecision(3) + " " + units[at];
}

function percents(value) {
  return value === null || value === undefined ? "–" : +(100 * value).toPrecision(3) + " %";
}

/** Steps of an axis of bytes. */
const BINARY = Array.from({ length: 51 }, (nothing, power) => Math.pow(2, power));

function axis(show, size) {
  return {
    incrs: show === sizes ? BINARY : undefined,
    stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 },
    font: "12px system-ui, sans-serif", size,
    values: show ? (u, marks) => marks.map((mark) => (mark === null ? "" : show(mark))) : undefined,
  };
}

/** A frame with a title, in which a chart is drawn. */
function frame(parent, title, unit) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const small = document.createElement("span");
  caption.textContent = title + " ";
  small.textContent = unit;
  caption.append(small);
  figure.append(caption);
  parent.append(figure);
  return figure;
}

/** What every chart of ours has: width, cursor, axes. `show` makes text of values. */
function options(figure, show, more) {
  figure.classList.toggle("wide", Boolean(more.wide));
  return {
    width: figure.clientWidth, height: HEIGHT,
    legend: { live: true },
    cursor: { points: { size: 6 }, drag: { x: true, y: false }, ...more.cursor },
    scales: more.scales, series: more.series, hooks: more.hooks || {},
    axes: more.axes || [axis(null, 34), axis(show, 72)],
    padding: [10, 12, 0, 0],
  };
}

/** Positions of values without neighbours: a line does not show these. */
function isolated(u, series) {
  const values = u.data[series];
  const is = (at) => values[at] !== null && values[at] !== undefined;
  return values.map((value, at) => at).filter((at) => is(at) && !is(at - 1) && !is(at + 1));
}

/**
 * Draws lines over time. `lines` are {name, values, color, dash?, fill?}; those without any value are
 * left out, and a chart without lines is not drawn. `more` has `log` for a logarithmic axis, `wide`
 * for the whole width, `shade` to draw behind the lines.
 */
function timeChart(parent, key, title, unit, time, lines, show, more) {
  const { log, wide, shade } = more || {};
  lines = lines.filter((line) => line.values && line.values.some((value) => value !== null));
  if (lines.length === 0) return null;
  const figure = frame(parent, title, unit);
  const value = (u, found) => show(found);
  const series = lines.map((line) => ({
    label: line.name, stroke: color(line.color), width: 1.75, dash: line.dash, value,
    fill: line.fill ? color(line.color) + "33" : undefined, points: { show: time.length < 40, filter: (u, at, show) => (show ? null : isolated(u, at)) },
  }));
  const low = (values) => Math.min(...values.flat().filter((found) => found > 0));
  const shown = log ? lines.map((line) => line.values.map((found) => (found > 0 ? found : null))) : lines.map((line) => line.values);
  const y = log && isFinite(low(shown)) ? { distr: 3 } : { range: (u, min, max) => [0, max > 0 ? max * 1.05 : 1] };
  return new uPlot(options(figure, show, {
    wide, hooks: shade ? { drawClear: [shade] } : {},
    cursor: { sync: { key: key.key } },
    scales: { x: { time: false }, y },
    series: [{ label: "Time", value: (u, found) => (found === null ? "–" : +found.toFixed(1) + " s") }, ...series],
  }), [time, ...shown], figure);
}

/** Percentile spectra: time over 1 / (1 − share), so that every nine is as wide as the one before. */
function spectrumChart(parent, lines) {
  lines = lines.filter((line) => line.points.length > 1);
  if (lines.length === 0) return null;
  const figure = frame(parent, "Percentiles", "of the measured interval; each nine is as wide as the one before");
  const below = lines.flatMap((line) => line.points.map((point) => point[0])).filter((found) => found < 100);
  const end = 2 / (1 - Math.max(0, ...below) / 100);
  // The last sample is at 100 %, which is nowhere on this axis: it stands at its end.
  const place = (percent) => (percent < 100 ? 1 / (1 - percent / 100) : end);
  const percent = (found) => (found >= end ? "100 %" : +(100 - 100 / found).toPrecision(7) + " %");
  const all = [...new Set(lines.flatMap((line) => line.points.map((point) => place(point[0]))))].sort((a, b) => a - b);
  const values = lines.map((line) => {
    const at = new Map(line.points.map((point) => [place(point[0]), point[1]]));
    return all.map((x) => (at.has(x) ? at.get(x) : undefined));
  });
  return new uPlot(options(figure, milliseconds, {
    cursor: {},
    wide: true,
    scales: { x: { time: false, distr: 3, range: () => [1, end] }, y: { range: (u, min, max) => [0, max > 0 ? max * 1.05 : 1] } },
    axes: [{ ...axis(percent, 34), filter: (u, marks) => marks.map((mark) => (Number.isInteger(Math.round(1e6 * Math.log10(mark)) / 1e6) ? mark : null)) }, axis(milliseconds, 72)],
    series: [
      { label: "Percentile", value: (u, found) => (found === null ? "–" : percent(found)) },
      ...lines.map((line) => ({
        label: line.name, stroke: color(line.color), width: 1.75, spanGaps: true, dash: line.dash,
        value: (u, found) => milliseconds(found), points: { show: false },
      })),
    ],
  }), [all, ...values], figure);
}
