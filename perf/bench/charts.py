"""Charts of the results as SVG files, drawn by Matplotlib."""

from pathlib import Path

from .page import GROUPS, of_group

#: Colours that are readable on white and on dark pages.
_WEIR, _OTHER = "#1f77b4", "#9aa5b1"
#: Throughput of other products with the Tracker on, relative to off: published by the vendors, and
#: measured with a stack of the same parts (Spring Boot, ActiveMQ, Solr, HSQLDB; perf/README.md).
_OTHERS = (("TORO Integrate, published", 0.755), ("Martini 1.0, published", 0.521),
           ("stack of the same parts, measured", 0.24))
#: The cases of the chart of the README, with short labels.
_OVERVIEW = (("hello (`reply`, 52 bytes)", "static response"),
             ("proxy GET small", "proxy GET"),
             ("proxy POST 1 KiB", "proxy POST 1 KiB"),
             ("TLS and JWT, POST 1 KiB", "POST with TLS and JWT"),
             ("static file, 4,481 bytes", "static file"),
             ("FastCGI with php-fpm", "FastCGI"),
             ("a unary gRPC call to grpc-go", "gRPC"))


def write(results: dict[str, dict], folder: Path) -> dict[str, str]:
    """Draws the charts into a folder; returns the file names by slug. Without Matplotlib the files
    stay as they are."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        return {path.stem: path.name for path in folder.glob("*.svg")}
    # The same results give the same bytes.
    rcParams.update({"svg.hashsalt": "weir", "text.color": "#57606a", "axes.labelcolor": "#57606a",
                     "xtick.color": "#57606a", "ytick.color": "#57606a"})
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for group in GROUPS:
        bars = _ratios(of_group(group, results))
        if len(bars) > 1:
            drawn[group.slug] = _save(_ratio_chart(Figure, bars), folder / f"{group.slug}.svg")
    overview = _overview(Figure, results)
    if overview:
        drawn["overview"] = _save(overview, folder / "overview.svg")
    return drawn


def _ratios(rows) -> list[tuple[str, float, float | None]]:
    """Label, ratio to the reference and bar of each row that has a ratio and is judged."""
    found = []
    for row in rows:
        if "× " not in row.bar:
            continue
        text, bound = row.ratio.split(" (")[0], row.bar.split()[1]
        other = row.reference.rsplit(" ", 2)[0]
        load = "fixed rate" if "fixed rate" in row.load else row.load.split(",")[0]
        found.append((f"{row.case.replace('`', '')} / {other}, {load}", float(text), float(bound)))
    return found


def _ratio_chart(figure, bars):
    chart = figure(figsize=(8, 0.6 + 0.3 * len(bars)), layout="constrained")
    axes = chart.subplots()
    positions = range(len(bars), 0, -1)
    axes.barh(positions, [ratio for _, ratio, _ in bars], color=_WEIR, height=0.6)
    for position, (_, ratio, bound) in zip(positions, bars):
        axes.plot([bound, bound], [position - 0.42, position + 0.42], color="#d1242f", linewidth=2)
        axes.annotate(f"{ratio:.2f}", (max(ratio, bound), position), xytext=(4, 0), va="center", fontsize=8,
                      textcoords="offset points")
    axes.axvline(1, color=_OTHER, linewidth=1)
    axes.set_yticks(list(positions), [label for label, _, _ in bars], fontsize=8)
    axes.set_xlabel("CPU per request (or p99, throughput), weir / reference; red: the bar",
                    fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1)
    return chart


def _overview(figure, results):
    """CPU per request relative to nginx, and the throughput with recording on."""
    rows = {row.case: row for group in GROUPS for row in reversed(of_group(group, results))
            if "fixed rate" not in row.load and row.ratio}
    cpu = [(label, float(rows[case].ratio.split(" (")[0]))
           for case, label in _OVERVIEW if case in rows]
    burst = "burst of `ab -k -n 20000 -c 150`, Tracker on"
    if burst not in rows or not cpu:
        return None
    kept = [("weir", float(rows[burst].ratio.split(" (")[0])), *_OTHERS]
    chart = figure(figsize=(9, 3), layout="constrained")
    left, right = chart.subplots(1, 2, width_ratios=[3, 2])
    _horizontal(left, cpu, "CPU per request, nginx = 1 (less is better)", lambda v: f"{v:.2f}")
    left.axvline(1, color=_OTHER, linewidth=1)
    _horizontal(right, kept, "throughput kept with recording on", lambda v: f"{v:.0%}")
    return chart


def _horizontal(axes, bars, title, text):
    positions = list(range(len(bars), 0, -1))
    others = {label for label, _ in _OTHERS}
    colours = [_OTHER if label in others else _WEIR for label, _ in bars]
    axes.barh(positions, [value for _, value in bars], color=colours, height=0.6)
    for position, (_, value) in zip(positions, bars):
        axes.annotate(text(value), (value, position), xytext=(4, 0), va="center", fontsize=8,
                      textcoords="offset points")
    axes.set_yticks(positions, [label for label, _ in bars], fontsize=8)
    axes.set_title(title, fontsize=9, loc="left")
    axes.set_xlim(0, 1.2)
    axes.set_xticks([])
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def _save(chart, path: Path) -> str:
    chart.savefig(path, metadata={"Date": None}, transparent=True)
    return path.name
