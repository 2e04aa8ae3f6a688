//! The result in one sentence.

use super::html::{number, time};
use crate::results::{Cell, Summary};
use crate::stop::STOPPED;
use crate::verdict::Verdict;

/// What was found, for readers who read nothing else.
pub(super) fn sentence(summary: &Summary) -> String {
    let reason = summary.reasons.first().map_or("see below", String::as_str);
    match summary.verdict {
        Verdict::Pass => format!("Valid, and every threshold was met. {}", figures(summary)),
        Verdict::Quick => format!(
            "Everything works, but the run was too short for figures that could be published. {}",
            figures(summary)
        ),
        // Of several cases, the name of the one is before it.
        Verdict::Fail => match reason.split_once(STOPPED) {
            Some((case, condition)) => format!("The run was stopped: {case}{condition}."),
            None => format!("Valid, but {reason}."),
        },
        Verdict::Invalid => format!("These figures must not be used: {reason}."),
        Verdict::Unstable => {
            format!("The server reached no steady state, so there is no figure: {reason}.")
        }
        Verdict::Regression => format!("Slower than the baseline: {reason}."),
    }
}

/// Throughput, response time and errors.
fn figures(summary: &Summary) -> String {
    let measured: Vec<(&Cell, f64)> = summary
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.throughput.as_ref()?.mean)))
        .collect();
    let by_rate = |a: &&(&Cell, f64), b: &&(&Cell, f64)| a.1.total_cmp(&b.1);
    let (Some(least), Some(most)) =
        (measured.iter().min_by(by_rate), measured.iter().max_by(by_rate))
    else {
        return String::new();
    };
    if measured.len() > 1 {
        return format!(
            "{} to {} requests a second in {} cases: least with {}, most with {}.",
            number(least.1),
            number(most.1),
            measured.len(),
            least.0.name,
            most.0.name
        );
    }
    let Some(total) = most.0.total() else { return String::new() };
    let errors = match total.failed() {
        0 => "none failed".to_owned(),
        _ => format!("{} % failed", number(100.0 * total.error_share())),
    };
    let p99 = total.response_time(|times| times.p99).map(time);
    let within = p99.map(|p99| format!(" 99 % of the responses within {p99};")).unwrap_or_default();
    format!("{} requests a second;{within} {errors}.", number(most.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{LabelFigures, Times};
    use crate::results::{BarOutcome, BarResult};

    fn cell(name: &str, rate: f64) -> Cell {
        let response = Times { p99: 3.25, ..Times::default() };
        Cell {
            name: name.to_owned(),
            throughput: crate::stats::spread(&[rate]),
            labels: vec![LabelFigures { response, samples: 100, ..LabelFigures::default() }],
            ..Cell::default()
        }
    }

    #[test]
    fn the_sentence_has_the_verdict_and_the_figures() {
        let mut summary = Summary { cells: vec![cell("", 21_000.0)], ..Summary::default() };
        summary.verdict = Verdict::Pass;
        assert_eq!(
            sentence(&summary),
            "Valid, and every threshold was met. 21\u{202f}000 requests a second; 99 % of the \
             responses within 3.25 ms; none failed."
        );
        summary.cells = vec![cell("a=1", 5.0), cell("a=2", 7.0)];
        assert!(
            sentence(&summary).ends_with(
                "5.00 to 7.00 requests a second in 2 cases: least with a=1, most with a=2."
            ),
            "{}",
            sentence(&summary)
        );
        summary.verdict = Verdict::Invalid;
        summary.reasons = vec!["the generator was saturated".to_owned()];
        assert_eq!(
            sentence(&summary),
            "These figures must not be used: the generator was saturated."
        );
        summary.verdict = Verdict::Fail;
        summary.reasons = vec!["p99<5ms is not met: 7.00 ms".to_owned()];
        assert_eq!(sentence(&summary), "Valid, but p99<5ms is not met: 7.00 ms.");
        summary.reasons = vec!["rate of a >= b is missed: 0.8".to_owned()];
        let bar = BarResult { outcome: BarOutcome::Missed, ..BarResult::default() };
        summary.bars = vec![bar];
        assert_eq!(sentence(&summary), "Valid, but rate of a >= b is missed: 0.8.");
    }

    #[test]
    fn a_run_that_a_condition_ended_has_the_condition_and_no_threshold() {
        let stopped = "the run was stopped: error-rate>5% for 3s (in the last second: 10.000 %)";
        let mut summary = Summary { verdict: Verdict::Fail, ..Summary::default() };
        summary.reasons = vec![stopped.to_owned()];
        assert_eq!(
            sentence(&summary),
            "The run was stopped: error-rate>5% for 3s (in the last second: 10.000 %)."
        );
        summary.reasons = vec![format!("users=2: {stopped}"), format!("users=3: {stopped}")];
        assert!(
            sentence(&summary).starts_with("The run was stopped: users=2: error-rate>5% for 3s ("),
            "{}",
            sentence(&summary)
        );
    }
}
