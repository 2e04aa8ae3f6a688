//! Bars of a run: their results, and a chart of the ratios.

use super::charts;
use super::html::{Column, table};
use crate::results::{BarOutcome, BarResult, Summary};
use maud::{Markup, Render, html};

/// The section of bars; `None` without bars.
pub(super) fn bars(summary: &Summary) -> Option<Markup> {
    let bars = &summary.bars;
    let any = |of: fn(&BarResult) -> bool| bars.iter().any(of);
    let columns: [(bool, Column<'_, BarResult>); 8] = [
        (true, ("Case", &|bar| bar.title.render())),
        (any(|bar| !bar.load.is_empty()), ("Load", &|bar| bar.load.render())),
        (true, ("Bar", &|bar| html! { code { (bar.bar) } })),
        (true, ("Result", &outcome)),
        (true, ("#Measured", &|bar| bar.subject.render())),
        (any(|bar| !bar.reference.is_empty()), ("#Reference", &|bar| bar.reference.render())),
        (true, ("#Median (95 % interval)", &|bar| bar.found().render())),
        (any(|bar| !bar.notes.is_empty()), ("Notes", &|bar| bar.notes.join("; ").render())),
    ];
    let shown = columns.into_iter().filter_map(|(shown, column)| shown.then_some(column));
    (!bars.is_empty()).then(|| html! {
        @if let Some(chart) = charts::inline(bars) {
            div.scroll.wide tabindex="0" { (chart) }
            p.caption { "Bar: median of the rounds. Line: its 95 % interval. Upright mark: the bound." }
        }
        (table(bars, &shown.collect::<Vec<_>>()))
    })
}

fn outcome(bar: &BarResult) -> Markup {
    let class = match bar.outcome {
        BarOutcome::Met => "badge pass",
        BarOutcome::Missed => "badge fail",
        BarOutcome::Inconclusive => "badge unstable",
    };
    html! { span class=(class) { (bar.outcome.to_string()) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_listed_and_ratios_drawn() {
        let bar = |outcome, title: &str| BarResult {
            title: title.to_owned(),
            bar: "cpu of a <= 0.8 x b".to_owned(),
            outcome,
            factor: Some(0.8),
            value: Some(0.7),
            ..BarResult::default()
        };
        let bars = vec![bar(BarOutcome::Met, "one"), bar(BarOutcome::Missed, "two")];
        let summary = Summary { bars, ..Summary::default() };
        let html = bars_of(&summary);
        assert!(html.contains("badge fail") && html.contains("cpu of a &lt;= 0.8 x b"), "{html}");
        assert!(html.contains("ratio-missed") && !html.contains("Notes"), "{html}");
        assert!(super::bars(&Summary::default()).is_none());
    }

    fn bars_of(summary: &Summary) -> String {
        bars(summary).expect("bars").into_string()
    }
}
