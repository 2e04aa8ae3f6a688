//! Output of other load generators.

use super::ForeignResult;
use crate::figures::Times;
use regex::Regex;
use serde_json::Value;

/// Groups of a regular expression in a text.
fn groups<const N: usize>(pattern: &str, text: &str) -> Option<[String; N]> {
    let found = Regex::new(pattern).ok()?.captures(text)?;
    let group = |at| found.get(at).map(|group| group.as_str().to_owned());
    let all: Vec<String> = (1..=N).map(group).collect::<Option<_>>()?;
    all.try_into().ok()
}

fn number(pattern: &str, text: &str) -> Option<f64> {
    let [number] = groups(pattern, text)?;
    number.parse().ok()
}

fn count(pattern: &str, text: &str) -> u64 {
    groups(pattern, text).and_then(|[number]: [String; 1]| number.parse().ok()).unwrap_or(0)
}

/// Milliseconds of `466.00us`, `3.28ms`, `1.02s` or `1.50m`.
fn milliseconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3600e3,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

/// Milliseconds behind a pattern; 0 without.
fn time(pattern: &str, text: &str) -> f64 {
    groups(pattern, text).and_then(|[time]: [String; 1]| milliseconds(&time)).unwrap_or(0.0)
}

/// wrk and wrk2.
pub(super) fn wrk(text: &str) -> Option<ForeignResult> {
    let [requests, time_text] = groups(r"(\d+) requests in ([\d.]+\w+),", text)?;
    let socket: [String; 4] =
        groups(r"connect (\d+), read (\d+), write (\d+), timeout (\d+)", text).unwrap_or_default();
    let socket: u64 = socket.iter().filter_map(|count| count.parse::<u64>().ok()).sum();
    let percentile =
        |percent: &str| time(&format!(r"(?m)^\s*{percent}(?:\.0+)?%\s+([\d.]+\w+)"), text);
    Some(ForeignResult {
        requests: requests.parse().ok()?,
        errors: socket + count(r"Non-2xx or 3xx responses: (\d+)", text),
        seconds: milliseconds(&time_text)? / 1e3,
        times: Times {
            mean: time(r"Latency\s+([\d.]+\w+)", text),
            max: time(r"Latency\s+[\d.]+\w+\s+[\d.]+\w+\s+([\d.]+\w+)", text),
            p50: percentile("50"),
            p75: percentile("75"),
            p90: percentile("90"),
            p99: percentile("99"),
            p99_9: time(r"(?m)^\s*99\.900%\s+([\d.]+\w+)", text),
            ..Times::default()
        },
    })
}

/// h2load.
pub(super) fn h2load(text: &str) -> Option<ForeignResult> {
    let [seconds] = groups(r"finished in ([\d.]+\w+),", text)?;
    let [done, failed] = groups(r"requests: .* (\d+) done, \d+ succeeded, (\d+) failed", text)?;
    let [min, max, mean] =
        groups(r"time for request:\s+([\d.]+\w+)\s+([\d.]+\w+)\s+([\d.]+\w+)", text)
            .unwrap_or_default();
    let time = |text: &str| milliseconds(text).unwrap_or(0.0);
    Some(ForeignResult {
        requests: done.parse().ok()?,
        errors: failed.parse().ok()?,
        seconds: milliseconds(&seconds)? / 1e3,
        times: Times { min: time(&min), max: time(&max), mean: time(&mean), ..Times::default() },
    })
}

/// ab. Failed requests include responses of another length, which are no failures.
pub(super) fn ab(text: &str) -> Option<ForeignResult> {
    let percentile =
        |percent: &str| number(&format!(r"(?m)^\s*{percent}%\s+(\d+)"), text).unwrap_or(0.0);
    let failed = count(r"Failed requests:\s+(\d+)", text);
    let by_length = count(r"Length: (\d+), Exceptions", text);
    Some(ForeignResult {
        requests: number(r"Complete requests:\s+(\d+)", text)? as u64,
        errors: failed.saturating_sub(by_length) + count(r"Non-2xx responses:\s+(\d+)", text),
        seconds: number(r"Time taken for tests:\s+([\d.]+) seconds", text)?,
        times: Times {
            mean: number(r"Total:\s+\d+\s+(\d+)", text).unwrap_or(0.0),
            p50: percentile("50"),
            p75: percentile("75"),
            p90: percentile("90"),
            p95: percentile("95"),
            p98: percentile("98"),
            p99: percentile("99"),
            max: percentile("100"),
            ..Times::default()
        },
    })
}

/// hey.
pub(super) fn hey(text: &str) -> Option<ForeignResult> {
    let seconds = |pattern: &str| number(pattern, text).unwrap_or(0.0) * 1e3;
    let percentile = |percent: &str| seconds(&format!(r"(?m)^\s*{percent}%+ in ([\d.]+) secs"));
    let statuses = Regex::new(r"(?m)^\s*\[(\d+)\]\s+(\d+) responses").ok()?;
    let (mut requests, mut errors) = (0, 0);
    for found in statuses.captures_iter(text) {
        let responses: u64 = found[2].parse().ok()?;
        requests += responses;
        if found[1].parse::<u16>().is_ok_and(|status| status >= 400) {
            errors += responses;
        }
    }
    let failures = Regex::new(r"(?m)^\s*\[(\d+)\]\s+\D").ok()?;
    let behind = text.split("Error distribution:").nth(1).unwrap_or_default();
    errors += failures
        .captures_iter(behind)
        .filter_map(|found| found[1].parse::<u64>().ok())
        .sum::<u64>();
    Some(ForeignResult {
        requests,
        errors,
        seconds: number(r"Total:\s+([\d.]+) secs", text)?,
        times: Times {
            mean: seconds(r"Average:\s+([\d.]+) secs"),
            min: seconds(r"Fastest:\s+([\d.]+) secs"),
            max: seconds(r"Slowest:\s+([\d.]+) secs"),
            p50: percentile("50"),
            p75: percentile("75"),
            p90: percentile("90"),
            p95: percentile("95"),
            p99: percentile("99"),
            ..Times::default()
        },
    })
}

/// oha, as JSON. Requests that the end of the load cut off are no errors.
pub(super) fn oha(text: &str) -> Option<ForeignResult> {
    let json: Value = serde_json::from_str(text.trim()).ok()?;
    let summary = &json["summary"];
    let time = |value: &Value| value.as_f64().unwrap_or(0.0) * 1e3;
    let percentile = |name: &str| time(&json["latencyPercentiles"][name]);
    let (mut requests, mut errors) = (0, 0);
    for (status, count) in json["statusCodeDistribution"].as_object()? {
        let responses = count.as_u64()?;
        requests += responses;
        if status.parse::<u16>().is_ok_and(|status| status >= 400) {
            errors += responses;
        }
    }
    for (error, count) in json["errorDistribution"].as_object().into_iter().flatten() {
        if !error.contains("deadline") {
            errors += count.as_u64().unwrap_or(0);
        }
    }
    Some(ForeignResult {
        requests,
        errors,
        seconds: summary["total"].as_f64()?,
        times: Times {
            mean: time(&summary["average"]),
            min: time(&summary["fastest"]),
            max: time(&summary["slowest"]),
            p50: percentile("p50"),
            p75: percentile("p75"),
            p90: percentile("p90"),
            p95: percentile("p95"),
            p99: percentile("p99"),
            p99_9: percentile("p99.9"),
            p99_99: percentile("p99.99"),
            ..Times::default()
        },
    })
}
