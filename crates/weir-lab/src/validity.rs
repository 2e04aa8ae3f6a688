//! Validity rules of measurements.
//!
//! A figure is INVALID if the generator, the machine or inconsistent counts influenced it. Each
//! rule is a variant of [`Violation`] with its measured values.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Largest share of requests with unexpected errors in a run. A round of the protocol must have
/// none.
pub const MAX_ERROR_SHARE: f64 = 0.001;
/// CPU from which on a thread of the generator is a bottleneck, as a share of a core.
const MAX_GENERATOR_CPU: f64 = 0.90;
/// CPU shares of shorter runs are meaningless: CPU clocks tick every 10 ms.
const MIN_CPU_WINDOW: Duration = Duration::from_millis(100);
/// CPU from which on a thread of the server is saturated, as a share of a core. A closed model may
/// then saturate the generator, too.
const SATURATED_CPU: f64 = 0.95;
/// Largest share of stalled time of the generator.
const MAX_STALLED_SHARE: f64 = 0.05;
/// Largest share of the mean response time by which waits of generator or server for a core may delay
/// responses.
const MAX_DELAYED_SHARE: f64 = 0.10;
/// Cores used by other processes of the machine, besides generator and server, from which on these
/// influence a measurement.
pub const MIN_OTHER_CORES: f64 = 0.3;
/// Largest step of the wall clock.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(10);
/// Largest share of time taken by the hypervisor.
const MAX_STEAL_SHARE: f64 = 0.05;
/// Largest send lag.
const MAX_SEND_LAG: Duration = Duration::from_millis(5);
/// Largest relative difference of offered and achieved rate, and of requests ÷ throughput and
/// window.
const MAX_DEVIATION: f64 = 0.01;
/// Requests that the edges of a window make more or less than its rate.
const MAX_REQUESTS_AT_EDGES: f64 = 1.5;

/// Evidence about a round or run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Sent requests in the window.
    pub requests: u64,
    /// Failed requests; expected statuses are not failed.
    pub errors: u64,
    /// Requests without a response when their time after the end of the load was over.
    pub interrupted: u64,
    /// The most frequent kind of failure.
    pub first_error: Option<String>,
    /// Length of the measured window.
    pub window: Duration,
    /// Reported requests per second.
    pub throughput: f64,
    /// Offered requests per second of an open model.
    pub offered: Option<f64>,
    /// Dropped iterations of an open model.
    pub dropped: u64,
    /// 99th percentile of the send lag; of fewer than 100 requests the largest lag but one.
    pub send_lag: Duration,
    /// Pacing quantum of an open model: lag up to the quantum is allowed.
    pub quantum: Duration,
    /// 99th percentile of the response time.
    pub p99: Duration,
    /// CPU of the busiest thread of the generator, 1 for one core.
    pub generator: f64,
    /// Stalled time of the generator: stopped, or without a core.
    pub stalled: Duration,
    /// Time that the generator could have run and waited for a core.
    pub waited: Duration,
    /// How often the generator got a core.
    pub waits: u64,
    /// Mean response time; zero if another generator does not report it.
    pub mean: Duration,
    /// Cores used by other processes than generator and server; `None` if unknown.
    pub others: Option<f64>,
    /// Largest step of the wall clock.
    pub clock_step: Duration,
    /// CPU of the busiest thread of the server, if observed.
    pub server: Option<f64>,
    /// Threads of the server that waited for a core because of other processes, on average.
    pub server_waiting: f64,
    /// Share of the host's time taken by its hypervisor.
    pub steal: f64,
    /// Queues were not empty before the round.
    pub undrained: bool,
    /// Sent requests and requests counted by the server, if they differ.
    pub miscounted: Option<(u64, u64)>,
}

