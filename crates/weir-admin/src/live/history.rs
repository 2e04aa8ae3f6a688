//! History in memory, with a finer resolution for recent times. It is empty after a restart; a
//! monitoring system that reads `/metrics` keeps more.

use super::rates::{Sums, Totals};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use utoipa::ToSchema;
use weir_telemetry::stats::Sketch;

/// Seconds per point, and number of points: 15 minutes, 6 hours, a week.
const RINGS: [(u64, usize); 3] = [(1, 900), (10, 2160), (60, 10_080)];
/// Longest period in seconds.
pub(crate) const MAX_PERIOD_SECONDS: u64 = 7 * 24 * 3600;
/// Maximum number of returned points.
const MAX_POINTS: u64 = 900;

/// History in columns. Points without requests are included; the time before the start is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct History {
    /// Seconds per point.
    pub(crate) step_seconds: u64,
    /// End of each point in seconds since 1970, oldest first.
    pub(crate) at: Vec<u64>,
    /// Completed requests.
    pub(crate) requests: Vec<u64>,
    /// Responses with 4xx.
    pub(crate) client_errors: Vec<u64>,
    /// Responses with 5xx.
    pub(crate) server_errors: Vec<u64>,
    /// Most requests in flight.
    pub(crate) in_flight: Vec<u64>,
    /// Median duration in microseconds, within 1 %.
    pub(crate) p50_us: Vec<Option<u64>>,
    /// 90th percentile of the durations.
    pub(crate) p90_us: Vec<Option<u64>>,
    /// 99th percentile of the durations.
    pub(crate) p99_us: Vec<Option<u64>>,
}

#[derive(Clone, Debug, Default)]
struct Point {
    at: u64,
    requests: u64,
    client_errors: u64,
    server_errors: u64,
    in_flight: u64,
    /// Durations: an encoded sketch.
    sketch: Box<[u8]>,
}

/// Points that are returned as one.
#[derive(Default)]
struct MergedPoints {
    points: u64,
    sum: Point,
    sketch: Sketch,
}

#[derive(Debug, Default)]
struct Ring {
    step: u64,
    capacity: usize,
    points: VecDeque<Point>,
    /// Totals at the end of the last point.
    started: Option<(u64, Sums)>,
    in_flight: u64,
}

/// The history.
#[derive(Debug)]
pub(super) struct HistoryRings(Vec<Ring>);

impl Default for HistoryRings {
    fn default() -> Self {
        let ring = |(step, capacity)| Ring { step, capacity, ..Ring::default() };
        Self(RINGS.into_iter().map(ring).collect())
    }
}

impl HistoryRings {
    /// Adds the current values, at a second since 1970.
    pub(super) fn add(&mut self, now: u64, totals: &Totals, in_flight: u64) {
        for ring in &mut self.0 {
            ring.add(now, &totals.all, in_flight);
        }
    }

    /// The history of a period, in the finest resolution that reaches back far enough.
    pub(super) fn between(&self, from: u64, to: u64) -> History {
        let reaches = |ring: &&Ring| {
            let points = to.saturating_sub(from) / ring.step;
            let oldest = ring.points.front().map_or(u64::MAX, |point| point.at);
            // A ring that has never been full contains everything.
            points <= MAX_POINTS * 2
                && (oldest <= from + ring.step || ring.points.len() < ring.capacity)
        };
        let Some(ring) = self.0.iter().find(reaches).or(self.0.last()) else {
            return History::default();
        };
        let points = ring.points.iter().filter(|point| (from..=to).contains(&point.at));
        let count = points.clone().count() as u64;
        let together = count.div_ceil(MAX_POINTS).max(1);
        let mut history = History { step_seconds: ring.step * together, ..History::default() };
        let mut sum = MergedPoints::default();
        for point in points {
            sum.add(point);
            if sum.points == together {
                history.push(&std::mem::take(&mut sum));
            }
        }
        if sum.points > 0 {
            history.push(&sum);
        }
        history
    }
}

impl Ring {
    fn add(&mut self, now: u64, sums: &Sums, in_flight: u64) {
        self.in_flight = self.in_flight.max(in_flight);
        let Some((started, before)) = &self.started else {
            self.started = Some((now, sums.clone()));
            return;
        };
        // A clock that was set back starts a new point.
        if now >= *started && now - started < self.step {
            return;
        }
        let since = sums.since(before);
        if self.points.len() >= self.capacity {
            self.points.pop_front();
        }
        self.points.push_back(Point {
            at: now,
            requests: since.requests,
            client_errors: since.client_errors,
            server_errors: since.server_errors,
            in_flight: self.in_flight,
            sketch: since.sketch.encode(),
        });
        self.started = Some((now, sums.clone()));
        self.in_flight = 0;
    }
}

impl MergedPoints {
    fn add(&mut self, next: &Point) {
        self.points += 1;
        self.sum.at = next.at;
        self.sum.requests += next.requests;
        self.sum.client_errors += next.client_errors;
        self.sum.server_errors += next.server_errors;
        self.sum.in_flight = self.sum.in_flight.max(next.in_flight);
        self.sketch.add_encoded(&next.sketch);
    }
}

impl History {
    fn push(&mut self, together: &MergedPoints) {
        let point = &together.sum;
        self.at.push(point.at);
        self.requests.push(point.requests);
        self.client_errors.push(point.client_errors);
        self.server_errors.push(point.server_errors);
        self.in_flight.push(point.in_flight);
        let [p50, p90, p99] = [50, 90, 99].map(|percent| together.sketch.percentile(percent));
        self.p50_us.push(p50);
        self.p90_us.push(p90);
        self.p99_us.push(p99);
    }
}
