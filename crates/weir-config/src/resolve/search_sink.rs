//! Sinks of transactions.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::search_sink::{SearchSinkKeep, SearchSinkKeys};
use crate::config::tracker::TrackerKeys;
use crate::config::{KafkaSink, Scheme, Target, Tracker, Upstream};
use std::collections::HashSet;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_model::search_sink::SearchSink;

/// Maximum number of sinks: each is a follower of the journal.
const MAX_SINKS: usize = 8;
/// Maximum length of the name of a sink.
const MAX_NAME: usize = 32;

impl Resolver<'_> {
    /// `tracker.sinks`: those of OpenSearch, and those of Kafka.
    pub(super) fn sinks(
        &mut self,
        root: &Fields<'_>,
        upstreams: &[Option<Upstream>],
        recorded: &Tracker,
    ) -> (Vec<SearchSink>, Vec<KafkaSink>) {
        let (mut search, mut kafka) = (Vec::new(), Vec::new());
        let Some(tracker) = root.object("tracker", TrackerKeys::SHAPE) else {
            return (search, kafka);
        };
        let nodes = tracker.many("sinks");
        if let Some(node) = nodes.get(MAX_SINKS) {
            let message = format!("more than {MAX_SINKS} sinks");
            self.report.error(codes::TOO_MANY, node.at, message);
        }
        if let Some(node) = nodes.first().filter(|_| !recorded.enabled) {
            let message = "without `tracker.enabled` there are no transactions for the sink";
            self.report.error(codes::CONFLICT, node.at, message);
        }
        let mut names = HashSet::new();
        for node in nodes.iter().take(MAX_SINKS) {
            let fields = Fields::new(node, SearchSinkKeys::SHAPE);
            let name = if fields.get("kafka").is_some() {
                let Some(sink) = self.kafka_sink(&fields) else { continue };
                kafka.push(sink);
                kafka.last().map(|sink| sink.name.clone())
            } else {
                let Some(sink) = self.search_sink(&fields, upstreams, recorded) else { continue };
                search.push(sink);
                search.last().map(|sink| sink.name.clone())
            };
            if !names.insert(name) {
                let help = "set `name`";
                self.report.error(codes::DUPLICATE_NAME, node.at, "duplicate name").help(help);
            }
        }
        (search, kafka)
    }

    fn search_sink(
        &mut self,
        fields: &Fields<'_>,
        upstreams: &[Option<Upstream>],
        recorded: &Tracker,
    ) -> Option<SearchSink> {
        let node = fields.get("to")?;
        let upstream = self.http1_upstream(node, "transactions are")?;
        let SearchSinkKeys { content, max_backlog, plain } = SearchSinkKeys::read(fields);
        let target = upstreams.get(upstream.0).and_then(Option::as_ref);
        let is_open = |target: &Target| target.scheme == Scheme::Http && !is_local(&target.host);
        if !plain && target.is_some_and(|upstream| upstream.targets.iter().any(is_open)) {
            let message = "transactions contain personal data: `http` is allowed for this machine \
                only";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("use `https://…`, or `plain: true` in a protected network");
        }
        let keep = fields.object_or_empty("keep", SearchSinkKeep::SHAPE);
        let kept = |key: &str, default: Duration| match keep.get(key) {
            Some(_) => keep.duration(key).unwrap_or(default),
            None => default,
        };
        Some(SearchSink {
            name: self.sink_name(fields.get("name").unwrap_or(node))?,
            upstream,
            content,
            max_backlog,
            keep_completed: kept("completed", recorded.keep_completed),
            keep_failed: kept("failed", recorded.keep_failed),
        })
    }

    /// A name that may be a part of the name of an index and of a follower.
    pub(super) fn sink_name(&mut self, node: &Node) -> Option<String> {
        let name = node.text()?;
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.len() > MAX_NAME || !name.bytes().all(allowed) {
            let message = format!("`{name}` cannot be a part of the name of an index");
            let help =
                format!("set `name`: at most {MAX_NAME} lower-case letters, digits and hyphens");
            self.report.error(codes::BAD_VALUE, node.at, message).help(help);
            return None;
        }
        Some(name.to_owned())
    }
}
