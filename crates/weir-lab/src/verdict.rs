//! The verdict of a run, and its exit code.

use crate::threshold::ThresholdResult;
use crate::validity::Violation;
use serde::{Deserialize, Serialize};

/// The verdict. The worst one of several is the largest.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "UPPERCASE")]
#[strum(serialize_all = "UPPERCASE")]
pub enum Verdict {
    /// Valid, and all thresholds met.
    #[default]
    Pass,
    /// A quick run: not for publication.
    Quick,
    /// Slower than the baseline.
    Regression,
    /// A threshold was not met.
    Fail,
    /// The server reached no steady state.
    Unstable,
    /// The measurement is invalid.
    Invalid,
}

impl Verdict {
    /// The exit code of a command with this verdict. 2 is reserved for configuration errors.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Pass | Self::Quick => 0,
            Self::Fail => 1,
            Self::Invalid => 3,
            Self::Unstable => 4,
            Self::Regression => 5,
        }
    }

    /// The printed name.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Input of a verdict.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerdictInput<'a> {
    /// Violated validity rules.
    pub violations: &'a [Violation],
    /// Why the protocol found no steady state.
    pub unstable: Option<&'a str>,
    /// The condition of `stop` that ended the run.
    pub stopped: Option<&'a str>,
    /// Results of the thresholds.
    pub thresholds: &'a [ThresholdResult],
    /// Reduced rounds.
    pub quick: bool,
}

/// The verdict on a case, and its reasons.
///
/// INVALID has priority, because no other verdict can rest on invalid figures. Exception: if errors
/// are the only violation, and a threshold on errors was not met, the verdict is FAIL. So is that of a
/// run that a condition of `stop` ended, unless generator or machine influenced the condition.
#[must_use]
pub fn judge(input: &VerdictInput<'_>) -> (Verdict, Vec<String>) {
    let missed: Vec<&ThresholdResult> =
        input.thresholds.iter().filter(|result| !result.met).collect();
    let words =
        |result: &&ThresholdResult| format!("{} is not met: {}", result.threshold, result.found);
    let of_server = input.violations.iter().all(Violation::is_server_error);
    let failed = of_server && missed.iter().any(|result| result.about_errors);
    if let Some(stopped) = input.stopped {
        let invalid = input.violations.iter().any(Violation::is_outside_server);
        let reasons = input.violations.iter().map(ToString::to_string);
        let reasons = std::iter::once(stopped.to_owned()).chain(reasons).collect();
        return (if invalid { Verdict::Invalid } else { Verdict::Fail }, reasons);
    }
    if !input.violations.is_empty() {
        let mut reasons: Vec<String> = input.violations.iter().map(ToString::to_string).collect();
        if failed {
            reasons.extend(missed.iter().map(words));
        }
        return (if failed { Verdict::Fail } else { Verdict::Invalid }, reasons);
    }
    if let Some(reason) = input.unstable {
        return (Verdict::Unstable, vec![reason.to_owned()]);
    }
    if !missed.is_empty() {
        return (Verdict::Fail, missed.iter().map(words).collect());
    }
    (if input.quick { Verdict::Quick } else { Verdict::Pass }, Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(met: bool, about_errors: bool) -> ThresholdResult {
        ThresholdResult {
            threshold: "p99<5ms".to_owned(),
            cell: String::new(),
            met,
            found: "7.00 ms".to_owned(),
            about_errors,
        }
    }

    fn verdict(
        violations: &[Violation],
        unstable: Option<&str>,
        thresholds: &[ThresholdResult],
    ) -> Verdict {
        judge(&VerdictInput { violations, unstable, thresholds, ..VerdictInput::default() }).0
    }

    #[test]
    fn the_worst_reason_decides() {
        let errors = [Violation::Errors { errors: 5, requests: 10, first: "refused".to_owned() }];
        let steal = [Violation::Steal { share: 0.2 }];
        let both = [errors[0].clone(), steal[0].clone()];
        assert_eq!(verdict(&[], None, &[result(true, false)]), Verdict::Pass);
        assert_eq!(verdict(&[], None, &[result(false, false)]), Verdict::Fail);
        assert_eq!(verdict(&[], Some("it drifts"), &[result(false, false)]), Verdict::Unstable);
        assert_eq!(verdict(&steal, Some("it drifts"), &[]), Verdict::Invalid);
        assert_eq!(verdict(&errors, None, &[]), Verdict::Invalid);
        assert_eq!(verdict(&errors, None, &[result(false, true)]), Verdict::Fail);
        assert_eq!(verdict(&errors, None, &[result(false, false)]), Verdict::Invalid);
        assert_eq!(verdict(&both, None, &[result(false, true)]), Verdict::Invalid);
    }

    #[test]
    fn a_stopped_run_fails_unless_the_generator_was_disturbed() {
        let stopped = |violations: &[Violation]| {
            let stopped = Some("error-rate>5% for 10s");
            judge(&VerdictInput { violations, stopped, ..VerdictInput::default() })
        };
        assert_eq!(stopped(&[]).0, Verdict::Fail);
        let dropped = [Violation::Dropped { iterations: 7 }];
        let (verdict, reasons) = stopped(&dropped);
        assert_eq!((verdict, reasons[0].as_str()), (Verdict::Fail, "error-rate>5% for 10s"));
        assert_eq!(reasons.len(), 2);
        assert_eq!(stopped(&[Violation::Steal { share: 0.2 }]).0, Verdict::Invalid);
    }

    #[test]
    fn exit_codes_are_those_promised() {
        use Verdict::{Fail, Invalid, Pass, Quick, Regression, Unstable};
        let codes = [Pass, Quick, Fail, Invalid, Unstable, Regression].map(Verdict::exit_code);
        assert_eq!(codes, [0, 0, 1, 3, 4, 5]);
        assert_eq!([Pass, Unstable, Fail].into_iter().max(), Some(Unstable));
    }

    #[test]
    fn reasons_are_words() {
        let (_, reasons) =
            judge(&VerdictInput { thresholds: &[result(false, false)], ..VerdictInput::default() });
        assert_eq!(reasons, ["p99<5ms is not met: 7.00 ms"]);
    }
}
