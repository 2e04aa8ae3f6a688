//! The page as a whole.

use super::html::{bytes, escape, json, number, time};
use super::{LIBRARY, data, drawing, tables};
use crate::results::{Cell, Event, Run, Stored};
use crate::verdict::Verdict;
use std::fmt::Write;

const STYLE: &str = include_str!("../../report/src/page.css");
/// Our scripts, in the order in which they need each other.
const SCRIPTS: [&str; 5] = [
    include_str!("../../report/src/theme.js"),
    include_str!("../../report/src/chart.js"),
    include_str!("../../report/src/heat.js"),
    include_str!("../../report/src/panels.js"),
    include_str!("../../report/src/main.js"),
];
/// Cases that are shown in detail, each.
const DETAILED: usize = 200;
/// Events that are listed.
const EVENTS: usize = 500;

/// The report of a run.
pub(super) fn page(stored: &Stored) -> String {
    let Stored { run, summary, .. } = stored;
    let mut out = head(&run.name);
    out.push_str(&header(stored));
    let mut section = |title: &str, id: &str, content: String| {
        if !content.is_empty() {
            let _ = write!(out, "<section id=\"{id}\"><h2>{title}</h2>{content}</section>");
        }
    };
    section("Cases", "cases", cases(stored));
    section("Thresholds", "thresholds", tables::thresholds(summary));
    let compared = summary.comparison.as_ref().map(tables::comparison).unwrap_or_default();
    section("Compared with the baseline", "comparison", compared);
    section("Over the levels of factors", "matrix", drawing::matrix(&summary.cells));
    section("Over time", "time", over_time(stored));
    section(
        "Case by case",
        "details",
        summary.cells.iter().take(DETAILED).enumerate().map(details).collect(),
    );
    section("Validity", "validity", validity(stored));
    section("Environment", "environment", tables::environment(run));
    section("What happened", "events", events(&stored.events()));
    section("Again", "again", again(run));
    out.push_str("</main>");
    out.push_str(&scripts(stored));
    out.push_str("</body></html>\n");
    out
}

fn head(name: &str) -> String {
    let library = LIBRARY.map_or("", |library| library.style);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\
         <title>{} – weir lab</title><style>{library}\n{STYLE}</style></head><body><main>",
        escape(name)
    )
}

fn header(stored: &Stored) -> String {
    let Stored { run, summary, .. } = stored;
    let mut out = format!(
        "<header><div><p class=\"over\">weir lab report</p><h1>{} {}</h1><p class=\"sub\">{} · {}</p></div>\
         <button id=\"theme\" type=\"button\" hidden>Theme</button></header>",
        escape(&run.name),
        tables::badge(summary.verdict),
        escape(&run.target),
        escape(&run.started)
    );
    if summary.verdict == Verdict::Quick || run.quick {
        out.push_str(
            "<p class=\"notice\">A quick run: reduced cases and short rounds. It shows that things \
             work; its figures are no headline.</p>",
        );
    }
    if !summary.reasons.is_empty() {
        let _ = write!(out, "<div class=\"reasons\">{}</div>", tables::list(&summary.reasons));
    }
    if let [cell] = &summary.cells[..] {
        out.push_str(&tiles(cell));
    }
    out
}

/// The figures of a run with one case.
fn tiles(cell: &Cell) -> String {
    let Some(total) = cell.total() else { return String::new() };
    let mut tiles = Vec::new();
    if let Some(spread) = cell.throughput {
        let note = cell.interval.map_or_else(String::new, |interval| {
            format!("95 % interval {} – {}", number(interval.low), number(interval.high))
        });
        tiles.push(("Requests a second", number(spread.mean), note));
    }
    if let Some(open) = &cell.open {
        tiles.push(("Offered a second", number(open.offered), format!("{} dropped", open.dropped)));
    }
    let times = &total.response;
    tiles.push(("Median", time(times.p50), format!("mean {}", time(times.mean))));
    tiles.push(("99th percentile", time(times.p99), format!("largest {}", time(times.max))));
    let failed = format!("{} of {}", number(total.failed() as f64), number(total.samples as f64));
    tiles.push(("Errors", format!("{} %", number(100.0 * total.error_share())), failed));
    if total.decoded > total.body && total.body > 0 {
        let factor = total.decoded as f64 / total.body as f64;
        let note =
            format!("{} instead of {}", bytes(total.body as f64), bytes(total.decoded as f64));
        tiles.push(("Compressed", format!("{factor:.1} : 1"), note));
    }
    let tile = |(name, figure, note): (&str, String, String)| {
        format!(
            "<div class=\"tile\"><p>{name}</p><strong>{figure}</strong><p class=\"note\">{}</p></div>",
            escape(&note)
        )
    };
    format!("<div class=\"tiles\">{}</div>", tiles.into_iter().map(tile).collect::<String>())
}

fn cases(stored: &Stored) -> String {
    let summary = &stored.summary;
    let mut out = String::new();
    if summary.cells.len() > 1 {
        out.push_str(&drawing::cases(&summary.cells));
        let published = summary.cells.iter().any(|cell| !cell.published.is_empty());
        let mark = if published { " Upright mark: the published figure." } else { "" };
        let _ = write!(
            out,
            "<p class=\"caption\">Dot: mean. Thick line: its 95 % interval. Thin line: smallest to \
             largest round.{mark}</p>"
        );
    }
    out.push_str(&tables::cases(summary));
    if let Some(effects) = &summary.effects {
        let _ = write!(out, "<h3>Effects</h3>{}", tables::effects(effects));
    }
    let mut sources: Vec<&str> = Vec::new();
    for published in summary.cells.iter().flat_map(|cell| &cell.published) {
        if !sources.contains(&published.source.as_str()) {
            sources.push(&published.source);
        }
    }
    for source in sources {
        let _ = write!(out, "<p class=\"caption\">Published: {}</p>", escape(source));
    }
    out
}