/// A violated validity rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Violation {
    /// Requests were sent late.
    #[error(
        "requests were sent late: p99 of the send lag is {lag_ms:.2} ms, the limit is {allowed_ms:.2} ms"
    )]
    SendLag {
        /// 99th percentile of the lag, in milliseconds.
        lag_ms: f64,
        /// Limit in milliseconds.
        allowed_ms: f64,
    },
    /// The generator was the bottleneck.
    #[error(
        "the generator was at its limit: its busiest thread used {:.0} % of a core",
        100.0 * .cpu
    )]
    Generator {
        /// Share of a core.
        cpu: f64,
    },
    /// The generator was stalled: stopped, or without a core.
    #[serde(rename = "held-up")]
    #[error(
        "the generator was stalled for {seconds:.2} of {of:.2} s: it was stopped, or had no core"
    )]
    Stalled {
        /// Stalled seconds.
        seconds: f64,
        /// Seconds of the window.
        of: f64,
    },
    /// Other processes took the cores of the generator.
    #[error(
        "other processes took the cores: the generator waited for one for {seconds:.2} of {of:.2} s, \
        which delays responses by about {delay_ms:.2} ms"
    )]
    Starved {
        /// Seconds that the generator waited.
        seconds: f64,
        /// Seconds of the window.
        of: f64,
        /// Mean delay of a response in milliseconds.
        delay_ms: f64,
    },
    /// Other processes took the cores of the server.
    #[error(
        "other processes took the cores: {threads:.2} threads of the server waited for one on average, which delays \
        responses by about {delay_ms:.2} ms"
    )]
    StarvedServer {
        /// Waiting threads.
        threads: f64,
        /// Mean delay of a response in milliseconds.
        delay_ms: f64,
    },
    /// The wall clock was set, or the machine was suspended.
    #[error("the clock of the machine was set by {seconds:.3} s, or the machine was suspended")]
    ClockStep {
        /// Seconds of the step.
        seconds: f64,
    },
    /// The hypervisor took time of the host.
    #[error("the hypervisor took {:.1} % of the machine's time", 100.0 * .share)]
    Steal {
        /// Share of the time.
        share: f64,
    },
    /// An open model dropped iterations.
    #[error(
        "{iterations} iterations were dropped, because too many were in progress and waiting: raise \
         `max_in_flight` (of hit: --connections), or lower the rate"
    )]
    Dropped {
        /// Dropped iterations.
        iterations: u64,
    },
    /// An open model did not reach the offered rate.
    #[error("{offered:.1} requests/s were offered, {achieved:.1} achieved")]
    Offered {
        /// Offered requests per second.
        offered: f64,
        /// Achieved requests per second.
        achieved: f64,
    },
    /// Requests ÷ throughput differs from the measured time.
    #[error("requests ÷ throughput is {implied:.2} s, but {seconds:.2} s were measured")]
    Window {
        /// Requests ÷ throughput, in seconds.
        implied: f64,
        /// Seconds measured.
        seconds: f64,
    },
    /// Too many requests failed.
    #[error("{errors} of {requests} requests failed, most of them: {first}")]
    Errors {
        /// Failed requests.
        errors: u64,
        /// All requests.
        requests: u64,
        /// The most frequent kind.
        first: String,
    },
    /// Too many requests had no response when their time after the end of the load was over.
    #[error(
        "{interrupted} of {requests} requests were interrupted: they had no response within `graceful_stop` \
        after the end of the load"
    )]
    Interrupted {
        /// Interrupted requests.
        interrupted: u64,
        /// All requests.
        requests: u64,
    },
    /// No request got a response.
    #[serde(rename = "nothing")]
    #[error("no request got a response")]
    NoResponse,
    /// A threshold on a percentile rests on fewer samples than the percentile needs.
    #[error("{threshold} needs {needed} samples, there are {samples}")]
    TooFewSamples {
        /// The threshold.
        threshold: String,
        /// Samples.
        samples: u64,
        /// Samples of which one is expected above the percentile.
        needed: u64,
    },
    /// Queues were not empty before the round.
    #[error("queues were not empty before the round")]
    Undrained,
    /// Sent requests and requests counted by the server differ.
    #[error("{sent} requests were sent, the server counted {counted}")]
    Miscounted {
        /// Requests sent by the generator.
        sent: u64,
        /// Requests counted by the server.
        counted: u64,
    },
    /// One of several generators influenced the figures.
    #[error("agent {agent}: {reason}")]
    Agent {
        /// Its address.
        agent: String,
        /// The reason.
        reason: String,
    },
}

impl Violation {
    /// Whether the generator itself is concerned: with several generators, each is judged alone.
    #[must_use]
    pub fn is_of_generator(&self) -> bool {
        matches!(
            self,
            Self::SendLag { .. }
                | Self::Generator { .. }
                | Self::Stalled { .. }
                | Self::Starved { .. }
                | Self::ClockStep { .. }
        )
    }

    /// Whether only responses of the server are concerned: error counts are valid even if latencies
    /// are not.
    #[must_use]
    pub fn is_server_error(&self) -> bool {
        matches!(self, Self::Errors { .. } | Self::Interrupted { .. } | Self::NoResponse)
    }

