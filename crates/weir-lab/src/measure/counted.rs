//! A round with its sums, and its figures.

use super::RoundUsage;
use super::observed::ObservedLoad;
use crate::figures::Times;
use crate::results::{Drained, Resources, RoundFigures, Total};
use crate::stats::median;
use std::collections::BTreeMap;
use std::time::Duration;

/// A round with its sums.
#[derive(Debug)]
pub(super) struct CountedRound {
    pub(super) number: usize,
    pub(super) total: Total,
    pub(super) observed: ObservedLoad,
    pub(super) resources: Option<Resources>,
    /// Response times by another generator.
    pub(super) foreign_times: Option<Times>,
    /// Increase of the counters of the scenario.
    pub(super) counters: Vec<(String, f64)>,
}

pub(super) fn figures(number: usize, total: &Total, names: &[String]) -> RoundFigures {
    let all = total.figures(names).into_iter().next().unwrap_or_default();
    RoundFigures {
        number,
        throughput: all.throughput,
        errors: all.error_share(),
        response: all.response,
        ..RoundFigures::default()
    }
}

impl CountedRound {
    /// Figures of the round.
    pub(super) fn figures(&self, names: &[String]) -> RoundFigures {
        let mut found = figures(self.number, &self.total, names);
        found.resources.clone_from(&self.resources);
        let requests = self.total.all().samples().max(1) as f64;
        let counters = self.counters.iter();
        found.counters = counters.map(|(name, count)| (name.clone(), count / requests)).collect();
        if let Some(times) = &self.foreign_times {
            found.response.clone_from(times);
        }
        found
    }
}

/// Response times of several rounds by other generators: means are weighted by the requests, percentiles
/// are medians of the rounds, as there is no histogram. A figure that a round does not have is 0. `None` if
/// none of the rounds is by another generator.
pub(super) fn foreign_times<'r>(rounds: impl Iterator<Item = &'r CountedRound>) -> Option<Times> {
    let times = |round: &'r CountedRound| {
        Some((round.foreign_times.as_ref()?, round.total.all().samples() as f64))
    };
    let rounds: Vec<(&Times, f64)> = rounds.filter_map(times).collect();
    let of = |figure: fn(&Times) -> f64| -> Vec<f64> {
        let figures: Vec<f64> = rounds.iter().map(|(times, _)| figure(times)).collect();
        if figures.iter().all(|time| *time > 0.0) { figures } else { Vec::new() }
    };
    let middle = |figure: fn(&Times) -> f64| match &of(figure)[..] {
        [] => 0.0,
        figures => median(figures),
    };
    let requests: f64 = rounds.iter().map(|(_, requests)| requests).sum();
    let weighted: f64 =
        of(|times| times.mean).iter().zip(&rounds).map(|(mean, (_, n))| mean * n).sum();
    (!rounds.is_empty()).then(|| Times {
        mean: weighted / requests.max(1.0),
        deviation: 0.0,
        min: of(|times| times.min).into_iter().reduce(f64::min).unwrap_or(0.0),
        p50: middle(|times| times.p50),
        p75: middle(|times| times.p75),
        p90: middle(|times| times.p90),
        p95: middle(|times| times.p95),
        p98: middle(|times| times.p98),
        p99: middle(|times| times.p99),
        p99_9: middle(|times| times.p99_9),
        p99_99: middle(|times| times.p99_99),
        max: of(|times| times.max).into_iter().reduce(f64::max).unwrap_or(0.0),
    })
}

/// Response times of each kind of request, if there are several.
pub(super) fn by_label(total: &Total, names: &[String]) -> BTreeMap<String, Times> {
    let mut figures = total.figures(names);
    if figures.len() <= 2 {
        return BTreeMap::new();
    }
    // The first figures are those of all requests.
    figures.drain(1..).map(|one| (one.label, one.response)).collect()
}

/// Resources of a round per request and second.
pub(super) fn resources(usage: &RoundUsage, total: &Total, observed: &ObservedLoad) -> Resources {
    let requests = total.all().samples().max(1) as f64;
    let seconds = usage.length.as_secs_f64().max(f64::MIN_POSITIVE);
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / requests;
    let servers = usage.server.unwrap_or_default() + usage.backend.unwrap_or_default();
    let used = usage.generator + usage.lab + servers;
    let others = usage.busy.saturating_sub(used).as_secs_f64() / seconds;
    let whole_machine =
        usage.idle_others.map(|_| usage.busy.saturating_sub(usage.generator + usage.lab));
    let idle = usage.server.zip(usage.server_cores).filter(|_| whole_machine.is_none());
    let idle = idle.map(|(server, cores)| {
        (1.0 - server.as_secs_f64() / seconds / cores.max(1) as f64).max(0.0)
    });
    let memory = observed.memory.max(usage.server_memory);
    let known = |figure: u64| (figure > 0).then_some(figure);
    let drained = usage.drained.map(|drained| Drained {
        ms: drained.time.as_secs_f64() * 1e3,
        cpu_us: micros(drained.server),
        throughput: requests / (total.window() + drained.time.as_secs_f64()).max(f64::MIN_POSITIVE),
    });
    Resources {
        cpu_us: whole_machine.or(usage.server).map(micros),
        memory: known(memory),
        idle,
        backend: usage.backend.map(|backend| backend.as_secs_f64() / seconds),
        generator_cpu_us: micros(usage.generator),
        others: usage.idle_others.unwrap_or(others),
        steal: usage.steal,
        anonymous_memory: known(usage.anonymous_memory),
        disk: usage
            .drained
            .map_or(usage.disk, |drained| drained.disk)
            .map(|bytes| bytes as f64 / requests),
        descriptors: known(observed.descriptors),
        generator_memory: known(usage.generator_memory),
        start_ms: usage.start.map(|time| time.as_secs_f64() * 1e3),
        thread_cpu_us: usage.thread.map(micros),
        drained,
    }
}