fn over_time(stored: &Stored) -> String {
    if LIBRARY.is_none() {
        return "<p class=\"notice\">Charts over time are not in this report: this weir was built \
                without its chart library. With Node.js, <code>make report</code> installs it; then \
                build weir again and run <code>weir lab report</code> on this folder. The figures \
                themselves are in <code>series.csv</code>, <code>heat.csv</code> and \
                <code>server.csv</code>.</p>"
            .to_owned();
    }
    let mut out = String::from(
        "<noscript><p class=\"notice\">Charts over time need a script.</p></noscript>",
    );
    if stored.summary.cells.len() > 1 {
        out.push_str("<label class=\"choose\">Case <select id=\"choose\">");
        for (at, cell) in stored.summary.cells.iter().enumerate() {
            let _ = write!(out, "<option value=\"{at}\">{}</option>", escape(&cell.name));
        }
        out.push_str("</select></label>");
    }
    out.push_str(
        "<p class=\"caption\">Drag to zoom, double-click to go back; the charts share one time axis, \
         in seconds since the run started. <span class=\"key measured\"></span>what is reported</p><div id=\"charts\"></div>",
    );
    out
}

fn details((at, cell): (usize, &Cell)) -> String {
    let name = if cell.name.is_empty() { "all" } else { &cell.name };
    let open = at == 0 || !matches!(cell.verdict, Verdict::Pass | Verdict::Quick);
    let mut out = format!(
        "<details{}><summary>{} {}</summary>",
        if open { " open" } else { "" },
        escape(name),
        tables::badge(cell.verdict)
    );
    if !cell.reasons.is_empty() {
        out.push_str(&tables::list(&cell.reasons));
    }
    let rounds = drawing::rounds(cell);
    if !rounds.is_empty() {
        let _ = write!(
            out,
            "<h3>Rounds</h3>{rounds}<p class=\"legend\"><span class=\"key recorded\"></span>recorded \
             <span class=\"key warm\"></span>discarded: warm-up <span class=\"key \
             calibration\"></span>discarded: finding the length <span class=\"key flawed\"></span>flawed \
             <span class=\"key band\"></span>95 % interval of the mean</p>"
        );
    }
    if let Some(outcome) = &cell.protocol {
        let _ = write!(
            out,
            "<p>Protocol: {}.</p>{}",
            escape(&outcome.because),
            remarks(&outcome.remarks)
        );
    }
    if let Some(fixed) = &cell.fixed {
        let mser = fixed.mser.map_or_else(String::new, |found| match found.settled {
            true => format!(" MSER-5 would cut {} s.", found.cut),
            false => " MSER-5 finds no end of the warm-up.".to_owned(),
        });
        let _ = write!(
            out,
            "<p>The first {} s are cut off.{mser}</p>{}",
            fixed.cut,
            remarks(&fixed.remarks)
        );
    }
    out.push_str(&remarks(&cell.remarks));
    let _ = write!(out, "<h3>Labels</h3>{}", tables::labels(cell));
    let failures = tables::failures(cell);
    if !failures.is_empty() {
        let _ = write!(out, "<h3>Failures</h3>{failures}");
    }
    out.push_str("</details>");
    out
}

fn remarks(remarks: &[String]) -> String {
    if remarks.is_empty() { String::new() } else { tables::list(remarks) }
}

fn validity(stored: &Stored) -> String {
    format!(
        "<p class=\"caption\">A case is invalid when requests were sent late, the generator or the \
         hypervisor held it up, iterations were dropped, the offered rate was not reached, the \
         arithmetic does not fit the clock, or more than 0.1 % of the requests failed.</p>{}",
        tables::validity(&stored.summary)
    )
}

fn events(events: &[Event]) -> String {
    if events.is_empty() {
        return String::new();
    }
    let row = |event: &Event| {
        let text = escape(&event.text);
        format!("<tr><td class=\"n\">{:.1} s</td><td>{text}</td></tr>", event.time)
    };
    let rows: String = events.iter().take(EVENTS).map(row).collect();
    let more = match events.len().checked_sub(EVENTS) {
        Some(more) if more > 0 => format!("<p>{more} more are in <code>events.jsonl</code>.</p>"),
        _ => String::new(),
    };
    format!(
        "<details><summary>{} events</summary><table>{rows}</table>{more}</details>",
        events.len()
    )
}

fn again(run: &Run) -> String {
    let quoted = |argument: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let command: Vec<String> = run.command.iter().map(quoted).collect();
    let mut out = format!("<pre><code>{}</code></pre>", escape(&command.join(" ")));
    if !run.scenario.is_null() {
        let text = match &run.scenario {
            serde_json::Value::String(text) => text.clone(),
            scenario => serde_json::to_string_pretty(scenario).unwrap_or_default(),
        };
        let _ = write!(
            out,
            "<details><summary>Scenario</summary><pre><code>{}</code></pre></details>",
            escape(&text)
        );
    }
    out
}

fn scripts(stored: &Stored) -> String {
    let Some(library) = LIBRARY else {
        return format!(
            "<script>\"use strict\";(() => {{\n{}\ninitTheme(() => {{}});\n}})();</script>",
            SCRIPTS[0]
        );
    };
    format!(
        "<script type=\"application/json\" id=\"data\">{}</script>\
         <script>/*\n{}\n*/\n{}</script><script>\"use strict\";(() => {{\n{}\n}})();</script>",
        json(&data::of(stored)),
        library.license,
        library.script,
        SCRIPTS.join("\n")
    )
}
