//! One long run whose beginning is cut off, as in published tests.
//!
//! The cut is a setting, for comparability. The result also has the cut of MSER-5 and the trend of
//! the throughput.

use crate::stats::{
    Interval, Spread, Truncation, WarmUpTrend, mean_interval, mser5, spread, warm_up_trend,
};
use serde::{Deserialize, Serialize};

/// Windows of a run for its interval (non-overlapping batch means): long enough to be almost
/// independent.
const WINDOWS: usize = 10;

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
        remarks.push(format!("the run is shorter than the cut of {cut} s"));
    }
    match mser {
        Some(found) if !found.settled => {
            remarks.push("the throughput reaches no steady state (MSER-5)".to_owned());
        }
        Some(found) if found.cut > cut => remarks.push(format!(
            "the warm-up lasts about {} s (MSER-5), longer than the cut of {cut} s",
            found.cut
        )),
        _ => {}
    }
    match trend {
        Some(WarmUpTrend::Slowdown { from }) => {
            remarks.push(format!("the throughput falls to a lower level at {from} s"));
        }
        Some(WarmUpTrend::NoSteadyState) => {
            remarks.push("the throughput reaches no steady level".to_owned());
        }
        Some(WarmUpTrend::WarmUp { until }) if until > cut => remarks.push(format!(
            "the throughput reaches its level at {until} s, after the cut of {cut} s"
        )),
        _ => {}
    }
    Fixed {
        cut,
        throughput: spread(&windows),
        interval: mean_interval(&windows, 0.95),
        windows,
        mser,
        trend,
        remarks,
    }
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
    }

    #[test]
    fn a_run_shorter_than_its_cut_has_no_number() {
        let nothing = evaluate(&run(0, 5), 10);
        assert_eq!(nothing.throughput, None);
        assert!(nothing.remarks[0].contains("shorter than the cut"));
        assert_eq!(evaluate(&run(0, 3), 0).windows.len(), 3);
    }
}
