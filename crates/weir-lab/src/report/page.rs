//! The complete page.

use super::html::{bytes, count, json, number, time};
use super::{LIBRARY, bars, data, drawing, exports, sentence, tables};
use crate::results::{Cell, Event, Run, StoredRun};
use crate::verdict::Verdict;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("../../report/src/page.css");
/// Scripts of weir, in the order of their dependencies.
const SCRIPTS: [&str; 5] = [
    include_str!("../../report/src/theme.js"),
    include_str!("../../report/src/chart.js"),
    include_str!("../../report/src/heat.js"),
    include_str!("../../report/src/panels.js"),
    include_str!("../../report/src/main.js"),
];
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                               script-src 'unsafe-inline'; img-src data:";
/// Cases with a section of details.
const MAX_DETAILED_CASES: usize = 200;
/// Events in the list.
const MAX_LISTED_EVENTS: usize = 500;

/// The report of a run.
pub(super) fn page(stored: &StoredRun) -> String {
    let library = LIBRARY.map_or("", |library| library.style);
    // Errors may quote binary content of responses.
    let body = body(stored).into_string();
    let body = body.replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), "\u{fffd}");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(SECURITY_POLICY);
                title { (stored.run.name) " – weir lab" }
                style { (PreEscaped(library)) "\n" (PreEscaped(STYLE)) }
            }
            body {
                main { (PreEscaped(body)) }
                (scripts(stored))
            }
        }
    };
    page.into_string() + "\n"
}

fn body(stored: &StoredRun) -> Markup {
    let StoredRun { run, summary, .. } = stored;
    let comparison = summary.comparison.as_ref().map(tables::comparison);
    let details = summary.cells.iter().take(MAX_DETAILED_CASES).enumerate();
    let sections = [
        ("cases", "Cases", Some(cases(stored))),
        ("bars", "Bars", bars::bars(summary)),
        ("thresholds", "Thresholds", tables::thresholds(summary)),
        ("comparison", "Comparison with the baseline", comparison),
        ("failures", "Failures", failures(&summary.cells)),
        ("matrix", "Levels of factors", drawing::matrix(&summary.cells)),
        ("time", "Over time", Some(over_time(stored))),
        (
            "details",
            "Details of each case",
            Some(html! { @for case in details { (self::details(case)) } }),
        ),
        ("validity", "Validity", Some(validity(stored))),
        ("environment", "Environment", Some(tables::environment(run))),
        ("export", "Export", exports::table(&summary.exports)),
        ("events", "Events", events(&stored.events())),
        ("again", "Reproduction", Some(reproduction(run))),
    ];
    html! {
        (header(stored))
        @for (id, title, content) in sections {
            @if let Some(content) = content {
                section id=(id) { h2 { (title) } (content) }
            }
        }
    }
}

fn header(stored: &StoredRun) -> Markup {
    let StoredRun { run, summary, .. } = stored;
    html! {
        header {
            div {
                p.over { "weir lab report" }
                h1 { (run.name) " " (tables::badge(summary.verdict)) }
                p.sub { @if !run.target.is_empty() { (run.target) " · " } (run.started) }
            }
            button id="theme" type="button" hidden { "Theme" }
        }
        div class={ "verdict " (summary.verdict.word().to_lowercase()) } {
            p { (sentence::sentence(summary)) }
            @if run.quick && summary.verdict != Verdict::Quick {
                p.note { "This is a quick run with fewer cases and short rounds." }
            }
            // The first reason is part of the sentence.
            @if summary.reasons.len() > 1 { (tables::list(&summary.reasons[1..])) }
        }
        @if let [cell] = &summary.cells[..] { (tiles(cell)) }
    }
}

