//! What is told by OTLP, and to whom.

use super::keys;
use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::{Scheme, Target, Telemetry, Traces, Upstream};
use crate::finding::codes;
use crate::units;
use std::time::Duration;

/// The shortest time from one report of metrics to the next.
const SHORTEST: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// `telemetry`.
    pub(super) fn telemetry(
        &mut self,
        root: &Fields<'_>,
        upstreams: &[Option<Upstream>],
    ) -> Option<Telemetry> {
        let fields = root.object("telemetry", &keys::TELEMETRY)?;
        let traces = fields.object("traces", &keys::TRACES).map(|traces| Traces {
            share: traces.text("share").and_then(|text| units::percent(text).ok()).unwrap_or(1000),
            most: traces.number("most", 200),
        });
        let metrics = fields.object("metrics", &keys::METRICS).map(|metrics| {
            let every = metrics.seconds("every", 60);
            if let Some(node) = metrics.get("every").filter(|_| every < SHORTEST) {
                let message = "metrics are exported at most once a second";
                self.report.error(codes::BAD_VALUE, node.at, message);
            }
            every
        });
        if fields.get("traces").is_none() && fields.get("metrics").is_none() {
            let message = "neither `traces` nor `metrics` is set";
            self.report
                .error(codes::MISSING_KEY, fields.node().at, message)
                .help("for example `traces: {share: 10%}`, `metrics: {every: 60s}`");
        }
        let resource = fields.members("resource").iter().filter_map(|member| {
            let value = member.value.text()?.trim_end_matches(['\r', '\n']);
            Some((member.key.clone(), value.to_owned()))
        });
        let resource = resource.collect();
        let sink = self.sink(&fields)?;
        let upstream = upstreams.get(sink.upstream.0).and_then(Option::as_ref);
        let is_open = |target: &Target| target.scheme == Scheme::Http && !is_local(&target.host);
        if !fields.bool("plain").unwrap_or(false)
            && let Some(node) = fields.get("to")
            && upstream.is_some_and(|upstream| upstream.targets.iter().any(is_open))
        {
            let message = "telemetry contains paths, addresses and names: `http` is allowed for \
                this machine only";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("use `https://…`, or `plain: true` in a protected network");
        }
        Some(Telemetry { sink, traces, metrics, resource })
    }
}
