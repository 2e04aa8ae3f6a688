//! What makes a measurement one that cannot be believed.
//!
//! A figure is INVALID when the generator, the machine or the arithmetic had a part in it, however
//! good it looks. Each rule is a variant of [`Flaw`] that says in words what was found.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Largest share of requests with unexpected errors in a run. A round of the protocol counts only
/// with none at all.
pub const ERRORS: f64 = 0.001;
/// Share of a core beyond which the generator's own threads hold the load up.
const GENERATOR: f64 = 0.90;
/// Of a shorter run shares of time say nothing: the clocks that they are of tick every 10 ms.
const LONG_ENOUGH: Duration = Duration::from_millis(100);
/// Share of a core beyond which a server's thread is saturated: whoever drives it in a closed
/// model may then be busy as well.
const SATURATED: f64 = 0.95;
/// Largest share of time in which the generator could not run.
const HELD_UP: f64 = 0.05;
/// Largest share of time that the host took away.
const STEAL: f64 = 0.05;
/// Largest send lag, whatever the latency.
const LAG: Duration = Duration::from_millis(5);
/// How far offered and achieved rate may be apart, and requests ÷ throughput and the window.
const APART: f64 = 0.01;

/// What is known about a round or a run that has to be judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Requests sent in the window.
    pub requests: u64,
    /// Those of them that failed; statuses declared as expected are none.
    pub errors: u64,
    /// The most frequent kind of failure.
    pub first_error: Option<String>,
    /// Length of the window that counts.
    pub window: Duration,
    /// Requests a second, as reported.
    pub throughput: f64,
    /// In an open model, the rate that was asked for, in requests a second.
    pub offered: Option<f64>,
    /// Iterations that an open model left out because too many were in flight.
    pub dropped: u64,
    /// 99th percentile of how much later than intended requests were sent.
    pub send_lag: Duration,
    /// Grid on which an open model sends: lag up to it is meant.
    pub quantum: Duration,
    /// 99th percentile of the response time.
    pub p99: Duration,
    /// CPU of the generator's busiest thread, 1 for a whole core.
    pub generator: f64,
    /// How long the generator could not run: it was stopped, or had no core.
    pub held_up: Duration,
    /// CPU of the server's busiest thread, if it was observed.
    pub server: Option<f64>,
    /// Share of the host's time that its hypervisor gave to others.
    pub steal: f64,
    /// Whether queues were still not empty when they should have been.
    pub undrained: bool,
    /// Requests sent and requests that the server counted, where they differ.
    pub miscounted: Option<(u64, u64)>,
}

/// Why a measurement cannot be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Flaw {
    /// Requests were sent later than intended.
    SendLag {
        /// 99th percentile of the lag, in milliseconds.
        lag_ms: f64,
        /// How much was allowed, in milliseconds.
        allowed_ms: f64,
    },
    /// The generator was at its limit.
    Generator {
        /// Share of a core.
        cpu: f64,
    },
    /// The generator was stopped, or had no core.
    HeldUp {
        /// For how long, in seconds.
        seconds: f64,
        /// Of how long.
        of: f64,
    },
    /// The hypervisor gave the host's time to others.
    Steal {
        /// Share of the time.
        share: f64,
    },
    /// An open model left iterations out.
    Dropped {
        /// How many.
        iterations: u64,
    },
    /// An open model did not reach the rate it was asked for.
    Offered {
        /// Requests a second asked for.
        offered: f64,
        /// Requests a second reached.
        achieved: f64,
    },
    /// Requests ÷ throughput is not the time that was measured.
    Window {
        /// Seconds that requests ÷ throughput gives.
        implied: f64,
        /// Seconds measured.
        seconds: f64,
    },
    /// Too many requests failed.
    Errors {
        /// How many failed.
        errors: u64,
        /// Of how many.
        requests: u64,
        /// The most frequent kind.
        first: String,
    },
    /// Nothing was answered at all.
    Nothing,
    /// Queues were not empty before it began.
    Undrained,
    /// Requests sent and requests counted by the server differ.
    Miscounted {
        /// Requests that the generator sent.
        sent: u64,
        /// Requests that the server counted.
        counted: u64,
    },
}

impl Flaw {
    /// Whether it is about what the server answered, not about how it was measured: counts of
    /// errors stay true where latencies do not.
    #[must_use]
    pub fn is_the_servers(&self) -> bool {
        matches!(self, Self::Errors { .. } | Self::Nothing)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SendLag { lag_ms, allowed_ms } => write!(
                out,
                "requests were sent late: p99 of the send lag is {lag_ms:.2} ms, at most {allowed_ms:.2} ms are allowed"
            ),
            Self::Generator { cpu } => write!(
                out,
                "the generator was at its limit: its busiest thread used {:.0} % of a core",
                100.0 * cpu
            ),
            Self::HeldUp { seconds, of } => write!(
                out,
                "the generator could not run for {seconds:.2} of {of:.2} s: it was stopped, or had no core"
            ),
            Self::Steal { share } => {
                write!(out, "the hypervisor took {:.1} % of the machine's time away", 100.0 * share)
            }
            Self::Dropped { iterations } => {
                write!(
                    out,
                    "{iterations} iterations were dropped: too many requests were in flight"
                )
            }
            Self::Offered { offered, achieved } => {
                write!(out, "{offered:.1} requests/s were offered, {achieved:.1} achieved")
            }
            Self::Window { implied, seconds } => write!(
                out,
                "requests ÷ throughput is {implied:.2} s, but {seconds:.2} s were measured"
            ),
            Self::Errors { errors, requests, first } => {
                write!(out, "{errors} of {requests} requests failed, most of them: {first}")
            }
            Self::Nothing => write!(out, "no request was answered"),
            Self::Undrained => write!(out, "queues were not empty before it began"),
            Self::Miscounted { sent, counted } => {
                write!(out, "{sent} requests were sent, the server counted {counted}")
            }
        }
    }
}

