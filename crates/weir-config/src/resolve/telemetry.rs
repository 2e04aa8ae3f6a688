//! What is told by OTLP, and to whom.

use super::{Fields, Resolver};
use crate::config::{Telemetry, Traces};
use crate::finding::codes;
use crate::keys;
use crate::units;
use std::time::Duration;

/// The shortest time from one report of metrics to the next.
const SHORTEST: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// `telemetry`.
    pub(super) fn telemetry(&mut self, root: &Fields<'_>) -> Option<Telemetry> {
        let fields = root.object("telemetry", &keys::TELEMETRY)?;
        let traces = fields.object("traces", &keys::TRACES).map(|traces| Traces {
            share: traces.text("share").and_then(|text| units::percent(text).ok()).unwrap_or(1000),
            most: traces.number("most", 200),
        });
        let metrics = fields.object("metrics", &keys::METRICS).map(|metrics| {
            let every = metrics.seconds("every", 60);
            if let Some(node) = metrics.get("every").filter(|_| every < SHORTEST) {
                let message = "metrics are told once a second at most";
                self.report.error(codes::BAD_VALUE, node.at, message);
            }
            every
        });
        if fields.get("traces").is_none() && fields.get("metrics").is_none() {
            let message = "this tells nothing: neither `traces` nor `metrics` is there";
            self.report
                .error(codes::MISSING_KEY, fields.node().at, message)
                .help("for example `traces: {share: 10%}`, `metrics: {every: 60s}`");
        }
        let resource = fields.members("resource").iter().filter_map(|member| {
            let value = member.value.text()?.trim_end_matches(['\r', '\n']);
            Some((member.key.clone(), value.to_owned()))
        });
        let resource = resource.collect();
        Some(Telemetry { sink: self.sink(&fields)?, traces, metrics, resource })
    }
}
