//! One long run whose beginning is cut off, as the published tests measured.
//!
//! The cut is the one that was asked for, for the sake of comparability; next to it stands what the
//! run itself says: where MSER-5 would cut, and how throughput went on from second to second.

use crate::stats::{Course, Interval, Spread, Truncation, course, mean_interval, mser5, spread};
use serde::{Deserialize, Serialize};

/// Stretches a run is divided into to have an interval (non-overlapping batch means): long enough
/// each to hardly depend on the one before.
const STRETCHES: usize = 10;

/// What a run of a fixed duration amounts to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// Seconds cut off at the beginning.
    pub cut: usize,
    /// Throughput in each of ten stretches of what is left, in order.
    pub stretches: Vec<f64>,
    /// Their mean, which is the run's throughput after the cut, and extremes.
    pub throughput: Option<Spread>,
    /// 95 % interval of the mean from the stretches.
    pub interval: Option<Interval>,
    /// Where MSER-5 would cut; `None` for less than 50 seconds.
    pub mser: Option<Truncation>,
    /// How it went on from second to second, the part cut off included; `None` for less than
    /// twelve seconds.
    pub course: Option<Course>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Evaluates `per_second`, the requests answered in each second of the run, of which the first
/// `cut` are warm-up.
#[must_use]
pub fn evaluate(per_second: &[f64], cut: usize) -> Fixed {
    let kept = per_second.get(cut..).unwrap_or_default();
    let stretches = stretches(kept);
    let mser = mser5(per_second);
    let course = course(per_second);
    let mut remarks = Vec::new();
    if kept.is_empty() {
        remarks.push(format!("nothing is left after the first {cut} s"));
    }
    match mser {
        Some(found) if !found.settled => {
            remarks.push("throughput does not settle within the run (MSER-5)".to_owned());
        }
        Some(found) if found.cut > cut => remarks.push(format!(
            "the warm-up seems to last {} s (MSER-5), more than the {cut} s cut off",
            found.cut
        )),
        _ => {}
    }
    match course {
        Some(Course::Slowdown { from }) => {
            remarks.push(format!("throughput falls to a lower level at {from} s"));
        }
        Some(Course::NoSteadyState) => {
            remarks.push("throughput reaches no steady level".to_owned());
        }
        Some(Course::WarmUp { until }) if until > cut => remarks
            .push(format!("throughput reaches its level at {until} s, after the {cut} s cut off")),
        _ => {}
    }
    Fixed {
        cut,
        throughput: spread(&stretches),
        interval: mean_interval(&stretches, 0.95),
        stretches,
        mser,
        course,
        remarks,
    }
}

/// Means of equal stretches; the seconds that are left over belong to none, the last few of a run.
fn stretches(kept: &[f64]) -> Vec<f64> {
    let length = (kept.len() / STRETCHES).max(1);
    kept.chunks_exact(length)
        .take(STRETCHES)
        .map(|stretch| stretch.iter().sum::<f64>() / length as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(warm_up: usize, level: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(3);
        (0..warm_up + level)
            .map(|at| if at < warm_up { 600.0 } else { 1000.0 } * (0.99 + 0.02 * random.f64()))
            .collect()
    }

    #[test]
    fn the_cut_asked_for_is_kept_and_a_longer_warm_up_said() {
        let fine = evaluate(&run(20, 100), 30);
        let mean = fine.throughput.map(|spread| spread.mean).expect("kept");
        assert!((mean - 1000.0).abs() < 5.0, "{mean}");
        assert_eq!((fine.stretches.len(), fine.remarks.len()), (10, 0), "{:?}", fine.remarks);

        let short = evaluate(&run(40, 100), 10);
        assert_eq!(short.cut, 10);
        assert!(short.remarks.iter().any(|remark| remark.contains("warm-up")), "{short:?}");
        assert!(matches!(short.course, Some(Course::WarmUp { .. })));
    }

    #[test]
    fn a_run_shorter_than_its_cut_has_no_number() {
        let nothing = evaluate(&run(0, 5), 10);
        assert_eq!(nothing.throughput, None);
        assert!(nothing.remarks[0].contains("nothing is left"));
        assert_eq!(evaluate(&run(0, 3), 0).stretches.len(), 3);
    }
}