/// Everything that is wrong with a round or run of which at most `allowed_errors` (a share, such as
/// [`ERRORS`]) may fail.
#[must_use]
pub fn flaws(evidence: &Evidence, allowed_errors: f64) -> Vec<Flaw> {
    let mut found = Vec::new();
    let mut check = |wrong: bool, flaw: Flaw| {
        if wrong {
            found.push(flaw);
        }
    };
    let Evidence { requests, errors, window, throughput, .. } = *evidence;
    let share = errors as f64 / requests.max(1) as f64;
    let first = evidence.first_error.clone().unwrap_or_else(|| "not known".to_owned());
    check(requests == 0, Flaw::Nothing);
    check(share > allowed_errors, Flaw::Errors { errors, requests, first });
    check(evidence.undrained, Flaw::Undrained);
    let (sent, counted) = evidence.miscounted.unwrap_or_default();
    check(sent != counted, Flaw::Miscounted { sent, counted });
    check(evidence.dropped > 0, Flaw::Dropped { iterations: evidence.dropped });
    if let Some(offered) = evidence.offered {
        // The window ends with the last answer, which is later than the last request by its time.
        let rate = |window: Duration| requests as f64 / window.as_secs_f64().max(f64::MIN_POSITIVE);
        let achieved = rate(window);
        let at_most = rate(window.saturating_sub(evidence.p99));
        let reached = achieved <= offered && offered <= at_most;
        let wrong = !reached && apart(achieved, offered) && apart(at_most, offered);
        check(wrong, Flaw::Offered { offered, achieved });
    }
    if throughput > 0.0 {
        let (implied, seconds) = (requests as f64 / throughput, window.as_secs_f64());
        check(apart(implied, seconds), Flaw::Window { implied, seconds });
    }
    let allowed = evidence.quantum.max(LAG.min(evidence.p99 / 10));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    check(
        evidence.send_lag > allowed,
        Flaw::SendLag {
            lag_ms: milliseconds(evidence.send_lag),
            allowed_ms: milliseconds(allowed),
        },
    );
    // In a closed model a generator waits for the server: if that was saturated, it held nothing up.
    let excused =
        evidence.offered.is_none() && evidence.server.is_some_and(|busiest| busiest >= SATURATED);
    if evidence.window >= LONG_ENOUGH {
        let at_its_limit = evidence.generator > GENERATOR && !excused;
        check(at_its_limit, Flaw::Generator { cpu: evidence.generator });
        // However busy the server was: while nobody sends, nothing is measured.
        let (seconds, of) = (evidence.held_up.as_secs_f64(), evidence.window.as_secs_f64());
        check(seconds > HELD_UP * of, Flaw::HeldUp { seconds, of });
        check(evidence.steal > STEAL, Flaw::Steal { share: evidence.steal });
    }
    found
}

/// Whether `found` is more than 1 % off `expected`.
fn apart(found: f64, expected: f64) -> bool {
    (found - expected).abs() > APART * expected.abs()
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
        let kind = |flaw: &Flaw| {
            serde_json::to_value(flaw).expect("plain")["kind"].as_str().unwrap_or("").to_owned()
        };
        flaws(&evidence, ERRORS).iter().map(kind).collect()
    }

    #[test]
    fn nothing_is_wrong_with_a_good_run() {
        assert_eq!(flaws(&fine(), ERRORS), Vec::new());
        assert!(kinds(|e| e.errors = 10).is_empty(), "0.1 % is still allowed");
    }

    #[test]
    fn a_round_may_be_judged_more_strictly() {
        let one = Evidence { errors: 1, ..fine() };
        assert_eq!(flaws(&one, 0.0).len(), 1);
        assert!(flaws(&one, ERRORS).is_empty());
    }

    #[test]
    fn every_rule_finds_its_flaw() {
        assert_eq!(kinds(|e| e.send_lag = Duration::from_millis(2)), ["send-lag"]);
        assert_eq!(kinds(|e| e.generator = 0.91), ["generator"]);
        assert_eq!(kinds(|e| e.steal = 0.06), ["steal"]);
        assert_eq!(kinds(|e| e.held_up = Duration::from_millis(501)), ["held-up"]);
        assert!(kinds(|e| e.held_up = Duration::from_millis(499)).is_empty());
        assert_eq!(kinds(|e| e.dropped = 1), ["dropped"]);
        assert_eq!(kinds(|e| e.offered = Some(1020.0)), ["offered"]);
        assert_eq!(kinds(|e| e.throughput = 900.0), ["window"]);
        assert_eq!(kinds(|e| e.undrained = true), ["undrained"]);
        assert_eq!(kinds(|e| e.miscounted = Some((5, 4))), ["miscounted"]);
        assert_eq!(kinds(|e| e.errors = 20), ["errors"]);
        assert!(kinds(|e| e.requests = 0).contains(&"nothing".to_owned()));
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
    fn shares_of_a_run_of_a_few_clock_ticks_say_nothing() {
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