    /// Whether the generator, an agent or the machine influenced the figures, not the server.
    #[must_use]
    pub fn is_outside_server(&self) -> bool {
        let is_of_machine = matches!(self, Self::Steal { .. } | Self::StarvedServer { .. });
        self.is_of_generator() || is_of_machine || matches!(self, Self::Agent { .. })
    }
}

/// All violated rules of a round or run with at most `allowed_errors` (a share, such as
/// [`MAX_ERROR_SHARE`]) of failed requests.
#[must_use]
pub fn violations(evidence: &Evidence, allowed_errors: f64) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut check = |wrong: bool, violation: Violation| {
        if wrong {
            found.push(violation);
        }
    };
    let Evidence { requests, errors, window, throughput, .. } = *evidence;
    let share = errors as f64 / requests.max(1) as f64;
    let first = evidence.first_error.clone().unwrap_or_else(|| "unknown".to_owned());
    check(requests == 0, Violation::NoResponse);
    check(share > allowed_errors, Violation::Errors { errors, requests, first });
    // They are no samples, but a server that never answers them fails as well.
    let interrupted = evidence.interrupted;
    let all = requests + interrupted;
    let share = (errors + interrupted) as f64 / all.max(1) as f64;
    let wrong = interrupted > 0 && share > allowed_errors;
    check(wrong, Violation::Interrupted { interrupted, requests: all });
    check(evidence.undrained, Violation::Undrained);
    let (sent, counted) = evidence.miscounted.unwrap_or_default();
    check(sent != counted, Violation::Miscounted { sent, counted });
    check(evidence.dropped > 0, Violation::Dropped { iterations: evidence.dropped });
    if let Some(offered) = evidence.offered {
        // The window ends with the last response, which is later than the last request by its
        // response time.
        let rate = |window: Duration| requests as f64 / window.as_secs_f64().max(f64::MIN_POSITIVE);
        let achieved = rate(window);
        let at_most = rate(window.saturating_sub(evidence.p99));
        let reached = achieved <= offered && offered <= at_most;
        let deviates = |rate: f64| {
            // One request more or less is no other rate: the window begins and ends with one.
            let requests = (rate - offered).abs() * window.as_secs_f64();
            deviates(rate, offered) && requests > MAX_REQUESTS_AT_EDGES
        };
        let wrong = !reached && deviates(achieved) && deviates(at_most);
        check(wrong, Violation::Offered { offered, achieved });
    }
    if throughput > 0.0 {
        let (implied, seconds) = (requests as f64 / throughput, window.as_secs_f64());
        check(deviates(implied, seconds), Violation::Window { implied, seconds });
    }
    let allowed = evidence.quantum.max(MAX_SEND_LAG.min(evidence.p99 / 10));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    check(
        evidence.send_lag > allowed,
        Violation::SendLag {
            lag_ms: milliseconds(evidence.send_lag),
            allowed_ms: milliseconds(allowed),
        },
    );
    if evidence.window >= MIN_CPU_WINDOW {
        check_machine(evidence, &mut check);
    }
    found
}

/// The rules of CPU time, cores and clock.
fn check_machine(evidence: &Evidence, check: &mut impl FnMut(bool, Violation)) {
    // In a closed model the generator waits for the server: with a saturated server the generator
    // is no bottleneck.
    let excused = evidence.offered.is_none()
        && evidence.server.is_some_and(|busiest| busiest >= SATURATED_CPU);
    let at_its_limit = evidence.generator > MAX_GENERATOR_CPU && !excused;
    check(at_its_limit, Violation::Generator { cpu: evidence.generator });
    // A stalled generator is invalid even with a saturated server.
    let (seconds, of) = (evidence.stalled.as_secs_f64(), evidence.window.as_secs_f64());
    check(seconds > MAX_STALLED_SHARE * of, Violation::Stalled { seconds, of });
    // A generator that waits for its own server shares cores with the server in every round alike.
    let seconds = evidence.waited.as_secs_f64();
    let disturbed = evidence.others.is_none_or(|cores| cores >= MIN_OTHER_CORES);
    let delay = mean_delay(evidence);
    let starved = disturbed && delay > MAX_DELAYED_SHARE * evidence.mean.as_secs_f64();
    check(starved, Violation::Starved { seconds, of, delay_ms: delay * 1e3 });
    // As many requests are delayed at a time as threads wait (Little's law). Threads that no request waits for
    // count as well, so that the delay is an upper bound.
    let threads = evidence.server_waiting;
    let disturbed = evidence.others.is_some_and(|cores| cores >= MIN_OTHER_CORES);
    let throughput = evidence.throughput;
    let delay = threads / throughput.max(f64::MIN_POSITIVE);
    // A delay is no share of an unknown response time.
    let mean = evidence.mean.as_secs_f64();
    let is_long = mean > 0.0 && delay > MAX_DELAYED_SHARE * mean;
    let starved = disturbed && throughput > 0.0 && is_long;
    check(starved, Violation::StarvedServer { threads, delay_ms: delay * 1e3 });
    let seconds = evidence.clock_step.as_secs_f64();
    check(evidence.clock_step > MAX_CLOCK_STEP, Violation::ClockStep { seconds });
    check(evidence.steal > MAX_STEAL_SHARE, Violation::Steal { share: evidence.steal });
}

