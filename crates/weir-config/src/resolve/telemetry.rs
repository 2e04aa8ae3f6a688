//! Export by OTLP.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::telemetry::Metrics;
use crate::config::{Scheme, Target, Telemetry, Upstream};
use std::time::Duration;
use weir_document::finding::codes;

/// Minimum interval between exports of metrics.
const SHORTEST: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// `telemetry`.
    pub(super) fn telemetry(
        &mut self,
        root: &Fields<'_>,
        upstreams: &[Option<Upstream>],
    ) -> Option<Telemetry> {
        let fields = root.object("telemetry", Telemetry::SHAPE)?;
        let every = fields.object("metrics", Metrics::SHAPE).map(|own| Metrics::read(&own).every);
        let written = fields.get("metrics").and_then(|metrics| metrics.get("every"));
        if let Some(node) = written.filter(|_| every < Some(SHORTEST)) {
            let message = "metrics are exported at most once a second";
            self.report.error(codes::BAD_VALUE, node.at, message);
        }
        if fields.get("traces").is_none() && fields.get("metrics").is_none() {
            let message = "neither `traces` nor `metrics` is set";
            self.report
                .error(codes::MISSING_KEY, fields.node().at, message)
                .help("for example `traces: {share: 10%}`, `metrics: {every: 60s}`");
        }
        let telemetry = Telemetry::read(&fields, self.sink(&fields)?);
        let upstream = upstreams.get(telemetry.sink.upstream.0).and_then(Option::as_ref);
        let is_open = |target: &Target| target.scheme == Scheme::Http && !is_local(&target.host);
        if fields.bool("plain") != Some(true)
            && let Some(node) = fields.get("to")
            && upstream.is_some_and(|upstream| upstream.targets.iter().any(is_open))
        {
            let message = "telemetry contains paths, addresses and names: `http` is allowed for \
                this machine only";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("use `https://…`, or `plain: true` in a protected network");
        }
        Some(telemetry)
    }
}
