// Distributions: the heat map (of each moment, how many response times fell into which range) and the
// histogram.

/** Mixes two colours #rrggbb. */
function mixed(from, to, share) {
  const part = (text, at) => parseInt(text.slice(1 + 2 * at, 3 + 2 * at), 16);
  const mix = (at) => Math.round(part(from, at) + (part(to, at) - part(from, at)) * share);
  return "rgb(" + [0, 1, 2].map(mix).join(",") + ")";
}

/** Range n is from 10^(n/10) to 10^((n+1)/10) microseconds; here in milliseconds. */
function edge(bucket) {
  return Math.pow(10, bucket / 10) / 1e3;
}

/** Draws it; columns are as wide as a point stands for. */
function heatChart(parent, key, cell) {
  const buckets = cell.heat.flatMap((column) => Object.keys(column).map(Number));
  if (buckets.length === 0) return null;
  const [low, high] = [Math.min(...buckets), Math.max(...buckets) + 1];
  const most = Math.max(...cell.heat.flatMap((column) => Object.values(column)));
  const figure = frame(parent, "Response times", "the darker (in the dark theme: brighter), the more requests; logarithmic");
  const [cold, hot] = [color("heat0"), color("heat1")];
  const draw = (u) => {
    const context = u.ctx;
    context.save();
    context.beginPath();
    context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    context.clip();
    cell.heat.forEach((column, at) => {
      const right = u.valToPos(cell.time[at], "x", true);
      const left = u.valToPos(cell.time[at] - cell.every, "x", true);
      for (const [bucket, count] of Object.entries(column)) {
        const top = u.valToPos(edge(+bucket + 1), "y", true);
        const bottom = u.valToPos(edge(+bucket), "y", true);
        // Single requests have to be seen next to thousands.
        context.fillStyle = mixed(cold, hot, Math.log1p(count) / Math.log1p(most));
        context.fillRect(Math.floor(left), Math.floor(top), Math.ceil(right - left) + 1, Math.ceil(bottom - top));
      }
    });
    context.restore();
  };
  const nothing = cell.time.map(() => null);
  return new uPlot(options(figure, milliseconds, {
    wide: true,
    cursor: { sync: { key: key.key }, points: { show: false } },
    scales: { x: { time: false }, y: { distr: 3, range: () => [edge(low), edge(high)] } },
    series: [
      { label: "Time", value: (u, found) => (found === null ? "–" : +found.toFixed(1) + " s") },
      { label: "Most frequent", value: (u, found, series, at) => mostFrequent(cell.heat[at]) },
    ],
    hooks: { draw: [draw] },
  }), [cell.time, nothing], figure);
}

function mostFrequent(column) {
  const entries = Object.entries(column || {});
  if (entries.length === 0) return "–";
  const [bucket, count] = entries.reduce((best, entry) => (entry[1] > best[1] ? entry : best));
  return milliseconds(edge(+bucket)) + " to " + milliseconds(edge(+bucket + 1)) + " (" + count + ")";
}

/** A histogram: counts by range, [n, count] from 10^(n/20) to 10^((n+1)/20) microseconds. */
function histogramChart(parent, ranges) {
  if (!ranges || ranges.length === 0) return null;
  const start = (range) => Math.pow(10, range / 20) / 1e3;
  const [first, last] = [ranges[0][0], ranges[ranges.length - 1][0]];
  const most = Math.max(...ranges.map(([, count]) => count));
  const total = ranges.reduce((sum, [, count]) => sum + count, 0);
  const counts = new Map(ranges);
  const all = Array.from({ length: last - first + 1 }, (nothing, at) => first + at);
  const figure = frame(parent, "Distribution of the response times", "requests by range; logarithmic");
  const draw = (u) => {
    u.ctx.save();
    u.ctx.fillStyle = color("c0");
    for (const [range, count] of ranges) {
      const left = u.valToPos(start(range), "x", true);
      const right = u.valToPos(start(range + 1), "x", true);
      const top = u.valToPos(count, "y", true);
      u.ctx.fillRect(Math.round(left), Math.floor(top), Math.max(1, Math.round(right) - Math.round(left) - 1), u.bbox.top + u.bbox.height - Math.floor(top));
    }
    u.ctx.restore();
  };
  const middle = (range) => Math.sqrt(start(range) * start(range + 1));
  const decade = (mark) => Math.abs(Math.log10(mark) - Math.round(Math.log10(mark))) < 1e-6;
  const few = start(last + 1) / start(first) < 30;
  return new uPlot(options(figure, short, {
    wide: true,
    cursor: { points: { show: false }, drag: { x: false, y: false } },
    scales: { x: { time: false, distr: 3, range: () => [start(first), start(last + 1)] }, y: { range: () => [0, most * 1.05] } },
    axes: [{ ...axis(milliseconds, 34), filter: (u, marks) => marks.map((mark) => (few || decade(mark) ? mark : null)) }, axis(short, 72)],
    series: [
      { label: "Response time", value: (u, found, series, at) => (at === null || all[at] === undefined ? "–" : milliseconds(start(all[at])) + " to " + milliseconds(start(all[at] + 1))) },
      { label: "Requests", value: (u, found) => (found === null || found === undefined ? "–" : found.toLocaleString("en").replaceAll(",", "\u202f") + " (" + percents(found / total) + ")"), stroke: "transparent", points: { show: false } },
    ],
    hooks: { draw: [draw] },
  }), [all.map(middle), all.map((range) => counts.get(range) ?? 0)], figure);
}
