//! What a run says in one word, and with which exit code.

use crate::threshold::Kept;
use crate::validity::Flaw;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Measured, and every threshold kept.
    #[default]
    Pass,
    /// Measured quickly: good to see that things work, never a headline number.
    Quick,
    /// Slower than the baseline.
    Regression,
    /// A threshold was broken.
    Fail,
    /// The server never became steady.
    Unstable,
    /// What was measured cannot be believed.
    Invalid,
}

impl Verdict {
    /// The exit code of a command that ends with it. 2 is left to errors of the configuration.
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

    /// The word, as it is printed.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Quick => "QUICK",
            Self::Regression => "REGRESSION",
            Self::Fail => "FAIL",
            Self::Unstable => "UNSTABLE",
            Self::Invalid => "INVALID",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// What is known of a case when it is judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grounds<'a> {
    /// What is wrong with the measurement.
    pub flaws: &'a [Flaw],
    /// Why the protocol found no steady state, if it did not.
    pub unstable: Option<&'a str>,
    /// Thresholds that were looked at.
    pub thresholds: &'a [Kept],
    /// Reduced rounds.
    pub quick: bool,
}

/// The verdict on a case, and the reasons.
///
/// INVALID comes first, for whatever else would be said rests on figures that cannot be believed;
/// but if all that is wrong are errors, and a threshold on errors was set and broken, the run did
/// what it was asked to do: it is a FAIL.
#[must_use]
pub fn judge(grounds: &Grounds<'_>) -> (Verdict, Vec<String>) {
    let broken: Vec<&Kept> = grounds.thresholds.iter().filter(|kept| !kept.kept).collect();
    let words = |kept: &&Kept| format!("{} is broken: {}", kept.threshold, kept.found);
    let of_server = grounds.flaws.iter().all(Flaw::is_the_servers);
    let failed = of_server && broken.iter().any(|kept| kept.about_errors);
    if !grounds.flaws.is_empty() {
        let mut reasons: Vec<String> = grounds.flaws.iter().map(ToString::to_string).collect();
        if failed {
            reasons.extend(broken.iter().map(words));
        }
        return (if failed { Verdict::Fail } else { Verdict::Invalid }, reasons);
    }
    if let Some(because) = grounds.unstable {
        return (Verdict::Unstable, vec![because.to_owned()]);
    }
    if !broken.is_empty() {
        return (Verdict::Fail, broken.iter().map(words).collect());
    }
    (if grounds.quick { Verdict::Quick } else { Verdict::Pass }, Vec::new())
}

/// The worst of several verdicts: that of a run with several cases.
#[must_use]
pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    verdicts.into_iter().max_by_key(|verdict| *verdict as u8).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(kept: bool, about_errors: bool) -> Kept {
        Kept {
            threshold: "p99<5ms".to_owned(),
            cell: String::new(),
            kept,
            found: "7.00 ms".to_owned(),
            about_errors,
        }
    }

    fn verdict(flaws: &[Flaw], unstable: Option<&str>, thresholds: &[Kept]) -> Verdict {
        judge(&Grounds { flaws, unstable, thresholds, quick: false }).0
    }

    #[test]
    fn the_worst_reason_decides() {
        let errors = [Flaw::Errors { errors: 5, requests: 10, first: "refused".to_owned() }];
        let steal = [Flaw::Steal { share: 0.2 }];
        let both = [errors[0].clone(), steal[0].clone()];
        assert_eq!(verdict(&[], None, &[kept(true, false)]), Verdict::Pass);
        assert_eq!(verdict(&[], None, &[kept(false, false)]), Verdict::Fail);
        assert_eq!(verdict(&[], Some("it drifts"), &[kept(false, false)]), Verdict::Unstable);
        assert_eq!(verdict(&steal, Some("it drifts"), &[]), Verdict::Invalid);
        assert_eq!(verdict(&errors, None, &[]), Verdict::Invalid);
        assert_eq!(verdict(&errors, None, &[kept(false, true)]), Verdict::Fail);
        assert_eq!(verdict(&errors, None, &[kept(false, false)]), Verdict::Invalid);
        assert_eq!(verdict(&both, None, &[kept(false, true)]), Verdict::Invalid);
    }

    #[test]
    fn exit_codes_are_those_promised() {
        use Verdict::{Fail, Invalid, Pass, Quick, Regression, Unstable};
        let codes = [Pass, Quick, Fail, Invalid, Unstable, Regression].map(Verdict::exit_code);
        assert_eq!(codes, [0, 0, 1, 3, 4, 5]);
        assert_eq!(worst([Pass, Unstable, Fail]), Unstable);
        assert_eq!(worst([]), Pass);
    }

    #[test]
    fn reasons_are_words() {
        let (_, reasons) =
            judge(&Grounds { thresholds: &[kept(false, false)], ..Grounds::default() });
        assert_eq!(reasons, ["p99<5ms is broken: 7.00 ms"]);
    }
}