/// Seconds by which a response is seen later on average, because the generator waited for a core. A response that
/// wakes the generator is seen after its wait, and there are no more of these than waits; one that arrives during a
/// wait, with the probability of the waited share, is seen after half of it.
fn mean_delay(evidence: &Evidence) -> f64 {
    let (waited, window) = (evidence.waited.as_secs_f64(), evidence.window.as_secs_f64());
    let (waits, requests) = (evidence.waits.max(1) as f64, evidence.requests.max(1) as f64);
    let mean = waited / waits;
    (waits / requests).min(1.0) * mean + waited / window * mean / 2.0
}

/// Whether `found` differs from `expected` by more than 1 %.
fn deviates(found: f64, expected: f64) -> bool {
    (found - expected).abs() > MAX_DEVIATION * expected.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Evidence {
        Evidence {
            requests: 10_000,
            window: Duration::from_secs(10),
            throughput: 1000.0,
            offered: Some(1000.0),
            send_lag: Duration::from_micros(900),
            quantum: Duration::from_millis(1),
            p99: Duration::from_millis(4),
            generator: 0.4,
            ..Evidence::default()
        }
    }

    fn kinds(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
        let mut evidence = fine();
        change(&mut evidence);
        let kind = |violation: &Violation| {
            serde_json::to_value(violation).expect("plain")["kind"]
                .as_str()
                .unwrap_or("")
                .to_owned()
        };
        violations(&evidence, MAX_ERROR_SHARE).iter().map(kind).collect()
    }

    #[test]
    fn a_good_run_has_no_violation() {
        assert_eq!(violations(&fine(), MAX_ERROR_SHARE), Vec::new());
        assert!(kinds(|e| e.errors = 10).is_empty(), "0.1 % is still allowed");
    }

    #[test]
    fn a_round_may_be_judged_more_strictly() {
        let one = Evidence { errors: 1, ..fine() };
        assert_eq!(violations(&one, 0.0).len(), 1);
        assert!(violations(&one, MAX_ERROR_SHARE).is_empty());
    }

    #[test]
    fn every_rule_finds_its_flaw() {
        assert_eq!(kinds(|e| e.send_lag = Duration::from_millis(2)), ["send-lag"]);
        assert_eq!(kinds(|e| e.generator = 0.91), ["generator"]);
        assert_eq!(kinds(|e| e.steal = 0.06), ["steal"]);
        assert_eq!(kinds(|e| e.stalled = Duration::from_millis(501)), ["held-up"]);
        assert!(kinds(|e| e.stalled = Duration::from_millis(499)).is_empty());
        assert_eq!(kinds(|e| e.clock_step = Duration::from_millis(11)), ["clock-step"]);
        assert!(kinds(|e| e.clock_step = Duration::from_millis(9)).is_empty());
        assert_eq!(kinds(|e| e.dropped = 1), ["dropped"]);
        assert_eq!(kinds(|e| e.offered = Some(1020.0)), ["offered"]);
        assert_eq!(kinds(|e| e.throughput = 900.0), ["window"]);
        assert_eq!(kinds(|e| e.undrained = true), ["undrained"]);
        assert_eq!(kinds(|e| e.miscounted = Some((5, 4))), ["miscounted"]);
        assert_eq!(kinds(|e| e.errors = 20), ["errors"]);
        assert_eq!(kinds(|e| e.interrupted = 11), ["interrupted"]);
        assert_eq!(kinds(|e| (e.errors, e.interrupted) = (9, 2)), ["interrupted"]);
        assert!(kinds(|e| e.interrupted = 10).is_empty(), "less than 0.1 %");
        assert!(kinds(|e| e.requests = 0).contains(&"nothing".to_owned()));
    }

    #[test]
    fn a_generator_that_waits_for_its_own_server_is_not_starved() {
        let waits = |e: &mut Evidence, millis, others| {
            // In 10 s a thousand times, responses take 2 ms.
            (e.waited, e.waits, e.others) = (Duration::from_millis(millis), 1000, others);
            e.mean = Duration::from_millis(2);
        };
        let waiting = |others| kinds(|e| waits(e, 1500, others));
        assert_eq!(waiting(Some(2.0)), ["starved"]);
        assert_eq!(waiting(None), ["starved"], "nothing else is known");
        assert!(waiting(Some(0.1)).is_empty());
        assert!(kinds(|e| waits(e, 1200, None)).is_empty(), "0.192 ms of 2 ms");
    }

    #[test]
    fn a_response_that_wakes_the_generator_waits_as_long() {
        // Four users whose responses take 1.8 ms: each of 2,000 a second wakes the generator.
        let waits = |millis| {
            kinds(|e| {
                (e.requests, e.throughput, e.offered) = (20_000, 2000.0, None);
                (e.waited, e.waits) = (Duration::from_millis(millis), 20_000);
                (e.mean, e.others) = (Duration::from_micros(1_800), Some(1.9));
            })
        };
        assert_eq!(waits(3_600), ["starved"], "0.18 ms, and 0.03 ms during waits");
        assert!(waits(2_800).is_empty());
    }

    #[test]
    fn a_server_without_cores_is_starved() {
        // Two of 1,000 requests a second are in flight.
        let waiting = |threads, others| {
            kinds(|e| {
                (e.server_waiting, e.others) = (threads, others);
                e.mean = Duration::from_millis(2);
            })
        };
        assert_eq!(waiting(0.21, Some(0.3)), ["starved-server"]);
        assert!(waiting(0.19, Some(0.3)).is_empty());
        assert!(waiting(1.9, Some(0.29)).is_empty(), "by itself and the generator");
        assert!(waiting(1.9, None).is_empty(), "another machine");
        let unknown = kinds(|e| (e.server_waiting, e.others) = (1.9, Some(2.0)));
        assert!(unknown.is_empty(), "the generator reports no response times");
    }

    #[test]
    fn a_request_at_the_edge_of_a_window_is_no_other_rate() {
        let found = |requests, seconds| {
            kinds(|e| {
                (e.requests, e.window) = (requests, Duration::from_secs_f64(seconds));
                (e.offered, e.throughput) = (Some(5.0), requests as f64 / seconds);
            })
        };
        assert!(found(50, 9.8).is_empty(), "5.1 a second");
        assert_eq!(found(45, 9.8), ["offered"], "4.6 a second");
    }

    #[test]
    fn a_slow_server_allows_at_most_five_milliseconds_of_lag() {
        let slow = |lag| kinds(|e| (e.p99, e.send_lag) = (Duration::from_secs(1), lag));
        assert!(slow(Duration::from_micros(4_900)).is_empty());
        assert_eq!(slow(Duration::from_micros(5_100)), ["send-lag"]);
    }

    #[test]
    fn a_saturated_server_excuses_a_busy_generator_in_a_closed_model_only() {
        let busy = |offered, server| {
            kinds(|e| {
                (e.generator, e.offered, e.server) = (0.99, offered, server);
            })
        };
        assert!(busy(None, Some(0.99)).is_empty());
        assert_eq!(busy(None, Some(0.5)), ["generator"]);
        assert_eq!(busy(None, None), ["generator"]);
        assert_eq!(busy(Some(1000.0), Some(0.99)), ["generator"]);
    }

    #[test]
    fn cpu_shares_of_a_very_short_run_are_not_checked() {
        let after = |window: Duration| {
            kinds(|e| {
                (e.window, e.offered) = (window, None);
                e.throughput = e.requests as f64 / window.as_secs_f64();
                (e.generator, e.steal) = (1.0, 0.14);
            })
        };
        assert!(after(Duration::from_millis(99)).is_empty());
        assert_eq!(after(Duration::from_millis(100)), ["generator", "steal"]);
    }
}
