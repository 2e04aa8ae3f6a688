//! One long run whose beginning is cut off, as in published tests.
//!
//! The cut is a setting, for comparability. The result also has the cut of MSER-5 and the trend of
//! the throughput.

use crate::stats::{
    Interval, Spread, Truncation, WarmUpTrend, mann_kendall, mean_interval, mser5, spread,
    warm_up_trend,
};
use serde::{Deserialize, Serialize};

/// Windows of a run for its interval (non-overlapping batch means): long enough to be almost
/// independent.
const WINDOWS: usize = 10;
/// Windows at each end whose means are compared.
const END_WINDOWS: usize = 3;
/// Probability of a trend of the windows by chance, below which the throughput drifts if the change is
/// larger than [`MAX_DRIFT`].
const MAX_DRIFT_P: f64 = 0.001;
/// Largest relative change from the first windows to the last ones.
const MAX_DRIFT: f64 = 0.05;

/// Evaluation of a run of a fixed duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fixed {
    /// Seconds cut off at the beginning.
    pub cut: usize,
    /// Throughput in each of ten windows after the cut, in order.
    #[serde(rename = "stretches")]
    pub windows: Vec<f64>,
    /// Their mean, which is the throughput after the cut, and extremes.
    pub throughput: Option<Spread>,
    /// 95 % interval of the mean.
    pub interval: Option<Interval>,
    /// The cut of MSER-5; `None` for less than 50 seconds.
    pub mser: Option<Truncation>,
    /// Trend of the run, including the cut; `None` for less than twelve seconds.
    #[serde(rename = "course")]
    pub trend: Option<WarmUpTrend>,
    /// Remarks for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Why the throughput after the cut is not steady.
    #[serde(skip)]
    pub unsteady: Option<String>,
}

/// Evaluates `per_second`, the completed requests in each second of the run, of which the first
/// `cut` are warm-up.
#[must_use]
pub fn evaluate(per_second: &[f64], cut: usize) -> Fixed {
    let measured = per_second.get(cut..).unwrap_or_default();
    let windows = windows(measured);
    let mser = mser5(per_second);
    let trend = warm_up_trend(per_second);
    let mut remarks = Vec::new();
    if measured.is_empty() {
        remarks.push(match cut {
            0 => "the run has no complete second".to_owned(),
            cut => format!("the run is shorter than the cut of {cut} s"),
        });
    }
    let of_cut = |before: &str| match cut {
        0 => String::new(),
        cut => format!("{before} the cut of {cut} s"),
    };
    match mser {
        Some(found) if !found.settled => {
            remarks.push("the throughput reaches no steady state (MSER-5)".to_owned());
        }
        Some(found) if found.cut > cut => remarks.push(format!(
            "the warm-up lasts about {} s (MSER-5){}",
            found.cut,
            of_cut(", longer than")
        )),
        _ => {}
    }
    // A level that is reached within a segment is dated at the end of the segment, after the cut.
    let is_flat = warm_up_trend(measured) == Some(WarmUpTrend::Flat);
    let unsteady = drift(&windows).or(match trend {
        _ if is_flat => None,
        Some(WarmUpTrend::Slowdown { from }) if from > cut => {
            Some(format!("the throughput falls to a lower level at {from} s"))
        }
        Some(WarmUpTrend::NoSteadyState) => {
            Some("the throughput reaches no steady level".to_owned())
        }
        Some(WarmUpTrend::WarmUp { until }) if until > cut => {
            Some(format!("the throughput reaches its level at {until} s{}", of_cut(", after")))
        }
        _ => None,
    });
    Fixed {
        unsteady,
        cut,
        throughput: spread(&windows),
        interval: mean_interval(&windows, 0.95),
        windows,
        mser,
        trend,
        remarks,
    }
}

/// How the throughput drifts over all windows, if it does. Such a run may look like one level with a
/// large variance.
fn drift(windows: &[f64]) -> Option<String> {
    if windows.len() < WINDOWS || mann_kendall(windows)?.p >= MAX_DRIFT_P {
        return None;
    }
    let mean = |windows| spread(windows).map(|found| found.mean);
    let first = mean(&windows[..END_WINDOWS])?;
    let last = mean(&windows[windows.len() - END_WINDOWS..])?;
    let direction = if last > first { "rises" } else { "falls" };
    let is_large = (last - first).abs() > MAX_DRIFT * first.max(f64::MIN_POSITIVE);
    is_large.then(|| {
        format!("the throughput {direction} throughout: {first:.0}/s at first, {last:.0}/s at last")
    })
}

/// Means of equal windows; surplus seconds at the end are left out.
fn windows(measured: &[f64]) -> Vec<f64> {
    let length = (measured.len() / WINDOWS).max(1);
    measured
        .chunks_exact(length)
        .take(WINDOWS)
        .map(|window| window.iter().sum::<f64>() / length as f64)
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
    fn a_warm_up_longer_than_the_cut_has_a_remark() {
        let fine = evaluate(&run(20, 100), 30);
        let mean = fine.throughput.map(|spread| spread.mean).expect("measured");
        assert!((mean - 1000.0).abs() < 5.0, "{mean}");
        assert_eq!((fine.windows.len(), fine.remarks.len()), (10, 0), "{:?}", fine.remarks);

        let short = evaluate(&run(40, 100), 10);
        assert_eq!(short.cut, 10);
        assert!(short.remarks.iter().any(|remark| remark.contains("warm-up")), "{short:?}");
        assert!(matches!(short.trend, Some(WarmUpTrend::WarmUp { .. })));
        let reason = short.unsteady.expect("the level is reached after the cut");
        assert!(reason.contains("reaches its level at 40 s, after the cut of 10 s"), "{reason}");
        assert_eq!(fine.unsteady, None);

        let uncut = evaluate(&run(40, 100), 0);
        assert!(uncut.remarks.iter().any(|remark| remark.ends_with(" s (MSER-5)")), "{uncut:?}");
        let reason = uncut.unsteady.expect("it warms up");
        assert!(reason.ends_with("reaches its level at 40 s"), "{reason}");
    }

    #[test]
    fn a_drift_is_not_steady_in_either_direction_and_noise_is() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut course = |from: f64, to: f64| -> Vec<f64> {
            let at = |second: usize| from + (to - from) * second as f64 / 59.0;
            (0..60).map(|second| at(second) * (0.9 + 0.2 * random.f64())).collect()
        };
        for (from, to, direction) in
            [(708.0, 2194.0, "rises"), (2194.0, 708.0, "falls"), (1000.0, 1300.0, "rises")]
        {
            let reason = evaluate(&course(from, to), 0).unsteady.expect("a drift");
            assert!(reason.contains(direction), "{reason}");
        }
        for _ in 0..100 {
            assert_eq!(evaluate(&course(1000.0, 1000.0), 0).unsteady, None);
        }
    }

    #[test]
    fn a_run_shorter_than_its_cut_has_no_number() {
        let nothing = evaluate(&run(0, 5), 10);
        assert_eq!(nothing.throughput, None);
        assert!(nothing.remarks[0].contains("shorter than the cut"));
        assert_eq!(evaluate(&[], 0).remarks, ["the run has no complete second"]);
        assert_eq!(evaluate(&run(0, 3), 0).windows.len(), 3);
    }
}