/// The figures of a run with one case.
fn tiles(cell: &Cell) -> Markup {
    let Some(total) = cell.total() else { return Markup::default() };
    let mut tiles = Vec::new();
    if let Some(spread) = cell.throughput {
        let note = cell.interval.map_or_else(String::new, |interval| {
            format!("95 % interval {} – {}", number(interval.low), number(interval.high))
        });
        tiles.push(("Requests per second", number(spread.mean), note));
    }
    if let Some(open) = &cell.open {
        let dropped = format!("{} iterations dropped", count(open.dropped));
        let unit = match cell.offered {
            Some(_) => "Offered requests per second",
            None => "Offered iterations per second",
        };
        tiles.push((unit, number(open.offered), dropped));
    }
    let times = &total.response;
    tiles.push(("Median", time(times.p50), format!("mean {}", time(times.mean))));
    tiles.push(("99th percentile", time(times.p99), format!("largest {}", time(times.max))));
    let failed = format!("{} of {}", count(total.failed()), count(total.samples));
    tiles.push(("Errors", format!("{} %", number(100.0 * total.error_share())), failed));
    if total.decoded > total.body && total.body > 0 {
        let factor = total.decoded as f64 / total.body as f64;
        let note =
            format!("{} instead of {}", bytes(total.body as f64), bytes(total.decoded as f64));
        tiles.push(("Compressed", format!("{factor:.1} : 1"), note));
    }
    html! {
        div.tiles {
            @for (name, figure, note) in tiles {
                div.tile { p { (name) } strong { (figure) } p.note { (note) } }
            }
        }
    }
}

fn cases(stored: &StoredRun) -> Markup {
    let summary = &stored.summary;
    let sources = summary.sources();
    html! {
        @if summary.cells.len() > 1 {
            div.scroll.wide tabindex="0" { (drawing::cases(&summary.cells).unwrap_or_default()) }
            p.caption {
                "Dot: mean. Thick line: its 95 % interval. Thin line: smallest to largest round."
                @if !sources.is_empty() { " Upright mark: the published figure." }
            }
        }
        (tables::cases(summary))
        @if let Some(effects) = &summary.effects { h3 { "Effects" } (tables::effects(effects)) }
        @for source in sources { p.caption { "Published: " (source) } }
    }
}

fn over_time(stored: &StoredRun) -> Markup {
    if LIBRARY.is_none() {
        return html! {
            p.notice {
                "Charts over time are missing: this weir was built without its chart library. With "
                "Node.js, " code { "make report" } " installs the library. Then build weir again and run "
                code { "weir lab report" } " on this folder. The figures are in "
                code { "series.csv" } ", " code { "heat.csv" } " and " code { "server.csv" } "."
            }
        };
    }
    html! {
        noscript { p.notice { "Charts over time need JavaScript." } }
        @if stored.summary.cells.len() > 1 {
            label.choose {
                "Case "
                select id="choose" {
                    @for (at, cell) in stored.summary.cells.iter().enumerate() {
                        option value=(at) { (cell.name) }
                    }
                }
            }
        }
        label.choose #labels hidden {
            "Requests "
            select id="label" {}
        }
        p.caption {
            "Drag to zoom, double-click to reset. The charts share one time axis, in seconds since the "
            "start of the run. " span.key.measured {} "measured interval"
        }
        div id="charts" {}
    }
}

fn details((at, cell): (usize, &Cell)) -> Markup {
    let name = if cell.name.is_empty() { "all" } else { &cell.name };
    let open = at == 0 || !matches!(cell.verdict, Verdict::Pass | Verdict::Quick);
    html! {
        details open[open] {
            summary { (name) " " (tables::badge(cell.verdict)) }
            (tables::list(&cell.reasons))
            @if let Some(rounds) = drawing::rounds(cell) {
                h3 { "Rounds" }
                div.scroll.wide tabindex="0" { (rounds) }
                p.legend {
                    span.key.recorded {} "recorded "
                    span.key.warm {} "discarded: warm-up "
                    span.key.calibration {} "discarded: calibration of the length "
                    span.key.flawed {} "invalid "
                    span.key.band {} "95 % interval of the mean"
                }
            }
            @if let Some(outcome) = &cell.protocol {
                p { "Protocol: " (outcome.reason) "." }
                (tables::list(&outcome.remarks))
            }
            @if let Some(fixed) = &cell.fixed {
                p {
                    @if fixed.cut > 0 { "The first " (fixed.cut) " s are cut off." }
                    @match fixed.mser {
                        Some(found) if found.settled && found.cut == 0 => " MSER-5 would cut nothing.",
                        Some(found) if found.settled => { " MSER-5 would cut " (found.cut) " s." }
                        Some(_) => " MSER-5 finds no end of the warm-up.",
                        None => {}
                    }
                }
                (tables::list(&fixed.remarks))
            }
            (tables::list(&cell.remarks))
            h3 { "Labels" }
            (tables::labels(cell))
        }
    }
}

/// Failures of each case; `None` without any.
fn failures(cells: &[Cell]) -> Option<Markup> {
    let failures: Vec<(&Cell, Markup)> = cells
        .iter()
        .take(MAX_DETAILED_CASES)
        .filter_map(|cell| Some((cell, tables::failures(cell)?)))
        .collect();
    (!failures.is_empty()).then(|| {
        html! {
            p.caption {
                "By message, with one of the first requests of each. Times count from the start of the "
                "round. Values of credentials are replaced by ***."
            }
            @for (cell, failures) in failures {
                @if !cell.name.is_empty() { h3 { (cell.name) } }
                (failures)
            }
        }
    })
}

fn validity(stored: &StoredRun) -> Markup {
    html! {
        p.caption {
            "A case is invalid if requests were sent late, if the generator or the hypervisor was the "
            "bottleneck, if iterations were dropped, if the offered rate was not reached, if requests "
            "divided by throughput differ from the measured time, if the clock was set, if other processes "
            "took the cores, or if more than 0.1 % of the requests failed."
        }
        (tables::validity(&stored.summary))
    }
}

fn events(events: &[Event]) -> Option<Markup> {
    let unlisted = events.len().saturating_sub(MAX_LISTED_EVENTS);
    (!events.is_empty()).then(|| {
        html! {
            details {
                summary { (events.len()) " events" }
                div.scroll tabindex="0" { table {
                    @for event in events.iter().take(MAX_LISTED_EVENTS) {
                        tr { td.n { (format_args!("{:.1} s", event.time)) } td { (event.text) } }
                    }
                } }
                @if unlisted > 0 { p { (unlisted) " more are in " code { "events.jsonl" } "." } }
            }
        }
    })
}

fn reproduction(run: &Run) -> Markup {
    let quoted = |argument: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument.clone()
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let command: Vec<String> = run.command.iter().map(quoted).collect();
    let scenario = match &run.scenario {
        serde_json::Value::String(text) => text.clone(),
        scenario => serde_json::to_string_pretty(scenario).unwrap_or_default(),
    };
    html! {
        pre { code { (command.join(" ")) } }
        @if !run.scenario.is_null() {
            details { summary { "Scenario" } pre { code { (scenario) } } }
        }
    }
}

fn scripts(stored: &StoredRun) -> Markup {
    let Some(library) = LIBRARY else {
        let script =
            format!("\"use strict\";(() => {{\n{}\ninitTheme(() => {{}});\n}})();", SCRIPTS[0]);
        return html! { script { (PreEscaped(script)) } };
    };
    let charts = format!("/*\n{}\n*/\n{}", library.license, library.script);
    let script = format!("\"use strict\";(() => {{\n{}\n}})();", SCRIPTS.join("\n"));
    html! {
        script type="application/json" id="data" { (PreEscaped(json(&data::chart_data(stored)))) }
        script { (PreEscaped(charts)) }
        script { (PreEscaped(script)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::LabelFigures;
    use crate::protocol::fixed;
    use crate::results::Open;

    #[test]
    fn what_is_offered_has_its_unit() {
        let open = Open { offered: 300.0, dropped: 2, ..Open::default() };
        let labels = vec![LabelFigures::default()];
        let mut cell = Cell { offered: Some(300.0), open: Some(open), labels, ..Cell::default() };
        let page = tiles(&cell).into_string();
        assert!(page.contains("<p>Offered requests per second</p>"), "{page}");
        assert!(page.contains("2 iterations dropped"), "{page}");
        cell.offered = None;
        let page = tiles(&cell).into_string();
        assert!(page.contains("<p>Offered iterations per second</p>"), "{page}");
    }

    #[test]
    fn a_cut_of_nothing_is_left_out() {
        let page = |seconds: usize, cut| {
            let rates: Vec<f64> = (0..seconds).map(|at| 1000.0 + (at * 7 % 5) as f64).collect();
            let fixed = Some(fixed::evaluate(&rates, cut));
            details((0, &Cell { fixed, ..Cell::default() })).into_string()
        };
        assert!(page(60, 5).contains("The first 5 s are cut off."), "{}", page(60, 5));
        for seconds in [20, 60] {
            let page = page(seconds, 0);
            assert!(!page.contains("cut off") && !page.contains(" 0 s"), "{page}");
        }
        assert!(page(60, 0).contains("MSER-5 would cut nothing."), "{}", page(60, 0));
    }
}
